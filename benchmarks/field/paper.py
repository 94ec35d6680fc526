"""The default scenario of the DOTR paper (section 5, Fig. 5 to 8), from NDJSON text to output graphs.

Ten rules of two queries, one triple a graph, eleven Datalog rules, 10,000 triples; then one
parameter at a time, dotr alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.field import paper_peers
from benchmarks.field.measuring import DEFAULT_EFFORT, Case, Effort, Start
from benchmarks.field.peers import python
from benchmarks.field.serve import Prepared
from benchmarks.field.works import Scale, Text, Work
from benchmarks.scenario import DATALOG_RULE, PREFIX, RULE, Size, write_scenario

PEERS: Final = "benchmarks.field.paper_peers"
WITHIN: Final = 30
SHORT: Final = Effort(warm_runs=7, own_warm_runs=7)
PAPER_MICROS: Final = 12_090
"""The paper's figure of its own engine in C++, on another machine: an Intel Core i7 4850HQ."""


def by_definition(stream: Path, rules: int, before: int = 1) -> int:
    """Number of output graphs: for each rule and A the last B of the room in (0, 30 s] before it, and before that `before` - 1 more.

    All values pass all filters; the room of sensor k is k // 2.
    """
    seen: dict[int, list[int]] = {room: [] for room in range(5)}
    count = 0
    for line in stream.read_text(encoding="utf-8").splitlines():
        element = json.loads(line)
        sensor, predicate, *_ = element["graph"].split()
        room, now = int(sensor.removeprefix(":sensor")) // 2, int(element["time"])
        if predicate == ":read_valB":
            seen[room].append(now)
            continue
        found: int | None = now
        for _ in range(before):
            found = None if found is None else max((time for time in seen[room][-200:] if found - WITHIN <= time < found), default=None)
        count += found is not None
    return count * rules


def ours(config: str) -> Prepared:
    """dotr in process; the time excludes the construction of the pipeline, as in the paper."""
    from dotr.runtimes.local.run import run_local
    from dotr.runtimes.pipeline.build import Pipeline, build
    from dotr.runtimes.pipeline.config import read_config

    built: list[Pipeline] = []

    def before() -> None:
        built.append(build(read_config(config), fresh=True, on_spark=False))

    return Prepared(lambda: run_local(built.pop(), lambda totals: None).events, before=before)


def longer_rules(rules: int, clauses: int) -> str:
    """The scenario's rules with more temporal operators: each B is the last of the room before the one above."""
    texts = [f"PREFIX : <{PREFIX}>"]
    for number in range(rules):
        text = f"""rule R{number}
            define CE{number} = [dotr_id1 :has_val ?num.]
            from A = [SELECT ?room ?val WHERE {{ ?s :read_valA ?val. ?s :is_in_room ?room. FILTER(?val > {number}) }}]"""
        for place in range(clauses):
            text += f"""
            and last B{place} = [SELECT ?room ?val WHERE {{ ?s :read_valB ?val. ?s :is_in_room ?room.
              FILTER(?val > {number} && ?room = A.?room) }}] within {WITHIN}s from {"A" if place == 0 else f"B{place - 1}"}"""
        texts.append(text + f"\nwith CE{number}.?num = A.?val")
    return "\n".join(texts)


def scenario_case(
    folder: Path, title: str, size: Size, others: dict[str, Start] | None = None, effort: Effort = DEFAULT_EFFORT, clauses: int = 1
) -> Case:
    """One scenario in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    seed = 1
    config = write_scenario(folder, size, seed)
    while not (expected := by_definition(folder / "stream.ndjson", size.rules, clauses)):
        seed += 1
        config = write_scenario(folder, size, seed)
    if clauses > 1:
        (folder / "rules.dotr").write_text(longer_rules(size.rules, clauses), encoding="utf-8")
    return Case(
        name=title,
        parameters={"graphs": size.graphs, "rules": size.rules, "background": size.background, "datalog": size.datalog, "clauses": clauses},
        unit="graph",
        units=size.graphs,
        expected=expected,
        own=("benchmarks.field.paper:ours", str(config)),
        others=others or {},
        effort=effort,
    )


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """The default scenario beside other systems, at sizes that they can run; then the parameters of the figures."""

    def peer(name: str, packages: list[str], where: str) -> Start:
        return partial(python, packages, f"{PEERS}:{name}", str(folder / where))

    yield scenario_case(
        folder / "oxigraph",
        "default scenario, beside pyoxigraph",
        Size(scale.of(2_000)),
        {
            "pyoxigraph": peer("oxigraph_folded", ["pyoxigraph"], "oxigraph"),
            "pyoxigraph, CONSTRUCT": peer("oxigraph_construct", ["pyoxigraph"], "oxigraph"),
        },
    )
    few = Effort(warm_runs=4, warm_seconds=10)
    yield scenario_case(
        folder / "rdflib", "ten graphs of it, beside rdflib", Size(10), {"rdflib": peer("rdflib_folded", ["rdflib"], "rdflib")}, few
    )
    if scale is not Scale.QUICK:
        closures = {
            "rdflib, reasonable": peer("rdflib_reasonable", ["reasonable", "rdflib"], "closures"),
            "rdflib, owlrl": peer("rdflib_owlrl", ["owlrl", "rdflib"], "closures"),
        }
        yield scenario_case(folder / "closures", "two graphs of it, the background closed anew", Size(2), closures, few)
    default = Size(scale.of(10_000))
    yield scenario_case(folder / "default", "default scenario", default, effort=SHORT)
    for background in (1_000, 100_000):
        size = replace(default, background=scale.of(background))
        yield scenario_case(folder / f"background-{background}", f"Fig. 5: {size.background:,} triples", size, effort=SHORT)
    for datalog in (1_000, 10_000):
        size = replace(default, datalog=scale.of(datalog))
        yield scenario_case(folder / f"datalog-{datalog}", f"Fig. 6: {size.datalog:,} Datalog rules", size, effort=SHORT)
    for clauses in (2, 4):
        yield scenario_case(folder / f"clauses-{clauses}", f"Fig. 7: {clauses} temporal operators", default, effort=SHORT, clauses=clauses)
    for rules in (1, 100, 1_000):
        size = replace(default, rules=rules, graphs=min(default.graphs, scale.of(1_000_000 // rules)))
        if scale is Scale.FULL or rules <= 100:
            yield scenario_case(folder / f"rules-{rules}", f"Fig. 8: {rules:,} rule{'s' if rules > 1 else ''}", size, effort=SHORT)


def texts() -> Iterator[Text]:
    """One of the ten rules and one of the eleven Datalog rules, and the queries of the RDF libraries in their place."""
    size = Size()
    yield Text("dotr, 1 rule", "", RULE.format(number=0, a=size.condition(0, "?valA"), b=size.condition(0, "?valB")))
    yield Text("dotr, 1 Datalog rule", "", DATALOG_RULE)
    folded, unfolded = ("\n".join(paper_peers.queries(kind, where)[0] for kind in "AB") for where in (paper_peers.FOLDED, paper_peers.ROOM))
    yield Text("pyoxigraph and rdflib, 1 rule: the Datalog rule folded in; the last B is kept in Python", "sparql", folded)
    yield Text("pyoxigraph, CONSTRUCT: the queries of a rule", "sparql", unfolded)
    yield Text("pyoxigraph, CONSTRUCT: 1 Datalog rule", "sparql", paper_peers.constructs()[-1])


WORK: Final = Work(
    name="paper",
    title="The DOTR paper's scenario: NDJSON text to output graphs",
    packages=("dotr",),
    minutes=5,
    cases=cases,
    headlines={"default scenario, beside pyoxigraph": "a graph through ten rules, over 10,000 triples of background"},
    texts=texts,
)
