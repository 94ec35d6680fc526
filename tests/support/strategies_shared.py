"""Random programs of several queries whose windows are over one stream and may share a closure."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.support.strategies_continuous import BACKGROUND, BLOCKS, DATALOG, EVENTS, ContinuousProgram, graph, often, pick

EXTENTS = (
    "RANGE 4s STEP 1s",
    "RANGE 6s STEP 1s",
    "RANGE 6s STEP 2s",
    "RANGE 9s STEP 3s",
    "RANGE 2s",
    "RANGE 1s STEP 3s",
    "FROM NOW - 6s TO NOW - 2s STEP 2s",
    "FROM NOW - 4s TO NOW - 2s STEP 2s",
    "LANDMARK STEP 1s RESTARTING EVERY 5s",
    "LANDMARK STEP 2s LIMIT 6",
    "ELEMENTS 2",
    "TRIPLES 5",
    "NOW",
)
OF_TIME = tuple(each for each in EXTENTS if not each.endswith(("LIMIT 6", "ELEMENTS 2", "TRIPLES 5")))


def window(draw: st.DrawFn, name: str, levels: Sequence[str]) -> str:
    level = pick(draw, levels)
    extent = pick(draw, OF_TIME if level.startswith("STREAM") else EXTENTS)
    reports = pick(draw, ("", "", "REPORT ON CONTENT CHANGE", "REPORT PERIODIC 3s"))
    start = f"STARTING AT {pick(draw, (-2, 0, 3))}" if extent.startswith(("RANGE", "FROM", "LANDMARK")) and often(draw, 4) else ""
    shown = f"ENTAILMENT {level}" if level else ""
    return f"FROM {'NAMED ' if name else ''}WINDOW {name} ON :s [{extent} {start} {reports} {shown}]"


def query(draw: st.DrawFn, label: str, levels: Sequence[str]) -> str:
    windows = [window(draw, "<w>", levels)]
    patterns = [f"WINDOW <w> {{ {pick(draw, BLOCKS)} }}"]
    kind = draw(st.integers(0, 5))
    if kind == 0:
        windows.append(window(draw, "<v>", levels))
        patterns.append(f"WINDOW <v> {{ {pick(draw, BLOCKS)} }}")
    elif kind == 1:
        windows, patterns = [window(draw, "", levels)], [pick(draw, BLOCKS)]
    elif kind <= 3:
        second = f" SEQ EVENT <w> AT ?u {{ {pick(draw, EVENTS)} }}" if kind == 2 else ""
        patterns = [f"MATCH {{ EVENT <w> AT ?t {{ {pick(draw, EVENTS)} }}{second} }}"]
    relation = pick(draw, ("RSTREAM", "ISTREAM", "DSTREAM"))
    return f"REGISTER {relation} <{label}> AS SELECT * {' '.join(windows)} WHERE {{ {' '.join(patterns)} }}"


@st.composite
def shared_programs(draw: st.DrawFn) -> ContinuousProgram:
    """Two or three queries over one stream, whose windows have few different levels."""
    levels = pick(
        draw,
        (
            ("", "WINDOW"),
            ("", "WINDOW"),
            ("WINDOW", "STREAM WITHIN 10s"),
            ("STREAM WITHIN 10s", "STREAM WITHIN 12s"),
            ("SNAPSHOT", "NONE", ""),
        ),
    )
    labels = ("One", "Two", "Three")[: draw(st.integers(2, 3))]
    times = sorted(set(draw(st.lists(st.sampled_from([0, 0.5, 1, 2, 3, 4, 5, 6, 7, 7.5, 8, 9, 10, 13]), min_size=4, max_size=9))))
    return ContinuousProgram(
        "\n".join(query(draw, label, levels) for label in labels),
        "",
        pick(draw, DATALOG),
        pick(draw, BACKGROUND),
        pick(draw, ("none", "none", "none", "rdfs", "owl2rl")),
        pick(draw, (0, 0, 1)),
        tuple((time, "s", graph(draw)) for time in times for _ in range(draw(st.sampled_from((1, 1, 2))))),
    )
