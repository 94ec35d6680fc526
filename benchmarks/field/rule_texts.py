"""Rules "A and last (each) B of the room within 30 s" in the languages of the systems.

Drivers read these texts as files, and the appendix prints them: the counted lines are those that run.
Times of the peers include both ends of an interval in milliseconds, so that 30,001 ms stand for the
30 s of (0, 30 s].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.field.peers import DRIVERS, ESPER_4, ESPER_9, SIDDHI, JavaPeer
from benchmarks.field.works import Text

WITHIN: Final = 30


def own_rule(threshold: int, form: str) -> str:
    """One rule in the language of dotr; `form` is `last` or `each`."""
    return f"""rule R{threshold} define C{threshold} = [ dotr_id1 :v ?v ] from A [ FILTER(?v >= {threshold}) ]
        and {form} B [ FILTER(?v >= {threshold} && ?room = A.?room) ] within {WITHIN} s from A with C{threshold}.?v = A.?v\n"""


def esper_9(thresholds: range, form: str) -> str:
    """A join for each rule, triggered by A alone."""
    kept = "#time(30.001)" if form == "each" else "#unique(room)#time(30.001)"
    return "".join(
        f"select a.v as v, b.v as w from A(v >= {n}) as a unidirectional, B(v >= {n}){kept} as b where b.room = a.room;\n"
        for n in thresholds
    )


def esper_4(thresholds: range, form: str) -> str:
    """The same in the syntax of version 4, one statement on each line."""
    kept = ".win:time(30.001 sec) as b" if form == "each" else ".win:time(30.001 sec).std:unique(room) as b retain-intersection"
    return "".join(
        f"select a.v as v, b.v as w from A(v >= {n}) as a unidirectional, B(v >= {n}){kept} where b.room = a.room\n" for n in thresholds
    )


def siddhi(thresholds: range, form: str) -> str:
    """A table by room holds the last B of each rule; each B of 30 s is in one window that the rules share.

    SiddhiQL requires definitions, also of tables, before the first query.
    """
    head = "@app:playback\ndefine stream A (room int, v int, t long);\ndefine stream B (room int, v int, t long);\n"
    if form == "each":
        window = "define window W (room int, v int, t long) externalTime(t, 30001 milliseconds);\nfrom B select room, v, t insert into W;\n"
        return head + window + "".join(_siddhi_join(n, "a unidirectional", "W", f" and b.v >= {n}") for n in thresholds)
    tables = "".join(f"@primaryKey('room') define table T{n} (room int, v int, t long);\n" for n in thresholds)
    queries = "".join(
        f"from B[v >= {n}] select room, v, t update or insert into T{n} set T{n}.v = v, T{n}.t = t on T{n}.room == room;\n"
        + _siddhi_join(n, "a", f"T{n}", "")
        for n in thresholds
    )
    return head + tables + queries


def _siddhi_join(threshold: int, left: str, right: str, more: str) -> str:
    on = f"a.room == b.room{more} and a.t - b.t <= 30000L"
    return f"from A[v >= {threshold}] as {left} join {right} as b on {on} select a.v as v, b.v as w insert into M;\n"


BY_PEER: Final = {ESPER_9.name: esper_9, ESPER_4.name: esper_4, SIDDHI.name: siddhi}
"""The peers whose rules are a text; those of Flink are a part of its driver."""


def write(folder: Path, peer: JavaPeer, rules: int, form: str, scale: int) -> tuple[str, ...]:
    """Writes the rules of a peer, with thresholds in units of 1 / `scale`, into a folder; the further arguments of its driver."""
    if peer.name not in BY_PEER:
        return ()
    path = folder / f"{peer.driver}-{rules}-{form}-{scale}.txt"
    path.write_text(BY_PEER[peer.name](range(0, rules * scale, scale), form), encoding="utf-8")
    return (str(path),)


def texts() -> Iterator[Text]:
    """One rule in both forms, for each system."""
    from benchmarks.patterns import query

    for form in ("last", "each"):
        yield Text(f"dotr, 1 rule, {form}, and its queries", "", query("A") + query("B") + own_rule(0, form))
        for name, made in BY_PEER.items():
            yield Text(f"{name}, 1 rule, {form}", "", made(range(1), form))
    yield Text("Flink CEP 2.1, 1 rule, both forms", "java", between_marks(DRIVERS / "Flink.java"))


def between_marks(source: Path) -> str:
    """The lines of a driver between the comments "the rule" and "end of the rule", without their indentation."""
    lines = [line.strip() for line in source.read_text(encoding="utf-8").splitlines()]
    return "\n".join(lines[lines.index("// The rule.") + 1 : lines.index("// End of the rule.")])
