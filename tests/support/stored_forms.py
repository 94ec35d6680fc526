"""Written forms that one process writes and another reads, as text.

`python -m tests.support.stored_forms` writes those of this release, once. The files are data, apart
from the modules, so renaming a class, a field or a module leaves them unchanged. Every later release
reads `kept.json`, which never changes. `sent.json` is passed between processes of one run: it may get
further members on purpose (remove the file, and write it again).
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from dotr.engine.spec import Inconsistent, ProgramSpec
from dotr.engine.state.log import LogSegment, Manifest, encode_consumption, encode_events
from dotr.engine.state.schema import RuleState, StateSchema, knowledge_digests, state_schema
from dotr.evaluation.expressions import equality_key
from dotr.evaluation.files.stores import Location
from dotr.evaluation.limits import Limits
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program, fingerprint
from dotr.model.algebra import Const, Var
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.templates import Blank, Fresh, Template, TemplateTerm
from dotr.model.time import LAST_MICRO, Unit
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark import source
from dotr.runtimes.spark.buckets.bucket_steps import chunk_payload
from dotr.runtimes.spark.checkpoint import figures as tally
from dotr.runtimes.spark.checkpoint import figures as watermarks
from dotr.runtimes.spark.checkpoint import standard_input_spool
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from dotr.runtimes.spark.exchange import rows
from dotr.runtimes.spark.exchange import spilled_rows as waiting
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Floor, InputPosition, Offset
from dotr.runtimes.spark.exchange.rows import BucketSize, RowKind
from dotr.runtimes.spark.exchange.task import InputRange, Task
from dotr.streams.formats import segments
from dotr.streams.merge import journal
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.records import ElementMap, Format, InputFile
from dotr.temporal.layout.keys import bucket, bucket_of_values
from dotr.temporal.matching.state import StateSnapshot
from dotr.temporal.templates import compile_template, match_digest
from tests.support.stored_checkpoints import FOLDER
from tests.support.stored_program import HOME, KEYS, WHOLE, spec

FILES: Final = FOLDER / "kept.json", FOLDER / "sent.json"

DATALOG: Final = Document("a.dlog", "<http://e/p>(?x, ?y) :- <http://e/q>(?x, ?y) .")
SMALL: Final = ProgramSpec(datalog=(DATALOG,))
FULL: Final = ProgramSpec(
    (Document("a.dotr", "# none"),),
    (DATALOG,),
    (str(HOME / "whole.ttl"),),
    Entailment.OWL2RL,
    True,
    {"": "http://e/", "x": "http://x/"},
    Unit.MILLISECOND,
    Inconsistent.REJECT,
    Limits(1, 2, 3, 4, 5, 6, 7),
    {"R": 5},
)
PLAIN: Final = InputFile("in", "a.trig", Format.TRIG, Unit.DAY, 7, (("", "http://e/"),), None, True)
ROWS: Final = InputFile("in", "a.csv", Format.CSV, map=ElementMap("t", Document("map", "[] a {x}"), ";"))
HELD: Final = (
    RuleState("A", "0a", ("A", "B"), 0, (0, 2), 0, None, (None, None)),
    RuleState("B", "0b", (), 1, (1,), 3, 2, (40,)),
)
HOLDINGS: Final = StateSchema("0c", HELD, ((None, 0, -1), (1, 2)))
OFFSET: Final = Offset(9, (InputPosition(5, 1, 7), InputPosition(8, 2, 6, 3, (Floor(1, 9, 4),))))
REASONS: Final = [Reason(text) for text in ("late", "unreadable", "inconsistent", "limit", "failed", "idle", "second")]
TOTALS: Final = Totals(1, 2, 3, 4, dict(zip(REASONS, range(1, 8), strict=True)), 5, 6)
FIRING: Final = Firing(5, "R", "E", (("a", '"1"'),), (("<s>", "<p>", "_:o"),), 2)
QUOTED: Final = TemplateTerm(Fresh("a"), Const("<p>"), Var("v"))
TEMPLATE: Final = Template(((Fresh("a"), Const("<p>"), Blank("a")), (Blank("b"), Const("<q>"), QUOTED)))


CHECKSUM: Final = re.compile(r' "checksum": "[0-9a-f]{32}",\n')
"""The checksum of `dotr.json`, on a line of its own, which the files of older releases lack."""


def _checkpoint(layout: CheckpointLayout) -> str:
    """`dotr.json` without its checksum, which a checkpoint need not have."""
    with tempfile.TemporaryDirectory() as folder:
        Checkpoint(folder).claim(layout)
        text, found = CHECKSUM.subn("", (Path(folder) / "dotr.json").read_text())
        assert found == 1
        assert Checkpoint(folder).layout == layout
        (Path(folder) / "dotr.json").write_text(text)
        assert Checkpoint(folder).layout == layout
        return text


def _journal() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        journal.Journal(Location(folder), {}).add("in", [FoundFile("a"), FoundFile("b")])
        return {path.name: path.read_text() for path in Path(folder).iterdir()}


def _figures() -> dict[str, str]:
    size = BucketSize(0, 1, (3, 0), 120)
    kept = tally.StoredTotals(4, TOTALS, Totals(), {(0, 1): size}, ((tally.PortTotals("Reading", 1), tally.PortTotals("E", None)),))
    with tempfile.TemporaryDirectory() as folder:
        tally.write_totals(Location(folder), kept)
        watermarks.write_inputs(Path(folder), watermarks.InputFigures([("in", 5, False), ("out", LAST_MICRO, True)]))
        assert tally.read_totals(Location(folder)) == kept
        return {path.name: path.read_text() for path in sorted(Path(folder).iterdir())}


def _knowledge() -> dict[str, str]:
    """The digests by which checkpoints of earlier releases identify a background."""
    specs = {
        **{f"unit {unit.value}": replace(SMALL, unit=unit) for unit in Unit},
        **{f"entailment {each.value}": replace(SMALL, entailment=each) for each in Entailment},
        **{f"inconsistent {each.value}": replace(SMALL, inconsistent=each) for each in Inconsistent},
        "axiomatic": replace(SMALL, axiomatic=True),
    }
    return {name: knowledge_digests(compile_program(each)).with_places for name, each in specs.items()}


def kept() -> dict[str, object]:
    """Written forms in checkpoints, or that determine the location of state, by kind."""
    parts = [
        StateSnapshot([[(5, 1, ('"a"', None))], []], [[(5, 1)]], [[(6, 0, ())]], 7),
        StateSnapshot([], [], [], None),
    ]
    holdings = {held.pop("name"): held for held in state_schema(WHOLE.made()).to_json()["rules"]}  # type: ignore
    clauses = {name: held.pop("clauses") for name, held in holdings.items()}
    return {
        "holdings of the whole program": holdings,
        "fingerprint of the whole program": fingerprint(spec()),
        "digests of knowledge": _knowledge(),
        "fingerprints": {
            **{f"unit {unit.value}": fingerprint(replace(SMALL, unit=unit)) for unit in Unit},
            "small": fingerprint(SMALL),
            "full": fingerprint(FULL),
            "limits": [
                fingerprint(replace(SMALL, limits=replace(SMALL.limits, rows=7))),
                fingerprint(replace(SMALL, limits=Limits(matches=7))),
            ],
        },
        "keys": {term: [equality_key(term), bucket(term, 1 << 16)] for key in KEYS for term in key},
        "spread": bucket_of_values(('"a"', None, "<http://e/a>"), 1 << 16),
        "offset": json.dumps(OFFSET.to_json()),
        "state": [each.encode().decode() for each in parts],
        "log": [
            Manifest(3, 9, None, (4, None), (LogSegment(0, 1, 3, 120, 8),), 1, (7,), 0, ((3, "a"),)).encode().decode(),
            encode_events([(5, 0, ('"a"', None)), (7, 1, ('"a"', '"b"'))]).decode(),
            encode_consumption([(0, 5, 1, 3), (2, 7, 0, 0)]).decode(),
        ],
        "checkpoint": [
            _checkpoint(CheckpointLayout("p", "f", (("in", 5, "/a"),), 2, 3, 4)),
            _checkpoint(
                CheckpointLayout("p", "f", (("in", 5, "/a"),), 2, 3, 4, (("w", 6, "/d/*"),), ("SECOND", True), HOLDINGS, 2, OFFSET, 8)
            ),
        ],
        "journal": _journal(),
        "spool": [segments.SPOOL, segments.SPOOL_END, standard_input_spool.NEXT],
        "waiting": waiting.WAITING,
        "figures": _figures(),
        "fresh names": [
            match_digest("R", 12, [("Smoke", 12, ('"A"', None))], 3).hex(),
            str(compile_template(TEMPLATE, ["v"]).instantiate(['"x"'], b"seed")),
        ],
        "source": source.InstantSource.name(),
        "columns": [rows.SCHEMA, list(rows.COLUMNS)],
        "clauses of the whole program": clauses,
    }


def sent() -> dict[str, object]:
    """Written forms passed between processes of a run, by kind."""
    stretches = (
        InputRange(0, 10, 2, 1, 90, 80),
        InputRange(1, 10, 2, 1, 90, 80, 3, 4, 4, (FoundFile("c"), FoundFile("d")), (Floor(3, 50, 7),)),
    )
    growing = '["*", 1, null, true]'
    return {
        "specification": [SMALL.to_json(), replace(FULL, graphs=("a.ttl",)).to_json()],
        "units": {str(unit.value): replace(PLAIN, unit=unit).to_json() for unit in Unit},
        "formats": [replace(PLAIN, format=each).to_json() for each in Format],
        "inputs": [PLAIN.to_json(), ROWS.to_json()],
        "job": [
            Job("{}", ("a", "b"), (0, 5), "SECOND", False, 1, 2, 2, 1000, 2, "x").to_json(),
            Job(
                *("{}", ("a",), (3,), "DAY", True, 1, 2, 3, 4, 5, "run", "store", "key", (growing,), (("a", 7),)),
                *("moved", json.dumps(OFFSET.to_json()), 9),
            ).to_json(),
        ],
        "task": Task(1, 5, None, stretches).to_json(),
        "kinds": sorted(kind.value for kind in RowKind),
        "firings": rows.encode_firings([FIRING]).decode(),
        "dead": rows.encode_dead_letters([DeadLetter(reason, "in", "a.csv", 7, 12, "x,y", "why") for reason in REASONS]).decode(),
        "counts": rows.encode_totals(TOTALS).decode(),
        "size": rows.encode_size(BucketSize(0, 1, (3, 0), 120)).decode(),
        "chunk": chunk_payload([(5, {0: [(0, ('"a"', None)), (7, ('"a"', '"b"'))], 2: [(0, ())]})]).decode(),
    }


if __name__ == "__main__":
    for file, made in zip(FILES, (kept, sent), strict=True):
        if file.exists():
            print(f"{file} is there already, and stays as it is")  # noqa: T201
        else:
            file.write_text(json.dumps(made(), indent=1, ensure_ascii=False) + "\n")
