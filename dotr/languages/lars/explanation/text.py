"""Text of events of LARS files: a derivation as a tree, down to elements with their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dotr.engine.replay import ElementPlace, WindowElement
from dotr.explanations.evidence.proofs import DerivedTriple, StatedTriple, TripleProof
from dotr.explanations.evidence.reasons import FactReason, UnitReason
from dotr.explanations.text.tree import JsonValue, ReasonKind, WhyTree
from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
from dotr.instant.queries.evidence import ComputedTerm, HeldFilter
from dotr.languages.lars.explanation.reasons import LarsEventReason, LarsNode, PointAtom
from dotr.languages.lars.model import EventName, LarsItem, LarsNot, OwnRelation, ReportKind
from dotr.model.datalog import Bind, FilterItem
from dotr.model.terms import Term, Variable
from dotr.model.time import Micros
from dotr.model.units import FedGraphs
from dotr.syntax.scan import one_line

_MOST_SHOWN: Final = 5
"""Maximum number of points in the text for an atom that holds at each of several points."""


class LarsWriter(UnitEventWriter):
    """Writer of events of LARS files as trees."""

    def __init__(self, context: WriterContext) -> None:
        super().__init__(context)
        self._timed: dict[int, tuple[TripleProof, TripleProof]] = {}

    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event."""
        assert isinstance(reason, LarsEventReason)
        firing = reason.firing
        text = self._headline(firing)
        derivation = () if reason.node is None else (self._node(reason.node),)
        before = f"the point before, at {self._time(reason.before)}"
        match reason.report.kind:
            case ReportKind.ALL:
                children: tuple[WhyTree, ...] = derivation
            case ReportKind.NEW:
                new = "new: this is the first point" if reason.is_first else f"new: it does not hold at {before}"
                children = (*derivation, WhyTree(ReasonKind.REPORT, new))
            case ReportKind.ENDED:
                held = WhyTree(ReasonKind.REPORT, f"held at {before}", children=derivation)
                children = (held, self._ended(reason))
        fields: dict[str, JsonValue] = {
            "event": firing.label,
            "rule": firing.label,
            "time": self._time(firing.time),
            "name": None,
            "attributes": {name: self._reasons.terms.text(term) for name, term in firing.attributes.items()},
        }
        return WhyTree(ReasonKind.EVENT, text, reason.report.label_span.file_line, children, fields=fields)

    def name_blanks(self, reason: UnitReason) -> None:
        """Name blank nodes after the attributes of the event, and the variables of rules."""
        assert isinstance(reason, LarsEventReason)
        for name, term in reason.firing.attributes.items():
            self._reasons.terms.name_blank(term, name)
        for node in reason.nodes():
            for name, term in node.bindings.items():
                self._reasons.terms.name_blank(term, name)

    # --- what has ended ---

    def _ended(self, reason: LarsEventReason) -> WhyTree:
        """The parts of the derivation that no longer hold."""
        start = f"ended at {self._time(reason.firing.time)}"
        if reason.ended:
            ended = "; ".join(self._ended_text(node) for node in reason.ended)
            return WhyTree(ReasonKind.REPORT, f"{start}: {ended}")
        if reason.refuted:
            nodes = [
                WhyTree(ReasonKind.NEGATION, f"{one_line(item.span)} fails", children=tuple(map(self._node, found)))
                for item, found in reason.refuted
            ]
            return WhyTree(ReasonKind.REPORT, start, children=tuple(nodes))
        return WhyTree(ReasonKind.REPORT, f"{start}: nothing else derives it")

    def _ended_text(self, node: LarsNode) -> str:
        times = [self._time(each.time) for each in node.points if each.time is not None]
        if not times:
            return f"{self._atom(node)} has ended"
        at = f"at {times[0]}" if len(times) == 1 else f"from {times[0]} to {times[-1]}"
        return f"{self._atom(node)} {at} has left its window"

    # --- derivations ---

    def _node(self, node: LarsNode) -> WhyTree:
        if node.rule is None:
            return self._leaf(node)
        text = self._atom(node)
        if node.time is not None:
            text += f" at {self._time(node.time)}"
        children = [self._node(each) for each in node.premises]
        for item in node.rule.body:
            children += self._condition(item, node.bindings)
        return WhyTree(ReasonKind.CLAUSE, text, node.rule.name, tuple(children), fields={"rule": node.rule.name, "atom": text})

    def _condition(self, item: LarsItem, bindings: Mapping[Variable, Term]) -> Iterator[WhyTree]:
        match item:
            case FilterItem(expression):
                yield self._reasons.condition(HeldFilter(expression, dict(bindings)))
            case Bind(expression, variable):
                if variable in bindings:
                    yield self._reasons.condition(ComputedTerm(variable, expression, bindings[variable], dict(bindings)))
            case LarsNot(literals, span):
                names = dict.fromkeys(name for literal in literals for name in literal.variables if name in bindings)
                given = ", ".join(f"?{name} = {self._reasons.terms.text(bindings[name])}" for name in names)
                yield WhyTree(ReasonKind.NEGATION, f"{one_line(span)}: nothing matches{f' with {given}' if given else ''}")
            case _:
                pass

    # --- atoms of the stream and of the background ---

    def _leaf(self, node: LarsNode) -> WhyTree:
        if node.fact is not None:
            return WhyTree(ReasonKind.TRIPLE, self._atom(node), node.fact.file_line, fields={"from": "fact"})
        if len(node.points) == 1:
            return self._point(node, node.points[0])
        first, last = (self._time(each.time or 0) for each in (node.points[0], node.points[-1]))
        reason = node.reason
        count = len(node.points) if reason.first is None or reason.last is None else reason.last - reason.first + 1
        shown = f", {_MOST_SHOWN} shown" if count > _MOST_SHOWN else ""
        nodes = [self._point(node, each) for each in node.points]
        text = f"{self._atom(node)} at each of {count:,} points, {first} to {last}{shown}"
        return WhyTree(ReasonKind.GROUP, text, "", tuple(nodes[:_MOST_SHOWN]), tuple(nodes[_MOST_SHOWN:]))

    def _point(self, node: LarsNode, atom: PointAtom) -> WhyTree:
        if atom.proof is not None:
            return self._reasons.triple(atom.proof if atom.time is None else self._with_time(atom.proof, atom.time))
        if not isinstance(node.atom.predicate, EventName):
            return WhyTree(ReasonKind.TRIPLE, self._atom(node), "" if atom.time is None else f"at {self._time(atom.time)}")
        label = node.atom.predicate.label
        values = ", ".join(f"{name} {self._reasons.terms.text(term)}" for name, term in atom.attributes.items())
        text = f"EVENT {label} at {self._time(atom.time or 0)}{f': {values}' if values else ''}"
        match atom.made:
            case None:
                children: tuple[WhyTree, ...] = ()
            case FactReason():
                children = tuple(self._reasons.evidence(atom.made.evidence, atom.made.proofs))
            case made:
                children = (self._of(made),)
        return WhyTree(ReasonKind.ITEM, text, "", children, fields={"event": label, "at": self._time(atom.time or 0)})

    def _with_time(self, proof: TripleProof, time: Micros) -> TripleProof:
        """A proof whose elements have the time of their instant; shared parts remain one object."""
        known = self._timed.get(id(proof))
        if known is not None:
            return known[1]
        made = proof
        match proof:
            case StatedTriple(triple, ElementPlace() as place):
                made = StatedTriple(triple, WindowElement(time, self._time(time), FedGraphs(""), (triple,), 0, place))
            case DerivedTriple(triple, rule, premises, conditions):
                made = DerivedTriple(triple, rule, tuple(self._with_time(each, time) for each in premises), conditions)
            case _:
                pass
        self._timed[id(proof)] = (proof, made)
        return made

    # --- parts of the text ---

    def _atom(self, node: LarsNode) -> str:
        """An atom: a triple in Turtle, an own atom as it is written, an event by its label."""
        atom = node.atom
        if atom.triple is not None:
            return self._reasons.terms.triple(atom.triple)
        match atom.predicate:
            case OwnRelation(name):
                return f"{name}({', '.join(map(self._reasons.terms.text, atom.terms))})" if atom.terms else name
            case EventName(label):
                values = ", ".join(f"{name} {self._reasons.terms.text(term)}" for name, term in zip(atom.names, atom.terms, strict=True))
                return f"EVENT {label}({values})"
            case _:
                raise AssertionError("a property or a class has triples")
