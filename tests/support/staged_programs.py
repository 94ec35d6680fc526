"""Random programs whose rules join under several keys, or under none, and streams for them.

They cover the features that affect stages: clauses under different keys and without a key, every kind of clause before and after them,
equal events, blank nodes, unbound keys, delayed anchors, ticks with and without attributes, consumption, recursion, rules over rules at one
instant, and rules that differ only in constants.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from dotr.model.stream import Element
from dotr.model.terms import XSD, Triple, literal

NAMESPACE: Final = "http://e/"
KINDS: Final = "ABC"
ATTRIBUTES: Final = ("k", "l", "v")
BACKGROUND: Final = f"""@prefix : <{NAMESPACE}> .
:t1 a :Tick ; :k 1 ; :v 2 . :t2 a :Tick ; :k 2 ; :v 2 . :t3 a :Tick ; :k 1.0 ; :v 0 .
"""
INSTANTS: Final = 14


class RandomProgram(NamedTuple):
    """The text of a rule file, and a stream."""

    rules: str
    elements: Sequence[Element]


class _Clause(NamedTuple):
    text: str
    label: str
    positive: bool
    consumable: bool
    value: str


def random_program(seed: int) -> RandomProgram:
    """The program of a seed."""
    choose = random.Random(seed)
    rules = _Rules(choose)
    return RandomProgram(f"PREFIX : <{NAMESPACE}>\n" + "\n".join(rules.made), list(_elements(choose)))


def _elements(choose: random.Random) -> Sequence[Element]:
    values = [literal(str(n), XSD + "integer") for n in range(3)] + [literal("1.0", XSD + "decimal"), literal("02", XSD + "integer")]
    found: list[Element] = []
    now = choose.choice([0, 100])
    for _ in range(INSTANTS):
        now += choose.choice([1, 1, 2, 4])
        for _ in range(choose.randint(0, 4)):
            triples: list[Triple] = [("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<{NAMESPACE}{choose.choice(KINDS)}>")]
            triples += [("_:0", f"<{NAMESPACE}{name}>", choose.choice(values)) for name in ATTRIBUTES if choose.random() < 0.9]
            found += [Element(now * 1_000_000, tuple(triples))] * choose.choice([1, 1, 1, 2])
    return found


class _Rules:
    """The rules of a program, and the labels of their events."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.made: list[str] = []
        self.events: list[str] = []
        for number in range(choose.randint(1, 3)):
            event = choose.choice(self.events) if self.events and choose.random() < 0.15 else f"E{number}"
            text = self.rule(number, event)
            self.made.append(text.replace("BOUND", "0"))
            if "BOUND" in text and choose.random() < 0.7:
                for copy in range(1, choose.randint(2, 4)):
                    self.made.append(text.replace(f"rule R{number} ", f"rule R{number}Alike{copy} ").replace("BOUND", str(copy % 3)))
            if event not in self.events:
                self.events.append(event)

    def query(self, kind: str, filters: Sequence[str]) -> str:
        """The query of a kind of facts, whose attributes may be unbound."""
        tests = f" FILTER ({' && '.join(filters)})" if filters else ""
        pattern = " ".join(f"OPTIONAL {{ ?x :{name} ?{name} }}" for name in ATTRIBUTES)
        if self.choose.random() < 0.6:
            pattern = " ".join(f"?x :{name} ?{name} ." for name in ATTRIBUTES)
        shown = "?k ?l ?v" if self.choose.random() < 0.7 else "?k ?l ?v ?x"
        return f"[ SELECT {shown} WHERE {{ ?x a :{kind} . {pattern}{tests} }} ]"

    def anchor(self) -> str:
        choose = self.choose
        draw = choose.random()
        if draw < 0.1:
            return f"every {choose.randint(2, 6)} s for [ SELECT ?k ?v WHERE {{ ?x a :Tick ; :k ?k ; :v ?v }} ] as A0"
        if draw < 0.15:
            return f"every {choose.randint(2, 6)} s as A0"
        delay = f" delayed by {choose.choice(['1 s', '3 s', '500 ms'])}" if choose.random() < 0.15 else ""
        if self.events and choose.random() < 0.4:
            return f"{choose.choice(self.events)} as A0{delay}"
        return f"A0 = {self.query(choose.choice(KINDS), self.own_filter(0.3))}{delay}"

    def own_filter(self, probability: float) -> list[str]:
        if self.choose.random() >= probability:
            return []
        return [self.choose.choice(["?v > BOUND", "?v >= BOUND", "?v = BOUND", "?v != 1", "?k < 2"])]

    def clause(self, number: int, bound: Sequence[tuple[str, Sequence[str]]], results: Sequence[str], own_event: str) -> _Clause:
        """A clause; `bound` are the labels bound before, with their attributes, `results` the variables of aggregates."""
        choose = self.choose
        label, filters = f"C{number}", self.own_filter(0.25)
        tied = [(name, attributes) for name, attributes in bound if attributes]
        for _ in range(choose.choice([0, 1, 1, 1, 2]) if tied else 0):
            other, attributes = choose.choice(tied)
            equality = [f"?{choose.choice('kklv')}", f"{other}.?{choose.choice(attributes)}"]
            choose.shuffle(equality)
            filters.append(" = ".join(equality))
        if results and choose.random() < 0.3:
            filters.append(f"?{choose.choice('kv')} = {choose.choice(results)}")
        if tied and choose.random() < 0.15:
            other, attributes = choose.choice(tied)
            filters.append(f"?{choose.choice('kv')} {choose.choice(['<', '<=', '!='])} {other}.?{choose.choice(attributes)}")
        recursive = choose.random() < 0.08
        if recursive or (self.events and choose.random() < 0.3):
            event = own_event if recursive else choose.choice(self.events)
            role = f"{event} as {label}" + (f" [ FILTER ({' && '.join(filters)}) ]" if filters else "")
        else:
            role = f"{label} = {self.query(choose.choice(KINDS), filters)}"
        reference = choose.choice(bound)[0]
        low, far = choose.choice(["(0", "[0", "[0", "[1 s"]), choose.randint(1, 9)
        scope = f"within {'(0' if recursive else low}, {far} s] from {reference}"
        if len(bound) > 1 and choose.random() < 0.3:
            first, second = choose.sample([name for name, _ in bound], 2)
            between = f"between {first} and {second}"
        else:
            between = scope
        mode = choose.choice(["each", "each", "last", "last", "first", "last 2", "first 2", "not", "not", "sum"])
        if mode == "not":
            return _Clause(f"not {role} {between if not recursive else scope}", label, False, False, "")
        if mode == "sum":
            function = choose.choice(
                ["count(*)", f"sum({label}.?v)", f"max({label}.?v)", f"median({label}.?v)", f"count(distinct {label}.?k)"]
            )
            return _Clause(f"?n{number} = {function} of {role} {between if not recursive else scope}", label, False, True, f"?n{number}")
        return _Clause(f"{mode} {role} {scope}", label, True, True, "")

    def rule(self, number: int, event: str) -> str:
        choose = self.choose
        anchor = self.anchor()
        attributes: Sequence[str] = ("k", "v") if " for " in anchor else () if anchor.startswith("every") else ATTRIBUTES
        bound: list[tuple[str, Sequence[str]]] = [("A0", attributes)]
        clauses: list[_Clause] = []
        for place in range(1, choose.choice([1, 2, 2, 3, 3, 4]) + 1):
            clauses.append(self.clause(place, bound, [each.value for each in clauses if each.value], event))
            if clauses[-1].positive:
                bound.append((clauses[-1].label, ATTRIBUTES))
        values = [f"{label}.?{name}" for label, names in bound for name in names] + [each.value for each in clauses if each.value] or ["1"]
        assigned = ", ".join(f"{event}.?{name} = {choose.choice(values)}" for name in ATTRIBUTES)
        condition = ""
        if choose.random() < 0.25 and len(values) > 1:
            condition = (
                f"\nif {choose.choice(values)} {choose.choice(['<', '<=', '='])} {choose.choice(values)} || {choose.choice(values)} > 1"
            )
        consuming = ""
        consumable = [each.label for each in clauses if each.consumable]
        if consumable and choose.random() < 0.2:
            consuming = f"\nconsuming {', '.join(choose.sample(consumable, choose.randint(1, min(2, len(consumable)))))}"
        template = "[ dotr_id :k ?k ; :l ?l ; :v ?v ]" if choose.random() < 0.7 else "[ :e :k ?k . :e :v ?v ]"
        body = "".join(f"\nand {each.text}" for each in clauses)
        return f"rule R{number} define {event} = {template}\nfrom {anchor}{body}{condition}\nwith {assigned}{consuming}\n"
