"""Recovery on Spark, tested without Spark: restarts, totals of replayed batches, standard input."""

from __future__ import annotations

import gzip
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.stores import Location
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock
from dotr.runtimes.monitoring.totals import RunFailed, Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark import query
from dotr.runtimes.spark.checkpoint.standard_input_spool import NEXT, StandardInputSpool, copied_lines
from dotr.runtimes.spark.exchange.errors import encode_diagnostics
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.rows import RowKind, encode_totals
from dotr.runtimes.spark.run import DisplayPaths
from dotr.runtimes.spark.sink import Sink
from dotr.runtimes.spark.start.session import _silence_python
from dotr.streams.formats.lines import standard_bytes
from dotr.streams.formats.segments import SEGMENT, SPOOL, SPOOL_END, copied_like
from dotr.streams.records import ElementMap, Format, InputFile


def sink() -> Sink:
    return Sink(lambda number, firings, letters: None, lambda totals: None, lambda letter: letter, Clock())


def test_replayed_batch_counts_once() -> None:
    made = sink()
    counts = [(int(RowKind.COUNTS), encode_totals(Totals(elements=3, dead_letters={Reason.LATE: 1})))]
    for number in (0, 1, 1, 2):
        made.process(number, counts)
    assert made.totals == Totals(elements=9, dead_letters={Reason.LATE: 3})


LATE = PySparkException(
    "[STREAM_FAILED] Query terminated with exception: Timed out while waiting for the Python worker to connect back SQLSTATE: XXKST\n"
    "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:279)"
)
"""What Spark says of a source whose process took more than ten seconds to connect."""


def test_late_worker_is_no_restart_to_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = [LATE, None]
    monkeypatch.setattr(query, "_run", lambda *arguments: ends.pop(0))
    monkeypatch.setattr(query, "_RESTART_DELAY_SECONDS", 0.0)
    query.run_query(None, sink(), Location(str(tmp_path)), Path("spark.log"))  # type: ignore[arg-type]
    assert not ends


@pytest.mark.fallbacks("restart")
class TestFailedQuery:
    @pytest.fixture
    def tries(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[int]]:
        """Runs a query whose tries all end with the given error; the number of written batches
        before each try."""

        def run(*ends: Exception | int | None, restarts: int = 3) -> list[int]:
            for folder in ("commits", "offsets"):
                (tmp_path / folder).mkdir()
            (tmp_path / "metadata").write_text('{"id": "0"}')
            waiting = list(ends)
            found: list[int] = []

            def once(*arguments: object) -> Exception | None:
                found.append(len(list((tmp_path / "commits").iterdir())))
                end = waiting.pop(0)
                if isinstance(end, int):  # a batch is written, and then a worker is lost
                    offset = json.dumps(Offset(end, ()).to_json())
                    (tmp_path / "offsets" / str(end)).write_text(f"v1\n{{}}\n{offset}")
                    (tmp_path / "commits" / str(end)).write_text("v1\n{}")
                    return PySparkException("java.io.EOFException")
                if isinstance(end, Py4JNetworkError):
                    raise end
                return end

            monkeypatch.setattr(query, "_run", once)
            monkeypatch.setattr(query, "_RESTART_DELAY_SECONDS", 0.0)
            query.run_query(None, sink(), Location(str(tmp_path)), Path("spark.log"), None, restarts)  # type: ignore[arg-type]
            return found

        return run

    def test_worker_loss_is_retried(self, tries: Callable[..., list[int]], caplog: pytest.LogCaptureFixture) -> None:
        assert tries(PySparkException("java.io.EOFException"), None) == [0, 0]
        assert caplog.messages == [
            "Spark stopped: a Python process that it had started was lost: was it killed, or out of memory? (the log is spark.log). "
            "It goes on from its checkpoint (try 1 of 3)."
        ]

    def test_retries_are_bounded(self, tries: Callable[..., list[int]]) -> None:
        with pytest.raises(RunFailed, match="ValueError: no"):
            tries(*[PySparkException("Traceback\nValueError: no")] * 3, restarts=2)

    def test_written_batches_reset_the_retries(self, tries: Callable[..., list[int]]) -> None:
        assert tries(0, 1, 2, 3, None, restarts=1) == [0, 1, 2, 3, 4]

    def test_no_retry_without_restarts(self, tries: Callable[..., list[int]]) -> None:
        with pytest.raises(RunFailed):
            tries(0, restarts=0)

    def test_refusal_is_not_retried(self, tries: Callable[..., list[int]]) -> None:
        with pytest.raises(Refused, match="I101 cannot read"):
            tries(PySparkException(encode_diagnostics(Refused([Diagnostic("I101", "cannot read a.ndjson")]))))

    def test_failed_start_is_retried(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        errors = [PySparkException("SocketTimeoutException: Timed out while waiting for the Python worker")] * 2

        def start(*arguments: object) -> None:
            raise errors.pop()

        monkeypatch.setattr(query, "_start", start)
        monkeypatch.setattr(query, "_RESTART_DELAY_SECONDS", 0.0)
        with pytest.raises(RunFailed, match="Timed out"):
            query.run_query(None, sink(), Location(str(tmp_path)), Path("spark.log"), None, 1)  # type: ignore[arg-type]
        assert errors == []

    def test_late_worker_is_not_counted(self, tries: Callable[..., list[int]], caplog: pytest.LogCaptureFixture) -> None:
        lost = PySparkException("java.io.EOFException")
        assert tries(LATE, LATE, lost, LATE, LATE, lost, None, restarts=2) == [0] * 7
        line = "Spark gave up waiting for a Python process to start, as on a busy machine: the query starts again from its checkpoint."
        assert [line == message for message in caplog.messages] == [True, True, False, True, True, False]
        assert [message.partition("(try ")[2] for message in caplog.messages if message != line] == ["1 of 2).", "2 of 2)."]

    def test_late_worker_needs_no_restarts(self, tries: Callable[..., list[int]]) -> None:
        assert tries(LATE, 0, None, restarts=1) == [0, 0, 1]

    def test_worker_that_is_always_late_ends_the_run(self, tries: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(query, "_LATE_STARTS", 2)
        with pytest.raises(RunFailed, match="a Python process that it had started was not ready within its limit"):
            tries(LATE, LATE, LATE, None)

    def test_written_batches_reset_the_late_starts(self, tries: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(query, "_LATE_STARTS", 1)
        assert tries(LATE, 0, LATE, None) == [0, 0, 1, 1]

    def test_lost_jvm_is_not_retried(self, tries: Callable[..., list[int]]) -> None:
        with pytest.raises(RunFailed, match="its JVM was lost"):
            tries(Py4JNetworkError("Answer from Java side is empty"))

    def test_jvm_that_is_lost_while_the_run_stops_fails_nothing(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The signal has come, and the run ends as after each one: its checkpoint has what was written."""

        def run(*arguments: object) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            raise Py4JNetworkError("Answer from Java side is empty")

        monkeypatch.setattr(query, "_run", run)
        with pytest.raises(KeyboardInterrupt):
            query.run_query(None, sink(), Location(str(tmp_path)), Path("spark.log"))  # type: ignore[arg-type]
        assert caplog.messages == [
            "Spark was lost while the run stopped (Answer from Java side is empty). The same command does a batch anew that is not whole."
        ]


def test_lost_jvm_leaves_no_traces_of_py4j(caplog: pytest.LogCaptureFixture) -> None:
    """py4j gives the root logger a handler when it loses the JVM, and then logs what the sink meets in the middle of a batch."""
    _silence_python()
    try:
        raise AttributeError("'NoneType' object has no attribute 'setCallSite'")
    except AttributeError:
        logging.getLogger("py4j.clientserver").exception("There was an exception while executing the Python Proxy on the Python Side.")
    assert caplog.records == []


@contextmanager
def standard(data: bytes, folder: Path) -> Iterator[None]:
    """Standard input with given bytes."""
    (folder / "sent").write_bytes(data)
    kept, given = os.dup(0), os.open(folder / "sent", os.O_RDONLY)
    os.dup2(given, 0)
    standard_bytes.cache_clear()
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(given)
        standard_bytes.cache_clear()


def spooled(data: bytes, folder: Path, like: InputFile, header: bytes = b"") -> tuple[int, int, bytes]:
    """First line, last line and text of standard input in the checkpoint."""
    known = set((folder / SPOOL).glob("0*"))
    with standard(data, folder), closing(StandardInputSpool(like, folder / SPOOL)):
        while not (folder / SPOOL / SPOOL_END).exists():
            time.sleep(0.01)
    (folder / SPOOL / SPOOL_END).unlink()
    found = [(SEGMENT.fullmatch(path.name), path.read_bytes()) for path in sorted({*(folder / SPOOL).glob("0*")} - known)]
    lines = [(int(name[2]), int(name[3])) for name, _ in found if name]
    assert [after for _, after in lines[:-1]] == [first for first, _ in lines[1:]]
    assert all(text.startswith(header) for _, text in found)
    return lines[0][0], lines[-1][1], b"".join(text.removeprefix(header) for _, text in found)


ROWS = InputFile("rows", "-", Format.CSV, map=ElementMap("t", Document("map", "[] <http://e/v> {v} ."), ","))


HEADER = b"t,v\n"


class TestStandardInput:
    def test_compressed_input_keeps_its_header(self, tmp_path: Path) -> None:
        text = b'1,1\n2,"a\nb"\n3,3'
        assert spooled(gzip.compress(HEADER + text), tmp_path, ROWS, HEADER) == (2, 6, text + b"\n")
        assert copied_lines(tmp_path) == 5

    @pytest.mark.parametrize(
        ("further", "codec", "end"),
        [({}, "utf-8", "\n"), ({"encoding": "utf-16"}, "utf-16", "\r\n"), ({}, "utf-8", "\r"), ({"each": "columns"}, "utf-8", "\n")],
    )
    def test_lines_before_the_header_are_not_copied(self, tmp_path: Path, further: dict[str, str], codec: str, end: str) -> None:
        assert ROWS.map is not None
        like = replace(ROWS, map=replace(ROWS.map, skip=1, comment="#", **further))  # type: ignore[arg-type]
        if "each" in further:
            like = replace(like, map=replace(like.map, template=Document("map", "[] <http://e/v> '{$column}={$cell}' .")))  # type: ignore[type-var]
        text = "logger\n\n# x\nt,v\n1,1\n#\n\n2,2\n".replace("\n", end).encode(codec)
        rows = b"1,1\r\n\n\n2,2\r\n" if end == "\r\n" else b"1,1\n\n\n2,2\n"  # a place has its line
        header = b"t,v\r\n" if end == "\r\n" else HEADER
        assert spooled(text, tmp_path, like, header) == (5, 9, rows)
        assert copied_like(like).map == replace(like.map, skip=0, encoding="utf-8")  # type: ignore[type-var]

    def test_two_starts_are_one_stream_with_a_header_each(self, tmp_path: Path) -> None:
        assert spooled(HEADER + b"1,1\n", tmp_path, ROWS, HEADER) == (2, 3, b"1,1\n")
        assert spooled(HEADER + b"2,2\n3,3\n", tmp_path, ROWS, HEADER) == (4, 6, b"2,2\n3,3\n")
        assert copied_lines(tmp_path) == 5

    def test_lines_are_counted_by_segments_after_a_crash(self, tmp_path: Path) -> None:
        like = InputFile("x", "-", Format.NDJSON)
        line = json.dumps({"time": 1, "graph": ""}).encode() + b"\n"
        assert copied_lines(tmp_path) is None
        assert spooled(line * 3, tmp_path, like) == (1, 4, line * 3)
        (tmp_path / SPOOL / NEXT).unlink()  # the segment was written, its number was not
        assert copied_lines(tmp_path) == 3
        assert spooled(line * 2, tmp_path, like) == (4, 6, line * 2)


def test_dead_letter_has_its_line_in_either_kind_of_segment(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(
        "PREFIX : <http://e/>\nrule R define Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Out.?x = A.?x"
    )
    (tmp_path / "c.yaml").write_text(
        "name: x\nrules: [r.dotr]\ninput: [{ name: rows, format: csv, path: '-', time: t, map: '[] <http://e/v> {v} .' }]\n"
        "output: [{ path: out/o.ndjson }]\n"
    )
    names = DisplayPaths(build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=True, wait=False), tmp_path)
    for segment in ("000000000001-000000000040.csv", "000000000001-000000000040-000000000050.csv"):
        letter = names(DeadLetter(Reason.LATE, "rows", str(tmp_path / SPOOL / segment), 3, 1, "1,1", "why"))
        assert (letter.file, letter.line) == ("-", 41)
