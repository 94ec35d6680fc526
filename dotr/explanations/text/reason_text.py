"""Text of reasons: the nodes of triples, facts and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, assert_never

from dotr.engine.replay import WindowElement
from dotr.explanations.evidence.background_origins import BackgroundOrigin
from dotr.explanations.evidence.evaluations import ConditionOutcome
from dotr.explanations.evidence.proofs import (
    AggregatedGroup,
    BackgroundTriple,
    ContradictionProof,
    DerivedTriple,
    RuleCondition,
    StatedTriple,
    TripleProof,
    UnmatchedAtoms,
    parts_of_proofs,
)
from dotr.explanations.text.pattern_text import atom_text, path_text, pattern_text
from dotr.explanations.text.tree import ReasonKind, WhyTree
from dotr.instant.queries.evidence import (
    ComputedTerm,
    Evidence,
    EvidenceItem,
    HeldFilter,
    SolutionGroup,
    UnmatchedPattern,
    UsedMapping,
    UsedPath,
    UsedTriple,
    UsedWindow,
    used_triples,
)
from dotr.model.algebra import AggregateCall, Const, Expression, TriplePattern, Var
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import transform
from dotr.syntax.rendering import TermWriter, brief_text, expression_text

Origins = Mapping[Triple, BackgroundOrigin]
_MOST_MEMBERS: Final = 1_000
"""Maximum number of members of a group that are listed."""
_SHOWN_MEMBERS: Final = 5
"""Maximum number of members of a group of a continuous query in the text."""


def with_values(expression: Expression, terms: Mapping[Expression, Term | None], writer: TermWriter) -> str:
    """An expression in which variables are replaced by their terms.

    >>> from dotr.model.algebra import Call
    >>> with_values(Call(">", (Var("v"), Var("w"))), {Var("v"): "<http://e/a>"}, TermWriter({"": "http://e/"}))
    ':a > ?w'
    """

    def value(part: Expression) -> Expression:
        term = terms.get(part)
        return part if term is None else Const(writer.text(term) if term.startswith("_:") else term)

    return brief_text(transform(expression, value), writer.prefixes)


def outcome_text(outcome: ConditionOutcome, writer: TermWriter) -> str:
    """A condition with the terms that decided it: `80 > 75`, `30 > 30 is false`."""
    text = with_values(outcome.expression, dict(outcome.operands), writer)
    return text if outcome.holds else f"{text} is false" if outcome.holds is False else f"{text} errs"


def _by_variable(bindings: Mapping[Variable, Term]) -> dict[Expression, Term | None]:
    return {Var(name): term for name, term in bindings.items()}


def aggregate_text(call: AggregateCall, writer: TermWriter) -> str:
    """An aggregate of a query: `COUNT(DISTINCT ?x)`."""
    argument = "*" if call.argument is None else expression_text(call.argument, writer.prefixes)
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument})"


def members_text(number: int) -> str:
    """`1 member`, `12 members`."""
    return f"{number:,} member{'' if number == 1 else 's'}"


class ScopedEvidence(Protocol):
    """Writer of the evidence of a continuous query, whose parts belong to different graphs."""

    def node(self, item: UsedWindow | UsedMapping) -> WhyTree:
        """The evidence of a solution in a window, or in a MATCH."""

    def member(self, evidence: Evidence) -> WhyTree:
        """A member of a group."""

    def made(self, element: WindowElement) -> tuple[WhyTree, ...]:
        """The reason of the event whose graph is an element; empty for an element of an input."""


class ReasonWriter:
    """Writer of the nodes of one tree.

    Args:
        terms: the writer of terms, which names blank nodes.
        origins: the origins of all background triples of the tree.

    Attributes:
        scoped: the writer of a continuous query's evidence, set while its solutions are written.
    """

    def __init__(self, terms: TermWriter, origins: Origins) -> None:
        self.terms = terms
        self.scoped: ScopedEvidence | None = None
        self._origins = origins
        self._shown: set[int] = set()

    # --- proofs of triples ---

    def triple(self, proof: TripleProof) -> WhyTree:
        """The proof of a triple. A proof that the tree already contains is not repeated."""
        return self._tree(proof)

    def contradiction(self, proof: ContradictionProof, time: str | int) -> WhyTree:
        """The proof of a contradiction at a time."""
        children = (*map(self.triple, proof.premises), *self._conditions(proof.conditions))
        return WhyTree(
            ReasonKind.CONTRADICTION, f"contradiction at {time}", proof.rule.name, children, fields={"rule": proof.rule.name, "time": time}
        )

    def _tree(self, root: TripleProof) -> WhyTree:
        entries: list[tuple[TripleProof, int, bool]] = []
        pending: list[tuple[TripleProof, int]] = [(root, -1)]
        while pending:
            proof, above = pending.pop()
            number, again = len(entries), False
            if isinstance(proof, DerivedTriple):
                again = id(proof) in self._shown
                self._shown.add(id(proof))
                if not again:
                    pending += [(premise, number) for premise in reversed(proof.premises)]
            entries.append((proof, above, again))
        texts = [self.terms.triple(proof.triple) for proof, _, _ in entries]
        below: list[list[WhyTree]] = [[] for _ in entries]
        for number in range(len(entries) - 1, -1, -1):
            proof, above, again = entries[number]
            node = self._triple_node(proof, texts[number], tuple(reversed(below[number])), again=again)
            if above < 0:
                return node
            below[above].append(node)
        raise AssertionError("a proof has a root")

    def _triple_node(self, proof: TripleProof, text: str, premises: tuple[WhyTree, ...], *, again: bool) -> WhyTree:
        subject, predicate, value = proof.triple
        fields = {"subject": self.terms.text(subject), "predicate": self.terms.predicate(predicate), "object": self.terms.text(value)}
        match proof:
            case StatedTriple(_, WindowElement() as element):
                source = "element" if element.place is not None else "unit"
                made = () if self.scoped is None else self.scoped.made(element)
                return WhyTree(
                    ReasonKind.TRIPLE,
                    text,
                    str(element),
                    made,
                    fields={**fields, "place": element.source, "from": source, "at": element.shown},
                )
            case StatedTriple(_, place):
                return WhyTree(ReasonKind.TRIPLE, text, str(place), fields={**fields, "from": "element"})
            case BackgroundTriple():
                return WhyTree(ReasonKind.TRIPLE, text, self._background_place(proof), fields={**fields, "from": "background"})
            case DerivedTriple(_, rule):
                if again:
                    return WhyTree(ReasonKind.TRIPLE, f"{text}, as above", rule.name, fields={**fields, "from": "rule", "rule": rule.name})
                children = (*premises, *self._conditions(proof.conditions))
                return WhyTree(ReasonKind.TRIPLE, text, rule.name, children, fields={**fields, "from": "rule", "rule": rule.name})
            case _:
                assert_never(proof)

    def _background_place(self, proof: BackgroundTriple) -> str:
        origin = self._origins.get(proof.triple)
        if origin is None or (origin.place is None and origin.rule is None):
            return "background"
        return f"background, by {origin.rule.name}" if origin.place is None and origin.rule is not None else str(origin.place)

    def _conditions(self, conditions: Iterable[RuleCondition]) -> list[WhyTree]:
        return [self.condition(each) for each in conditions]

    def condition(self, condition: RuleCondition) -> WhyTree:
        """A condition of a Datalog rule."""
        match condition:
            case HeldFilter(expression, bindings):
                return WhyTree(ReasonKind.CONDITION, with_values(expression, _by_variable(bindings), self.terms))
            case ComputedTerm(variable, expression, term, bindings):
                return self._computed(variable, expression, term, bindings)
            case UnmatchedAtoms(atoms):
                return WhyTree(ReasonKind.ABSENCE, f"NOT {', '.join(self._atom(atom) for atom in atoms)}: nothing matches")
            case AggregatedGroup(keys, results, members):
                values = ", ".join(f"?{name} = {self.terms.text(term)}" for name, _, term in results)
                calls = ", ".join(aggregate_text(call, self.terms) for _, call, _ in results)
                of = f" with {', '.join(f'?{name} = {self.terms.text(term)}' for name, term in keys.items())}" if keys else ""
                details = [self._member([self.terms.triple(triple) for triple in member]) for member in members[:_MOST_MEMBERS]]
                return WhyTree(ReasonKind.GROUP, f"{values}: {calls} of {members_text(len(members))}{of}", details=tuple(details))
            case _:
                assert_never(condition)

    def _atom(self, atom: TriplePattern) -> str:
        return atom_text(atom, self.terms)

    def _computed(self, variable: Variable, expression: Expression, term: Term, bindings: Mapping[Variable, Term]) -> WhyTree:
        text = with_values(expression, _by_variable(bindings), self.terms)
        return WhyTree(ReasonKind.CONDITION, f"?{variable} = {self.terms.text(term)}: {text}")

    def _member(self, texts: Sequence[str], place: str = "") -> WhyTree:
        return WhyTree(ReasonKind.MEMBER, " . ".join(texts), place)

    # --- facts ---

    def evidence(self, evidence: Evidence, proofs: Mapping[Triple, TripleProof]) -> list[WhyTree]:
        """The nodes of a fact's evidence. Blank nodes are named after the query's variables."""
        self.name_blanks(evidence)
        return [self._used(item, proofs) for item in evidence]

    def attributes(self, attributes: Mapping[Variable, Term]) -> str:
        """The attributes of an event; blank nodes are named after them."""
        for name, term in attributes.items():
            self.terms.name_blank(term, name)
        return ", ".join(f"{name} {self.terms.text(term)}" for name, term in attributes.items())

    def name_blanks(self, evidence: Evidence) -> None:
        """Name the blank nodes of some evidence after the variables that they are bound to."""
        for item in evidence:
            if isinstance(item, UsedTriple):
                slots = (item.pattern.subject, item.pattern.predicate, item.pattern.object)
                for slot, term in zip(slots, item.triple, strict=True):
                    if isinstance(slot, Var):
                        self.terms.name_blank(term, "b" if slot.name.startswith(".") else slot.name.removeprefix("_:"))

    def _used(self, item: EvidenceItem, proofs: Mapping[Triple, TripleProof]) -> WhyTree:
        match item:
            case UsedTriple(triple, _):
                return self._proof(triple, proofs)
            case UsedPath(subject, path, value, triples):
                text = f"{self.terms.text(subject)} {path_text(path, self.terms)} {self.terms.text(value)}"
                return WhyTree(ReasonKind.PATH, text, children=tuple(self._proof(each, proofs) for each in triples))
            case UnmatchedPattern(operator, pattern, bindings):
                given = ", ".join(f"?{name} = {self.terms.text(term)}" for name, term in bindings.items() if name[0] not in "._")
                text = f"{operator.value} {{ {pattern_text(pattern, self.terms)} }}: nothing matches"
                return WhyTree(ReasonKind.ABSENCE, f"{text} with {given}" if given else text)
            case SolutionGroup(keys, results, members):
                calls = ", ".join(f"{aggregate_text(call, self.terms)} = {self._term(term)}" for call, term in results)
                of = f" with {', '.join(f'?{name} = {self.terms.text(term)}' for name, term in keys.items())}" if keys else ""
                text = f"{f'{calls} of ' if calls else ''}{members_text(len(members))}{of}"
                if self.scoped is not None:
                    nodes = [self.scoped.member(member) for member in members[:_MOST_MEMBERS]]
                    text += f", {_SHOWN_MEMBERS} shown" if len(members) > _SHOWN_MEMBERS else ""
                    return WhyTree(ReasonKind.GROUP, text, "", tuple(nodes[:_SHOWN_MEMBERS]), tuple(nodes[_SHOWN_MEMBERS:]))
                return WhyTree(
                    ReasonKind.GROUP, text, details=tuple(self._group_member(member, proofs) for member in members[:_MOST_MEMBERS])
                )
            case HeldFilter() | ComputedTerm():
                return self.condition(item)
            case UsedWindow() | UsedMapping():
                assert self.scoped is not None, "a rule's query has no windows"
                return self.scoped.node(item)
            case _:
                assert_never(item)

    def _group_member(self, member: Evidence, proofs: Mapping[Triple, TripleProof]) -> WhyTree:
        self.name_blanks(member)
        triples = list(used_triples(member))
        places = dict.fromkeys(str(proof.place) for triple in triples if isinstance(proof := proofs.get(triple), StatedTriple))
        return self._member([self.terms.triple(triple) for triple in triples], ", ".join(places))

    def _proof(self, triple: Triple, proofs: Mapping[Triple, TripleProof]) -> WhyTree:
        proof = proofs.get(triple)
        return WhyTree(ReasonKind.TRIPLE, self.terms.triple(triple)) if proof is None else self.triple(proof)

    def _term(self, term: Term | None) -> str:
        return "unbound" if term is None else self.terms.text(term)


def background_triples(proofs: Iterable[TripleProof]) -> list[Triple]:
    """The background triples that are leaves of some proofs, each once."""
    return list(dict.fromkeys(proof.triple for proof in parts_of_proofs(proofs) if isinstance(proof, BackgroundTriple)))


def replace_background(proof: TripleProof, further: Callable[[Triple], TripleProof], built: dict[int, TripleProof]) -> TripleProof:
    """A proof in which each background triple is replaced by the proof that a function returns.

    Args:
        proof: the proof.
        further: the function.
        built: the results for the parts of earlier proofs, by their id; extended. The caller keeps
            these parts alive as long as the mapping.
    """
    pending = [proof]
    while pending:
        each = pending[-1]
        if isinstance(each, DerivedTriple):
            missing = [premise for premise in each.premises if id(premise) not in built]
            if missing:
                pending += missing
                continue
            premises = tuple(built[id(premise)] for premise in each.premises)
            built[id(each)] = DerivedTriple(each.triple, each.rule, premises, each.conditions)
        else:
            built[id(each)] = further(each.triple) if isinstance(each, BackgroundTriple) else each
        pending.pop()
    return built[id(proof)]
