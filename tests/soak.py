"""Kills a pipeline on Spark again and again until it is done, and holds its output against a run in process that nobody disturbed.

    python -m tests.soak [--kills 24] [--minutes 30] [--seed 1] [--master "local[2]"] [--only files|live] [--who all worker …] [--amid]

What is killed, always with SIGKILL: everything at once (`all`), the driver's Python alone, its JVM alone, a Python worker, which reads or
holds state, the daemon that workers are forked from, or the planner of the source. After the first three the command is given again, as a
supervisor would; the others the run must get over itself. A kill falls into a phase of a batch, chosen at random: while its reading tasks
run, while its state or its output is written, or between two batches; some fall into the start of a run. With `--amid` all fall into a
batch that is planned and not committed. Every kill is printed with its batch and its phase.

`files` are bounded: NDJSON, CSV, TriG and N-Quads, of which some are late. `live` has a watched folder and standard input beside a file.
The program has all four languages. Its rules have timers, delayed anchors, negation, aggregates, recursion, consumption, and a second layer
under another key; its other units read each other's events, with a key and without one. Their state is in three buckets. Each round is a
run from its first element to its last; rounds follow until there were enough kills. Held against the undisturbed run are all sinks, line
for line, and the dead letters; at every kill all files that can be seen must be whole, and must stay what they are.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyoxigraph

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.standard_input_spool import copied_lines
from tests.runtimes.spark.test_spark_run import ROOMS, RULES, WHOLE
from tests.support.outputs import joined
from tests.support.paths import TESTS
from tests.support.victims import AMID, SURVIVED, WHO, Found, Phase, Run, batch_phase

_KILLS_A_ROUND = 12
_IDLE_SECONDS = 15
"""Without a batch under way; then more is fed, and any of the phases will do."""
_LOOK_SECONDS = 0.005
"""Between two looks at the phase of the batch, of which the shortest takes some hundredths of a second."""
_START_SECONDS = 60
"""Of a run, without a batch under way."""
PHASES = {
    "worker": (Phase.TASKS, Phase.STATE, Phase.BETWEEN),
    "daemon": (Phase.TASKS, Phase.STATE, Phase.BETWEEN),
    "planner": (Phase.BETWEEN, Phase.TASKS),
}
"""The phases in which a process has work; the others, all."""
_TO_THE_END = ("--set", "input.1.watch=false")
"""Options of a start that ends with the input, where the folder would be watched for ever."""
UNITS = TESTS / "checkpoints" / "units"
"""Units of all four languages, which read each other, with and without a key."""
OUTPUTS = {"o.ndjson": "ndjson", "o.trig": "trig", "o.nq": "nquads"}

FILES = """  - {{ name: sorted, format: ndjson, path: a*.ndjson }}
  - {{ name: loose, format: ndjson, path: b.ndjson, lateness: 4 s }}
  - {{ name: rows, format: csv, path: c.csv.gz, time: t, map: "[] :room :r{{room}} ; :value {{value}} ." }}
  - {{ name: graphs, format: trig, path: g.trig, lateness: 2 s }}
  - {{ name: quads, format: nquads, path: q.nq }}
"""
LIVE = """  - {{ name: sorted, format: ndjson, path: a1.ndjson }}
  - {{ name: loose, format: ndjson, path: {loose}, lateness: 4 s }}
  - {{ name: rows, format: csv, path: {rows}, time: t, map: "[] :room :r{{room}} ; :value {{value}} ." }}
"""
CONFIG = """name: soak
prefixes: {{ "": "http://e/" }}
knowledge: {{ graphs: [rooms.ttl] }}
rules: [whole.dotr, jumps.dotr, {units}/units.*, {units}/wide.lars]
input:
{inputs}
output:
{outputs}
dead_letter: {out}/dead.ndjson
spark: {{ master: "{master}", checkpoint: {out}/checkpoint, batch: {batch}, buckets: 3 }}
"""


def inputs(folder: Path, choose: random.Random, elements: int) -> None:
    """Five kinds of files, out of order here and there, with elements that are late or cannot be read."""

    def graph() -> str:
        return f"[] :room :r{choose.randrange(6)} ; :value {choose.randrange(0, 100, 5)} ."

    def line(at: int) -> str:
        broken = ["no JSON\n", json.dumps({"time": at, "graph": "no Turtle"}) + "\n", json.dumps({"time": at, "graph": ""}) + "\n"]
        kind = choose.randrange(40)
        return broken[kind] if kind < len(broken) else json.dumps({"time": at, "graph": graph()}) + "\n"

    times = sorted(choose.randrange(elements // 2) for _ in range(elements))
    (folder / "a1.ndjson").write_text("".join(map(line, times[::2])))
    (folder / "a2.ndjson").write_text("".join(line(at - (30 if choose.random() < 0.05 else 0)) for at in times[1::2]))
    (folder / "b.ndjson").write_text("".join(line(at - choose.randrange(8)) for at in times))
    rows = "".join(f"{at},{choose.randrange(6)},{choose.randrange(0, 100, 5)}\n" for at in times)
    (folder / "rows.csv").write_text("t,room,value\n" + rows + "x,1,1\n")
    with gzip.open(folder / "c.csv.gz", "wt") as file:
        file.write((folder / "rows.csv").read_text())
    stamped = "<http://www.w3.org/ns/prov#generatedAtTime>"
    number = "<http://www.w3.org/2001/XMLSchema#integer>"
    with (folder / "g.trig").open("w") as trig, (folder / "q.nq").open("w") as quads:
        trig.write("@prefix : <http://e/> .\n")
        for place, at in enumerate(times[::3]):
            trig.write(f":g{place} {stamped} {max(0, at - choose.randrange(4))} . :g{place} {{ {graph()} }}\n")
            value = f'"{choose.randrange(0, 100, 5)}"^^{number}'
            quads.write(f'<http://e/h{place}> {stamped} "{at}"^^{number} .\n')
            quads.write(f"_:b{place} <http://e/room> <http://e/r{choose.randrange(6)}> <http://e/h{place}> .\n")
            quads.write(f"_:b{place} <http://e/value> {value} <http://e/h{place}> .\n")
    (folder / "whole.dotr").write_text(WHOLE)
    (folder / "jumps.dotr").write_text(RULES)
    (folder / "rooms.ttl").write_text(ROOMS)


def configure(folder: Path, out: str, sections: str, master: str, batch: int) -> Path:
    outputs = "\n".join(f"  - {{ format: {form}, path: {out}/{name} }}" for name, form in OUTPUTS.items())
    path = folder / f"{out}.yaml"
    path.write_text(CONFIG.format(inputs=sections, outputs=outputs, out=out, master=master, batch=batch, units=UNITS))
    return path


def visible(folder: Path) -> dict[str, bytes]:
    """The files of all sinks, as `cat` sees them."""
    return {
        f"{sink}/{path.name}": path.read_bytes()
        for sink in (*OUTPUTS, "dead.ndjson")
        for path in sorted((folder / sink).glob("*"))
        if not path.name.startswith(".")
    }


def torn(name: str, text: bytes) -> bool:
    """True if a file is not whole."""
    try:
        if not text.endswith(b"\n"):
            return True
        if name.endswith(".ndjson"):
            any(json.loads(line) is None for line in text.splitlines())
        else:
            form = pyoxigraph.RdfFormat.TRIG if name.endswith(".trig") else pyoxigraph.RdfFormat.N_QUADS
            for _ in pyoxigraph.parse(text, form):
                pass
    except (ValueError, SyntaxError):
        return True
    return False


Sinks = dict[str, str]
Letters = Counter[tuple[object, ...]]


def results(folder: Path) -> tuple[Sinks, Letters]:
    """What all sinks hold, and the dead letters, without the names of the files: those of inputs that grow are other ones in process."""

    def text(name: str) -> str:
        path = folder / name
        files = sorted(path.glob("[0-9]*")) if path.is_dir() else [path]
        return joined(files)

    letters = map(json.loads, text("dead.ndjson").splitlines())
    return {name: text(name) for name in OUTPUTS}, Counter((x["reason"], x["input"], x["time"], x["text"]) for x in letters)


class Round:
    """One stream from its first element to its last."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        elements: int,
        master: str,
        choose: random.Random,
        found: Found,
        phases: Sequence[Phase] = tuple(Phase),
    ) -> None:
        self.folder = folder
        self.phases = phases
        self.earlier = len(found.kills)
        self.live = kind == "live"
        self.choose = choose
        self.found = found
        inputs(folder, choose, elements)
        batch = elements // 4 if not self.live else elements
        plain = LIVE.format(loose="b.ndjson", rows="rows.csv") if self.live else FILES.format()
        self.undisturbed = configure(folder, "undisturbed", plain, master, batch)
        grown = LIVE.format(loose='"d/*.ndjson", watch: true, settle: 0 s', rows='"-"')
        self.run = Run(configure(folder, "soak", grown if self.live else plain, master, batch), found)
        self.out = folder / "soak"
        self.seen: dict[str, bytes] = {}
        self.folder_lines = (folder / "b.ndjson").read_text().splitlines(keepends=True)
        self.rows = (folder / "rows.csv").read_text().splitlines(keepends=True)
        self.files = self.sent = self.first = 0
        self.is_last = False
        self._writer: int | None = None
        self._given = 0
        self._next_feed = 0.0

    # -- what goes in

    def start(self, *options: str) -> None:
        if not self.live:
            self.run.start(*options)
            return
        (self.folder / "d").mkdir(exist_ok=True)
        reader, writer = os.pipe()
        self.run.start(*options, standard=reader)
        os.close(reader)
        os.set_blocking(writer, False)
        self._writer = writer
        self._given = copied_lines(self.out / "checkpoint") or 0
        self._write(self.rows[0])

    def lost(self) -> None:
        """The driver is gone: what it had not copied is sent again."""
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
            now = copied_lines(self.out / "checkpoint") or 0
            self.sent = self.first + max(0, now - self._given - 1)

    def _write(self, text: str) -> None:
        assert self._writer is not None
        self.first = self.sent
        os.write(self._writer, text.encode())

    def feed(self, share: float = 0.004, upto: float = 1.0) -> None:
        """A little more of the stream, up to such a part of it: a file, and some lines."""
        if not self.live or time.monotonic() < self._next_feed or not (self.out / "checkpoint" / "dotr.json").exists():
            return  # what is in the folder before that would be inputs of their own
        self._next_feed = time.monotonic() + 0.3
        last = min(int(upto * len(self.folder_lines)), self.files + max(1, int(share * len(self.folder_lines))))
        if self.files < last:
            self._put_file(last)
        if self._writer is not None:
            end = min(int(upto * (len(self.rows) - 1)), self.sent + max(1, int(share * len(self.rows))))
            text = "".join(self.rows[1 + self.sent : 1 + end])
            try:
                if text and os.write(self._writer, text.encode()) == len(text):
                    self.sent = end
            except (BlockingIOError, BrokenPipeError):
                pass

    def put_rest(self) -> None:
        """The rest of the files, since a folder that is not watched has no others than those at the start."""
        if self.files < len(self.folder_lines):
            self._put_file(len(self.folder_lines))
        self.is_last = True

    def _put_file(self, last: int) -> None:
        new = self.folder / "new"
        new.write_text("".join(self.folder_lines[self.files : last]))
        new.rename(self.folder / "d" / f"{self.files:08d}.ndjson")
        self.files = last

    @property
    def fed(self) -> bool:
        return not self.live or (self.files == len(self.folder_lines) and self.sent == len(self.rows) - 1)

    # -- what happens to it

    def planned(self) -> int:
        return max((int(path.name) for path in (self.out / "checkpoint").glob("query*/offsets/[0-9]*")), default=-1)

    def wait(self, seconds: float, upto: float) -> None:
        """Feed for so long, unless the run ends."""
        deadline = time.monotonic() + seconds
        while self.run.process.poll() is None and time.monotonic() < deadline:
            self.feed(upto=upto)
            time.sleep(0.03)

    def moment(self) -> tuple[int, Phase]:
        """The last planned batch and its phase."""
        return batch_phase(self.out / "checkpoint", [self.out / name for name in (*OUTPUTS, "dead.ndjson")], self.run.started)

    def disturb(self, who: str) -> bool:
        """Kill in a phase of a batch; False where there was nothing to kill, as the run has come to its end."""
        phases = [phase for phase in PHASES.get(who, tuple(Phase)) if phase in self.phases]
        before, kills = self.planned(), len(self.found.kills)
        upto = 1 - 0.7 ** (1 + kills - self.earlier)  # so something is left for the kills after it
        if Phase.BETWEEN in phases and who not in SURVIVED and self.choose.random() < 0.2:  # while it starts
            self.wait(self.choose.uniform(0, 8), upto)
            chosen, before = phases, -2
        else:
            chosen = [self.choose.choice(phases)]
        idle = time.monotonic() + _IDLE_SECONDS
        while self.run.process.poll() is None and len(self.found.kills) == kills:
            self.feed(upto=upto)
            batch, phase = self.moment()
            if phase in chosen and batch > before:
                self.run.kill(who, self.choose, self.moment, chosen)
            if phase is not Phase.BETWEEN or batch < 0 or time.time() < self.run.started + _START_SECONDS:
                idle = time.monotonic() + _IDLE_SECONDS
            elif time.monotonic() > idle:
                if self.fed:
                    break
                idle, upto, chosen = time.monotonic() + _IDLE_SECONDS, (1 + upto) / 2, phases
            time.sleep(_LOOK_SECONDS)
        self.look()
        if len(self.found.kills) == kills:
            return False
        print(f"kill {kills + 1} ({'live' if self.live else 'files'}): {self.found.kills[-1]}", flush=True)  # noqa: T201
        return True

    def look(self) -> None:
        """What can be seen is whole, and what was seen before is there, and as it was."""
        now = visible(self.out)
        self.found.problems += [f"{name} is torn" for name, text in now.items() if torn(name, text)]
        self.found.problems += [f"{name} has changed" for name, text in self.seen.items() if now.get(name) != text]
        self.seen = now

    def go(self, victims: Iterator[str]) -> None:
        """Through to the end. The start behind the last kill of the round reads to the end, if that kill was none that a run survives."""
        self.start()
        who = next(victims, None)
        while who is not None:
            killed = self.disturb(who)
            following = next(victims, None)
            if self.run.process.poll() is not None and (not killed or who in SURVIVED):
                break
            if killed and who not in SURVIVED:
                self.run.ended()
                self.lost()
                if following is None and self.live:
                    self.put_rest()
                    self.start(*_TO_THE_END)
                else:
                    self.start()
            who = following
        self.finish()
        if not self.found.problems:
            self.compare()

    def finish(self) -> None:
        while not self.fed and self.run.process.poll() is None:
            self.feed(0.1)
            time.sleep(0.02)
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
            while not (self.out / "checkpoint" / "spool" / "end").exists() and self.run.process.poll() is None:
                time.sleep(0.05)
            if self.run.process.poll() is None and not self.is_last:
                self.run.process.send_signal(signal.SIGTERM)
        code = self.run.ended()
        if code == 0 and self.live and not self.is_last:
            self.run.start(*_TO_THE_END)
            code = self.run.ended()
        if code:
            self.found.problems.append(f"it ended with {code}: {self.run.stderr_text[-500:]}")
        self.look()

    def compare(self) -> None:
        """All sinks against the run that nobody disturbed."""
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            run_local(build(read_config(self.undisturbed.name), fresh=True, on_spark=False), lambda totals: None)
        finally:
            os.chdir(here)
        wanted, wanted_letters = results(self.folder / "undisturbed")
        got, got_letters = results(self.out)
        found = self.found
        found.problems += [f"{name} differs" for name in OUTPUTS if got[name] != wanted[name]]
        if got_letters != wanted_letters:
            found.problems.append(f"dead letters: {got_letters - wanted_letters} too many, {wanted_letters - got_letters} missing")
        left = [str(path) for path in self.out.glob("*/.*")]
        if left:
            found.problems.append(f"left behind: {left}")
        found.events += len(wanted["o.ndjson"].splitlines())
        found.dead += wanted_letters.total()
        found.batches += len(self.seen)
        found.rounds += 1


def soak(
    folder: Path,
    kinds: Sequence[str],
    who: Sequence[str],
    phases: Sequence[Phase],
    master: str,
    choose: random.Random,
    elements: int,
    kills: int,
    until: float,
) -> Found:
    """Rounds of the kinds in turn, until there were so many kills of these, or until a time."""
    found, began = Found(), time.monotonic()

    def victims() -> Iterator[str]:
        while len(found.kills) < kills:
            yield choose.choice(who)

    while len(found.kills) < kills and time.monotonic() < until and not found.problems:
        place = folder / f"round{found.rounds}"
        place.mkdir()
        kind = kinds[found.rounds % len(kinds)]
        Round(place, kind, elements, master, choose, found, phases).go(islice(victims(), _KILLS_A_ROUND))
        found.seconds = time.monotonic() - began
        print(found, flush=True)  # noqa: T201
        if not found.problems:
            shutil.rmtree(place)
    return found


def main() -> int:
    """The long form, by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24, help="at least so many")
    parser.add_argument("--minutes", type=float, default=30, help="no further round after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", type=int, default=1_000, help="how long a stream is, about")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", choices=("files", "live"))
    parser.add_argument("--who", nargs="+", choices=WHO, default=WHO, help="what may be killed")
    parser.add_argument("--amid", action="store_true", help="every kill in a batch that is planned and not committed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak"))
    kinds = [options.only] if options.only else ["files", "live"]
    until = time.monotonic() + 60 * options.minutes
    choose = random.Random(options.seed)
    found = soak(
        folder, kinds, options.who, AMID if options.amid else tuple(Phase), options.master, choose, options.elements, options.kills, until
    )
    if found.problems:
        print(f"seed {options.seed}; what is left is in {folder}", flush=True)  # noqa: T201
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
