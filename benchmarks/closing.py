"""Closure of a large background, compared with other systems on the same triples.

    python -m benchmarks.closing [--triples 1000000] [--systems dotr nemo]

    pip install owlrl nemo-python reasonable    # the other systems; missing ones are skipped

Every system runs in a process of its own, one after the other, on an ontology in OWL 2 RL and
instances; seconds are of CPU, of all threads, and without reading. Nemo reads while it reasons: its
time to read and copy the triples is measured first and subtracted. Nemo has no OWL, so it gets the
rows of dotr's tables that derive triples here, as rules over one relation of triples. The closures
are compared by their numbers of triples:

- dotr's count excludes triples of hidden predicates, which entailment uses;
- owlrl adds axiomatic triples, types of literals, and reflexive triples of every resource
  (owl:sameAs, and of classes and properties more), which dotr leaves out (docs/entailment.md);
- reasonable adds that every individual is an owl:Thing, and has no scm-dom1 and scm-rng1.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.closure import SUBCLASS, SUBPROPERTY, building, term
from dotr.evaluation.triples.index import is_hidden
from dotr.instant.datalog.background.knowledge import close_background, without_collection
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import DatalogRule, FilterItem
from dotr.model.terms import OWL, RDF_TYPE, XSD, Triple, iri

INVERSE = iri(OWL + "inverseOf")


class Found(NamedTuple):
    """Seconds of CPU, and the number of triples of the closure."""

    seconds: float
    closed: int


class System(NamedTuple):
    """A system that closes triples, passed as values or as a file.

    `module` is its import name, `package` its name in the registry, `largest` the most triples that it
    gets to close.
    """

    close: Callable[[Sequence[Triple], Path], Found]
    module: str
    package: str = ""
    largest: int = sys.maxsize


def ontology(instances: int) -> list[Triple]:
    """Readings of sensors in rooms, whose closure is four times as large."""
    triples = building(50)
    more = [
        ("Event", SUBCLASS, "OracleEvent"),
        ("OracleEvent", SUBCLASS, "Thing"),
        ("Device", SUBCLASS, "Asset"),
        ("is_from_sensor", SUBPROPERTY, "is_from"),
        ("has_val", SUBPROPERTY, "has_value"),
        ("is_from_sensor", INVERSE, "made"),
    ]
    triples += [(term(s), p, term(o)) for s, p, o in more]
    triples.append((term("part_of"), RDF_TYPE, iri(OWL + "TransitiveProperty")))
    for n in range(instances // 4):
        triples += [
            (term(f"r{n}"), RDF_TYPE, term("Temp")),
            (term(f"r{n}"), term("has_val"), f'"{n % 1000}"^^<{XSD}integer>'),
            (term(f"r{n}"), term("is_from_sensor"), term(f"s{n}")),
            (term(f"s{n}"), term("is_at_location"), term(f"loc{n % 50}")),
        ]
    return triples


def ours(triples: Sequence[Triple], path: Path) -> Found:
    rules = rule_set(Entailment.OWL2RL)
    start = time.process_time()
    with without_collection():
        closed = close_background(triples, rules)
    seconds = time.process_time() - start
    return Found(seconds, sum(len(group) for predicate, group in closed.by_predicate.items() if not is_hidden(predicate)))


def owlrl(triples: Sequence[Triple], path: Path) -> Found:
    from owlrl import DeductiveClosure, OWLRL_Semantics
    from rdflib import Graph

    graph = Graph().parse(path, format="nt")
    start = time.process_time()
    DeductiveClosure(OWLRL_Semantics).expand(graph)
    return Found(time.process_time() - start, len(graph))


def reasonable(triples: Sequence[Triple], path: Path) -> Found:
    reasoner = import_module("reasonable").PyReasoner()
    reasoner.load_file(str(path))
    start = time.process_time()
    found = reasoner.reason()
    return Found(time.process_time() - start, len(found))


def nemo(triples: Sequence[Triple], path: Path) -> Found:
    given = f'@import given :- ntriples{{resource="{path}"}} .\ntriple(?s, ?p, ?o) :- given(?s, ?p, ?o) .\n@output triple .\n'
    reading, _ = _run_nemo(given)
    seconds, engine = _run_nemo(given + "\n".join(nemo_rules(ontology(100))))
    return Found(seconds - reading, sum(1 for _ in engine.result("triple")))


def _run_nemo(program: str) -> tuple[float, Any]:
    module = import_module("nmo_python")
    engine = module.NemoEngine(module.load_string(program))
    start = time.process_time()
    engine.reason()
    return time.process_time() - start, engine


def nemo_rules(triples: Sequence[Triple]) -> list[str]:
    """The rows of OWL 2 RL that are the first to derive some triple in the closure of these, as nemo writes rules.

    A condition NOT IN of a row becomes inequalities.

    >>> rules = nemo_rules([("<p>", SUBPROPERTY, "<q>"), ("<a>", "<p>", "<b>")])
    >>> for rule in rules: print(rule)  # doctest: +ELLIPSIS
    triple(?x, ?p2, ?y) :- triple(?p1, <http://www.w3.org/2000/01/rdf-schema#subPropertyOf>, ?p2), triple(?x, ?p1, ?y), ?p2 != ...
    """
    rules = rule_set(Entailment.OWL2RL)
    used = close_background(triples, rules).by_rule
    return [nemo_rule(rule) for rule in rules if rule.name in used and _is_for_nemo(rule)]


def _is_for_nemo(rule: DatalogRule) -> bool:
    """True if a rule reads triples of the data, and not only (IN) the vocabulary's own properties."""
    patterns = [*rule.head, *(item for item in rule.body if isinstance(item, TriplePattern))]
    hidden = any(isinstance(pattern.predicate, Const) and is_hidden(pattern.predicate.term) for pattern in patterns)
    conditions = [item.condition for item in rule.body if isinstance(item, FilterItem)]
    return not hidden and not any(isinstance(condition, Call) and condition.function == "IN" for condition in conditions)


def nemo_rule(rule: DatalogRule) -> str:
    """A rule as nemo writes it, over one relation of triples."""
    body: list[str] = []
    for item in rule.body:
        match item:
            case TriplePattern():
                body.append(_nemo_atom(item))
            case FilterItem(Call("NOT IN", (Var(name), *terms))):
                body += [f"?{name} != {each.term}" for each in terms if isinstance(each, Const)]
            case FilterItem(Call("!", (Call("SAMETERM", (Var(one), Var(other))),))):
                body.append(f"?{one} != ?{other}")
            case _:
                raise TypeError(f"{rule.name}: {item}")
    return f"{', '.join(map(_nemo_atom, rule.head))} :- {', '.join(body)} ."


def _nemo_atom(pattern: TriplePattern) -> str:
    return f"triple({', '.join(map(_nemo_term, (pattern.subject, pattern.predicate, pattern.object)))})"


def _nemo_term(slot: Slot) -> str:
    return slot.term if isinstance(slot, Const) else f"?{slot.name}"


SYSTEMS: Final = {
    "dotr": System(ours, "dotr"),
    "owlrl": System(owlrl, "owlrl", "owlrl", 10_000),
    "nemo": System(nemo, "nmo_python", "nemo-python"),
    "reasonable": System(reasonable, "reasonable", "reasonable"),
}


def compare(sizes: Iterable[int], names: Sequence[str]) -> None:
    say(f"{'':<12} {'triples':>12} {'closed':>12} {'seconds':>9} {'peak memory':>12}")
    for size in sizes:
        for name in names:
            system = SYSTEMS[name]
            if find_spec(system.module) is None:
                say(f"{name:<12} {size:>12,} is not installed: pip install {system.package}")
            elif size <= system.largest:
                command = [sys.executable, "-m", "benchmarks.closing", "--close", name, "--triples", str(size)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
                if done.returncode:
                    say(f"{name:<12} {size:>12,} failed: {done.returncode}")
                else:
                    found = json.loads(done.stdout)
                    say(f"{name:<12} {found['given']:>12,} {found['closed']:>12,} {found['seconds']:>9.2f} {found['peak']:>9,} MB")


def close(name: str, size: int) -> None:
    """In a process of its own: one system closes so many triples."""
    triples = ontology(size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.ttl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{s} {p} {o} .\n" for s, p, o in triples)
        given = len(triples)
        if name != "dotr":
            triples = []
        seconds, closed = SYSTEMS[name].close(triples, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    say(json.dumps({"given": given, "closed": closed, "seconds": seconds, "peak": peak}))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--systems", nargs="+", choices=sorted(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--close", choices=sorted(SYSTEMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.close:
        close(options.close, options.triples)
    else:
        compare(sorted({10_000, options.triples}), options.systems)


if __name__ == "__main__":
    main()
