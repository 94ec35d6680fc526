"""Random rules whose clauses are under several keys, or under none, and streams that make them fire.

Small domains, so that there are equal events, ties, blank nodes and values equal but not the same term.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from dotr.model.stream import Element
from dotr.model.terms import Triple

HEADER: Final = "PREFIX : <http://e/>\n" + "".join(
    f"query {label} = [ SELECT ?k ?v ?w WHERE {{ ?x a :{label} ; :k ?k ; :v ?v . OPTIONAL {{ ?x :w ?w }} }} ]\n" for label in "ABCD"
)
KINDS: Final = ("each", "each", "last", "first", "last 2", "not", "count", "max", "sum")
NAMES: Final = ("k", "v", "w")
SECOND: Final = 1_000_000


class ChainMaker:
    """A generator of random rules, determined by `seed`. `kinds`: the clauses to choose from."""

    def __init__(self, seed: int, kinds: Sequence[str] = KINDS) -> None:
        self.kinds = kinds
        self.random = random.Random(seed)
        self.choose = self.random.choice

    def rule(self, name: str, made: str, readable: Sequence[str], *, copies: int = 1) -> list[str]:
        """A rule in `copies` variants that differ only in constants."""
        bound: list[tuple[str, Sequence[str]]] = []
        positive: list[str] = []
        results: list[str] = []
        source = self.choose(readable)
        delay = f" delayed by {self.choose([1, 3])} s" if self.random.random() < 0.15 else ""
        parts = [f"from {source} as N0{self.bracket(bound, 0, keyed=False)}{delay}"]
        bound.append(("N0", NAMES))
        positive.append("N0")
        for number in range(1, self.choose([2, 3, 3, 4, 4])):
            label, of = f"N{number}", self.choose(readable)
            kind = self.choose(self.kinds)
            terms = self.bracket(bound, number, keyed=self.random.random() < 0.75, results=results)
            scope = f"within {self.choose(['4 s', '[0, 6 s]', '[1 s, 9 s]'])} from {self.choose(positive)}"
            if kind in ("not", "count", "max", "sum") and len(positive) > 1 and self.random.random() < 0.4:
                scope = f"between {' and '.join(self.random.sample(positive, 2))}"
            if kind == "not":
                parts.append(f"and not {of} as {label}{terms} {scope}")
            elif kind in ("count", "max", "sum"):
                parts.append(f"and ?r{number} = {kind}({label}.?v) of {of} as {label}{terms} {scope}")
                results.append(f"r{number}")
                bound.append((label, (f"r{number}",)))
            else:
                parts.append(f"and {kind} {of} as {label}{terms} {scope}")
                positive.append(label)
                bound.append((label, NAMES))
        if self.random.random() < 0.3:
            parts.append(f"if {self.operand(bound)} {self.choose(['!=', '<', '>='])} {self.operand(bound)}")
        values = [f"{made}.?{name} = {self.operand(bound)}" for name in NAMES]
        parts.append("with " + ", ".join(values))
        if self.random.random() < 0.15:
            parts.append(f"consuming {self.choose(positive)}")
        subject = self.choose(["dotr_id", "dotr_id", ":one", "[]"])
        graph = f"{subject} :k ?k ; :v ?v ; :w ?w"
        text = f"rule {name}# define {made} = [ {graph if subject != '[]' else ':it :is [ :k ?k ; :v ?v ]'} ]\n" + "\n".join(parts)
        return [self.with_constants(text.replace("#", str(copy) if copies > 1 else "", 1)) for copy in range(copies)]

    def with_constants(self, text: str) -> str:
        while "§" in text:
            text = text.replace("§", str(self.choose([0, 1, 1, 2, 3])), 1)
        return text

    def operand(self, bound: Sequence[tuple[str, Sequence[str]]]) -> str:
        label, names = self.choose(bound)
        name = self.choose(names)
        return f"?{name}" if name[0] == "r" else f"{label}.?{name}"

    def bracket(self, bound: Sequence[tuple[str, Sequence[str]]], number: int, *, keyed: bool, results: Sequence[str] = ()) -> str:
        terms = []
        if keyed and bound:
            terms.append(f"?{self.choose(NAMES)} = {self.constraint_side(bound)}")
        if self.random.random() < 0.3:
            terms.append(f"?{self.choose('kvw')} {self.choose(['>', '>=', '<', '!='])} §")
        if bound and self.random.random() < 0.2:
            terms.append(f"?v {self.choose(['<=', '!=', '>='])} {self.constraint_side(bound)}")
        return f" [ FILTER({' && '.join(terms)}) ]" if terms else ""

    def constraint_side(self, bound: Sequence[tuple[str, Sequence[str]]]) -> str:
        return self.operand(bound)

    def program(self) -> str:
        """One to three rules, of which later ones may read the events of earlier ones."""
        rules: list[str] = []
        readable = ["A", "B", "C", "D"]
        for number in range(self.choose([1, 1, 2, 3])):
            made = f"E{number}"
            rules += self.rule(f"R{number}", made, readable, copies=self.choose([1, 1, 3]))
            readable = [*readable, made, made]
        return HEADER + "\n".join(rules)

    def stream(self, instants: int = 30) -> list[Element]:
        """Elements in the order of time; equal reports differ in blank nodes alone."""
        integer, decimal = "<http://www.w3.org/2001/XMLSchema#integer>", "<http://www.w3.org/2001/XMLSchema#decimal>"
        values = [*(f'"{n}"^^{integer}' for n in range(3)), f'"1.0"^^{decimal}', "<http://e/i>", "_:1"]
        weights = [5, 8, 2, 2, 1, 1]
        now, elements = 0, []
        for _ in range(instants):
            now += self.choose([1, 1, 2, 4]) * SECOND
            for _ in range(self.random.randint(0, 5)):
                triples: list[Triple] = [("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<http://e/{self.choose('ABCD')}>")]
                triples += [("_:0", f"<http://e/{name}>", self.random.choices(values, weights)[0]) for name in "kv"]
                if self.random.random() < 0.7:
                    triples.append(("_:0", "<http://e/w>", self.random.choices(values, weights)[0]))
                elements += [Element(now, tuple(triples))] * self.choose([1, 1, 1, 2])
        return elements
