"""Stage two alone: microseconds of CPU from facts of interest to matches, one core, one event an instant.

    python -m benchmarks.patterns [field|sequences|aggregates|keys]…

`field`: rules "A and last B within 30 s" over one pair of shared queries, equal room, own threshold
each, 20 % A; `benchmarks/run field` has it beside Esper 9.0, Siddhi and others, warm (T-Rex with 77,000
and Esper 4.2 with 109,000 events a second were old versions, cold). `sequences`: 10 rules of 2 to 6
events (the DOTR paper's Fig. 7), and of 3 with growing windows. `aggregates`: a sliding aggregate at
every event, by the number of events in its window. `keys`: one rule, by the number of rooms and of
events in the state. The last column is the time for a match.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from dotr.engine.router import Facts, Router
from dotr.languages.rules import compile_rules
from dotr.model.event_order import AttributeValues
from dotr.model.places import Document
from dotr.model.terms import XSD, Term, literal
from dotr.model.time import Clock
from dotr.temporal.layout.layers import Layout, lay_out
from dotr.temporal.matching.operator import Operator
from dotr.temporal.matching.state import State

SECOND = 1_000_000
RUNS = 3

Feed = Callable[[Layout], Iterator[tuple[int, dict[int, list[AttributeValues]]]]]
"""Makes the instants of a run: a time and its facts by stream."""


def program(text: str) -> tuple[Layout, Operator]:
    """The only layer of a program."""
    rules = compile_rules([Document("benchmark.dotr", "PREFIX : <http://example.org/>\n" + text)], {}).rules
    assert rules, "the rules do not compile"
    layout = lay_out(rules)
    (layer,) = layout.layers
    attributes = {rule.event: tuple(sorted(a.variable for a in rule.assignments)) for rule in rules}
    return layout, Operator(layer, attributes, Clock())


def measure(text: str, feed: Feed) -> tuple[float, int, int]:
    """Microseconds an event (the best of some runs), events, and matches."""
    layout, operator = program(text)
    router = Router(layout)
    best, matches, events = float("inf"), 0, 0
    for _ in range(RUNS):
        instants = list(feed(layout))
        state, matches, events = operator.start(), 0, len(instants)
        start = time.process_time()
        for now, facts in instants:
            matches += matches_of(operator, router, state, now, facts)
        best = min(best, (time.process_time() - start) / events * 1e6)
    return best, events, matches


def matches_of(operator: Operator, router: Router, state: State, now: int, facts: Facts) -> int:
    """The number of matches of an instant, computed by the same calls as in `dotr.engine.driver.Engine`."""
    lone = router.lone(facts)
    if lone is not None:
        port, values = lone
        take = (state.take_facts or operator.take_facts(state))[port]
        if take is not None:
            return len(take(now, values))
    arrivals = router.facts(facts)[0].get(0)
    return len(operator.step(state, now, arrivals)) if arrivals else 0


def number(value: int) -> Term:
    return literal(str(value), XSD + "integer")


def decimal(thousandths: int) -> Term:
    return literal(f"{thousandths // 1000}.{thousandths % 1000:03}", XSD + "decimal")


def room(value: int) -> Term:
    return f"<http://example.org/room{value}>"


def streams(layout: Layout) -> dict[str, int]:
    """The stream of each query `[ SELECT ?room ?v WHERE { ?s :A ?v … } ]`, by its predicate."""
    found = {}
    for index, source in enumerate(layout.streams):
        text = repr(source.query)
        found[text[text.index("example.org/") + 12 :].partition(">")[0]] = index
    return found


def query(name: str) -> str:
    return f"query {name} = [ SELECT ?room ?v WHERE {{ ?s :{name} ?v . ?s :in ?room }} ]\n"


def field(rules: int, spread: bool, each: bool = False) -> tuple[float, int, int]:
    """Thresholds are passed by nearly all events, or by half of them on the average."""
    text = query("A") + query("B")
    for n in range(rules):
        threshold = n * 1000 // rules if spread else n
        text += f"""rule R{n} define C{n} = [ dotr_id1 :v ?v ] from A [ FILTER(?v >= {threshold}) ]
            and {"each" if each else "last"} B [ FILTER(?v >= {threshold} && ?room = A.?room) ] within 30 s from A with C{n}.?v = A.?v\n"""

    def feed(layout: Layout) -> Iterator[tuple[int, dict[int, list[AttributeValues]]]]:
        random_, names = random.Random(1), streams(layout)
        for second in range(20_000):
            name = "A" if random_.random() < 0.2 else "B"
            yield second * SECOND, {names[name]: [(room(random_.randrange(5)), number(random_.randrange(100, 1000)))]}

    return measure(text, feed)


def sequence(length: int, each: bool, window: int = 30) -> tuple[float, int, int]:
    labels = [f"E{n}" for n in range(length)]
    text = "".join(map(query, labels))
    for n in range(10):
        clauses = "".join(
            f"and {'each' if each else 'last'} {label} [ FILTER(?room = {before}.?room && ?v > {n}) ] within {window} s from {before}\n"
            for before, label in pairwise(labels)
        )
        text += f"rule R{n} define C{n} = [ dotr_id1 :v ?v ] from E0 [ FILTER(?v > {n}) ] {clauses} with C{n}.?v = E0.?v\n"

    def feed(layout: Layout) -> Iterator[tuple[int, dict[int, list[AttributeValues]]]]:
        random_, names = random.Random(1), streams(layout)
        for second in range(20_000):
            yield second * SECOND, {names[random_.choice(labels)]: [(room(random_.randrange(5)), number(random_.randrange(1000)))]}

    return measure(text, feed)


def aggregate(function: str, window: int, kind: str) -> tuple[float, int, int]:
    argument = "*" if function == "count" else f"{'distinct ' if function.endswith('distinct') else ''}U.?v"
    text = query("T") + (
        f"rule R define C = [ dotr_id1 :v ?v ] from T and ?x = {function.split()[0]}({argument}) of T as U [ FILTER(?room = T.?room) ]"
        f" within (0, {window} s] from T if ?x < 0 with C.?v = ?x"
    )

    def feed(layout: Layout) -> Iterator[tuple[int, dict[int, list[AttributeValues]]]]:
        random_ = random.Random(1)
        for second in range(max(20_000, 3 * window)):
            value = random_.randrange(1000)
            lexical = {"integer": f"{value}", "decimal": f"{value / 10}", "double": f"{value / 7!r}e0"}[kind]
            yield second * SECOND, {0: [(room(1), literal(lexical, XSD + kind))]}

    return measure(text, feed)


def keys(rooms: int) -> tuple[float, int, int]:
    text = query("A") + query("B")
    text += (
        "rule R define C = [ dotr_id1 :v ?v ] from A and last B [ FILTER(?room = A.?room && ?v > A.?v) ] within 1 h from A with C.?v = A.?v"
    )

    def feed(layout: Layout) -> Iterator[tuple[int, dict[int, list[AttributeValues]]]]:
        random_, names = random.Random(1), streams(layout)
        for tenth in range(50_000):
            name = "A" if random_.random() < 0.2 else "B"
            yield tenth * SECOND // 10, {names[name]: [(room(random_.randrange(rooms)), number(random_.randrange(1000)))]}

    return measure(text, feed)


def show(title: str, found: tuple[float, int, int]) -> None:
    micros, events, matches = found
    each = micros * events / max(matches, 1)
    print(f"{title:<44} {micros:8.2f} µs {1e6 / micros:10,.0f}/s {events:9,} events {matches:11,} matches {each:8.2f} µs")  # noqa: T201


def main(benchmarks: Iterable[str]) -> None:
    """Run the given benchmarks, or all."""
    chosen = set(benchmarks) or {"field", "sequences", "aggregates", "keys"}
    if "field" in chosen:
        for rules in (1, 10, 100, 1000):
            show(f"field, {rules} rules, thresholds passed", field(rules, spread=False))
            show(f"field, {rules} rules, half of them passed", field(rules, spread=True))
        show("field, 10 rules, each", field(10, spread=False, each=True))
    if "sequences" in chosen:
        for length in range(2, 7):
            show(f"sequence of {length}, last", sequence(length, each=False))
        for length in range(2, 7):
            show(f"sequence of {length}, each", sequence(length, each=True))
        for window in (15, 30, 60, 120, 240):
            show(f"sequence of 3, each, within {window} s", sequence(3, each=True, window=window))
    if "aggregates" in chosen:
        for function in ("count", "sum", "avg", "min", "sum distinct"):
            for kind in ("integer", "decimal", "double") if function in ("sum", "avg") else ("integer",):
                for window in (10, 1_000, 100_000):
                    show(f"{function} of {kind}s, window of {window:,}", aggregate(function, window, kind))
    if "keys" in chosen:
        for rooms in (10, 1_000, 100_000):
            show(f"{rooms:,} rooms", keys(rooms))


if __name__ == "__main__":
    main(sys.argv[1:])
