"""Reload of a run that goes on: rules, background, prefixes, `limits` and `report` are read again.

Idea: SIGHUP requests a reload, and the runtime takes it up where no program is at work: between two
instants, on Spark between two batches. `dotr reload` finds the run by the locks on its outputs. It
locks a file beside the lock file, sends the signal, and waits until the run has written its answer
into that file.
Invariant: where the configuration, or a file that it names, has an error, or where another key has
changed, nothing changes. On a terminal SIGHUP without such a file means that the terminal is gone:
it ends the run as SIGTERM does.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.errors.fallbacks import error_line
from dotr.evaluation.files.private_files import ForeignFile, open_fixed
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.pipeline.build import Pipeline, rebuilt
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.output_files import Holder, OutputLocks, Target, has_name, holder_of, lock_file, try_lock
from dotr.runtimes.pipeline.sections import Settings

if TYPE_CHECKING:
    from dotr.engine.state.migration import StateChange

RELOADED: Final = ("rules", "knowledge", "prefixes", "limits", "report")
"""The keys that a reload reads again."""

_UNCHANGED: Final = "Nothing has changed: the run goes on as it was."
_SECONDS: Final = 0.05


class Reloads:
    """The requests for a reload of one run; as a context, the handler of SIGHUP.

    Parameters:
    - `config`: the configuration as the run began with it, and `options` its `--set` options.
    - `locks`: those of the run, beside which requests are answered.
    - `on_spark`: the runtime.

    `requested`: a reload is to be taken up. `path`: that of the configuration. `on_change` is
    called with the pipeline of each reload.
    """

    def __init__(self, config: Config, options: Sequence[str], locks: OutputLocks, *, on_spark: bool) -> None:
        self.requested = False
        self.path = str(config.path)
        self.on_change: Callable[[Pipeline], None] = lambda pipeline: None
        self._under_way = self._came_meanwhile = False
        self._config, self._options, self._locks, self._on_spark = config, tuple(options), locks, on_spark
        self._before: object = None
        self._on_terminal = any(map(os.isatty, range(3)))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGHUP, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, self._before)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._on_terminal and not any(True for _ in self._requests()):
            stop = signal.getsignal(signal.SIGTERM)
            if callable(stop):
                stop(signal.SIGTERM, frame)
        elif self._under_way:
            self._came_meanwhile = True
        else:
            self.requested = True

    def take(self, pipeline: Pipeline) -> Pipeline | None:
        """The pipeline as its configuration has it now; None where it is refused, which is told.
        The reload is under way until `done` or `refuse` is called."""
        self.requested, self._under_way = False, True
        try:
            config = read_config(self._config.path, self._options)
            if problems := [*self._other_keys(config)]:
                raise Refused(problems)
            return rebuilt(config, pipeline, on_spark=self._on_spark)
        except Refused as refused:
            self.refuse(refused)
        except Exception as error:
            self._tell([f"The reload failed: {error_line(error)}", _UNCHANGED], refused=True)
        return None

    def _other_keys(self, config: Config) -> Iterator[Diagnostic]:
        """Problems (C204) of changed keys that are read once."""
        before, now = self._config.settings, config.settings
        for key in Settings.model_fields:
            if key not in RELOADED and getattr(before, key) != getattr(now, key):
                hint = f"Stop the run and start it again; or put {key} back, and reload the rest."
                message = f"{key} has changed, and a reload reads {', '.join(RELOADED[:-1])} and {RELOADED[-1]} alone"
                yield Diagnostic("C204", message, config.span(key), hint)
        if self._on_spark:
            return
        opened = [
            (f"the prefix {name}:", ("prefixes",), "take another name for the new prefix")
            for name in before.prefixes
            if now.prefixes.get(name) != before.prefixes[name]
        ] + [
            (f"limits.{key}", ("limits", key), f"put limits.{key} back, and reload the rest")
            for key in ("record", "nesting")
            if getattr(before.limits, key) != getattr(now.limits, key)
        ]
        for what, place, instead in opened:
            message = f"inputs that are open are read with {what}, which has changed"
            yield Diagnostic("C204", message, config.span(*place), f"Stop the run and start it again; or {instead}.")

    def refuse(self, refused: Refused) -> None:
        """Tell that a reload is refused."""
        self._tell([*map(str, refused.diagnostics), _UNCHANGED], refused=True)

    def refuse_ended(self) -> None:
        """Refuse a requested reload (C216) of a run that only serves what it has published."""
        if self.requested:
            self.requested, self._under_way = False, True
            self.refuse(Refused([Diagnostic("C216", "all inputs have ended: nothing is left to reload for", hint="Start the run again.")]))

    def done(self, pipeline: Pipeline, change: StateChange | None) -> None:
        """Tell what the state of the run has become (None: there was none)."""
        self.on_change(pipeline)
        lines = [f"{self._config.path} is read again, and counts from the next {'batch' if self._on_spark else 'instant'} on."]
        if change is None:
            lines.append("No instant has closed yet: there is no state.")
        else:
            lines += filter(None, [change.knowledge_warning, *map(str, change.verdicts)])
        self._tell(lines, refused=False)

    def _tell(self, lines: Sequence[str], *, refused: bool) -> None:
        text = "\n".join(lines)
        LOG.warning("%s", text)
        answer = json.dumps({"refused": refused, "text": text}).encode() + b"\n"
        for number in self._requests():
            os.pwrite(number, answer, 0)
        self._under_way = False
        if self._came_meanwhile:
            self._came_meanwhile = False
            LOG.warning("A reload was requested while another one ran, and is not done: request it again.")

    def _requests(self) -> Iterator[int]:
        """The open files of the requests that wait for an answer."""
        for lock in self._locks.files:
            with suppress(OSError):
                number = os.open(_request_file(lock), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if not try_lock(number):  # the lock of `dotr reload`, which ends with it
                        yield number
                finally:
                    os.close(number)


def background_of(spec: ProgramSpec) -> str:
    """The digest of the background of a run in process: of the texts, and of the files of graphs by
    their size and time of change, since their former content is gone."""

    def mark(path: str) -> list[object]:
        with suppress(OSError):
            found = os.stat(path)
            return [path, found.st_ino, found.st_size, found.st_mtime_ns]
        return [path]

    settings = [spec.entailment.value, spec.axiomatic, spec.inconsistent.value, spec.reading.to_list()]
    files = [*spec.graphs, *(path for _, path in spec.reading.imports)]
    return repr([[document.text for document in spec.datalog], [mark(path) for path in files], *settings])


def request_reload(targets: Sequence[Target]) -> tuple[bool, str] | None:
    """The answer of the run that writes to one of some targets, True if it has reloaded, and its
    text; None where no run does.

    Raises `Refused` (C216) where the run is on another machine, cannot reload, or is reloading.
    """
    found = ((target, holder) for target in targets if (holder := holder_of(target)) is not None)
    target, holder = next(found, (None, None))
    if target is None or holder is None:
        return None
    about = f"the run that writes to {target.path} ({holder})"
    if not holder.is_here:
        raise refuse("C216", f"{about} cannot be reloaded from here", hint="Reload it on the machine that it runs on.")
    if not holder.reloads:
        raise refuse("C216", f"{about} cannot be reloaded: it is of an earlier release", hint="Stop it, and start it again.")
    file = _request_file(lock_file(target))
    try:
        number, _ = open_fixed(file)
    except ForeignFile as foreign:
        raise refuse("C261", f"{about} cannot be reloaded: {file} {foreign}", hint="Remove it if nothing needs it.") from None
    if not try_lock(number):
        os.close(number)
        raise refuse("C216", f"{about} is being reloaded", hint="Wait for the end of that reload, and request it again.")
    try:
        os.ftruncate(number, 0)
        return _answer(number, target, holder)
    finally:
        if has_name(number, file):
            file.unlink()
        os.close(number)


def _answer(number: int, target: Target, holder: Holder) -> tuple[bool, str] | None:
    """The answer that the run writes into an open file; None where the run ends before."""
    with suppress(ProcessLookupError):
        os.kill(holder.process, signal.SIGHUP)
    while True:
        written = os.pread(number, os.fstat(number).st_size, 0)
        if written.endswith(b"\n"):
            data = json.loads(written)
            return not data["refused"], data["text"]
        if holder_of(target) != holder:
            return None
        time.sleep(_SECONDS)


def _request_file(lock: Path) -> Path:
    return lock.with_suffix(".reload")
