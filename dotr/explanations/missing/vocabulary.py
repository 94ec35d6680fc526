"""Predicates and classes of the elements of a stream, and near misses among their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.text.tree import first_of
from dotr.model.algebra import Const, Link, Slot, TriplePattern, slots_of
from dotr.model.datalog import DatalogRule
from dotr.model.terms import RDF_TYPE, Term, Triple
from dotr.model.time import Micros
from dotr.model.traverse import AlgebraNode, walk
from dotr.syntax.rendering import TermWriter

_MAX_TERMS: Final = 1_000
_MAX_NAMES: Final = 5


class StreamVocabulary:
    """Predicates and classes of the elements of a stream, up to 1,000 of each.

    Args:
        rules: Datalog rules, whose heads provide predicates and classes too.
        elements: False if only the background is queried, as by ticks.
        names: terms of which it is noted whether an element has them.

    >>> vocabulary = StreamVocabulary()
    >>> vocabulary.add([("_:0", "<http://e/valeu>", '"1"'), ("_:0", "<http://e/of>", "<http://e/t1>")], 0)
    >>> writer = TermWriter({"": "http://e/"})
    >>> vocabulary.near_miss("<http://e/value>", None, TripleIndex(), writer)
    'No element brings :value; the elements bring :of, :valeu. Did you mean :valeu?'
    >>> vocabulary.near_miss("<http://e/of>", None, TripleIndex(), writer)
    ''
    """

    def __init__(self, rules: Iterable[DatalogRule] = (), *, elements: bool = True, names: Iterable[Term] = ()) -> None:
        self._elements = elements
        self._unseen = set(names)
        self._predicates: dict[Term, Micros] = {}
        self._classes: dict[Term, Micros] = {}
        self._heads = [head for rule in rules for head in rule.head]

    def add(self, triples: Iterable[Triple], time: Micros) -> None:
        """Add the triples of an element at a time in µs since 1970."""
        predicates, unseen = self._predicates, self._unseen
        for subject, predicate, value in triples:
            if unseen:
                unseen -= {subject, predicate, value}
            if predicate not in predicates and len(predicates) < _MAX_TERMS:
                predicates[predicate] = time
            if predicate == RDF_TYPE and value not in self._classes and len(self._classes) < _MAX_TERMS:
                self._classes[value] = time

    def unknown(self, names: Iterable[Term], background: TripleIndex, writer: TermWriter) -> str:
        """A sentence on the first of some noted terms that neither elements, Datalog heads nor the
        background have; empty: there is none.

        >>> vocabulary = StreamVocabulary(names=["<http://e/t2>"])
        >>> vocabulary.add([("_:0", "<http://e/of>", "<http://e/t1>")], 0)
        >>> vocabulary.unknown(["<http://e/t2>"], TripleIndex(), TermWriter({"": "http://e/"}))
        ':t2 occurs nowhere: neither an element nor the background has it.'
        """
        of_heads = {slot.term for head in self._heads for slot in slots_of(head) if isinstance(slot, Const)}
        for term in names:
            known = term not in self._unseen or term in of_heads or term in background.by_object
            if not known and not any(True for slots in ((term, None, None), (None, None, term)) for _ in background.match(*slots)):
                where = "neither an element nor the background has it" if self._elements else "the background does not have it"
                return f"{writer.text(term)} occurs nowhere: {where}."
        return ""

    def first_time(self, predicate: Term, class_: Term | None = None) -> Micros | None:
        """The time (µs since 1970) of the first element with a predicate or a class; None: there is
        none.
        """
        return self._predicates.get(predicate) if class_ is None else self._classes.get(class_)

    def near_miss(self, predicate: Term, value: Term | None, background: TripleIndex, writer: TermWriter, before: str = "") -> str:
        """A sentence on a term that neither elements, Datalog heads nor the background have.

        Args:
            predicate: the predicate of a pattern.
            value: its object; with the predicate rdf:type, the class that is looked up.
            background: the closed background.
            writer: the writer of the explanation.
            before: text before the sentence.

        Returns:
            Empty if the predicate, or the class, exists.
        """
        class_ = value if predicate == RDF_TYPE else None
        vocabulary, term = (self._predicates, predicate) if class_ is None else (self._classes, class_)
        if term in vocabulary or len(vocabulary) >= _MAX_TERMS or self._is_given(predicate, class_, background):
            return ""
        names = sorted("a" if each == RDF_TYPE else writer.text(each) for each in vocabulary)
        missed = writer.text(term)
        close = get_close_matches(missed, [*names, *self._known_names(class_ is not None, background, writer)], n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        if not self._elements:
            return f"{before}{'the' if before else 'The'} background has no {missed}.{meant}"
        kind = "triples" if class_ is None else "classes"
        listed = f"{'' if class_ is None else 'classes '}{first_of(_with_first(names, close), _MAX_NAMES)}" if names else f"no {kind}"
        there = f"the elements bring {listed}"
        return f"{before}{'no' if before else 'No'} element brings {missed}; {there}.{meant}"

    def near_misses_of(self, part: AlgebraNode, background: TripleIndex, writer: TermWriter) -> Iterator[str]:
        """The sentences of `near_miss` for the predicates and classes of a pattern."""
        for node in walk(part):
            match node:
                case TriplePattern(_, Const(predicate), value):
                    remark = self.near_miss(predicate, value.term if isinstance(value, Const) else None, background, writer)
                case Link(predicate):
                    remark = self.near_miss(predicate, None, background, writer)
                case _:
                    continue
            if remark:
                yield remark

    def _known_names(self, classes: bool, background: TripleIndex, writer: TermWriter) -> Iterator[str]:
        """The names of predicates, or classes, of the background and of the heads of rules."""
        known: Iterable[Term] = background.by_object.get(RDF_TYPE, {}) if classes else background.predicates()
        of_heads = (head.object if classes else head.predicate for head in self._heads if not classes or head.predicate == Const(RDF_TYPE))
        terms = [*islice(known, _MAX_TERMS), *(slot.term for slot in of_heads if isinstance(slot, Const))]
        return (writer.text(term) for term in terms if term != RDF_TYPE)

    def _is_given(self, predicate: Term, class_: Term | None, background: TripleIndex) -> bool:
        """True if the background or the head of a rule has the predicate, or the class."""
        if predicate in background.by_object and (class_ is None or class_ in background.by_object[predicate]):
            return True
        return any(_may_be(head.predicate, predicate) and (class_ is None or _may_be(head.object, class_)) for head in self._heads)


def _may_be(slot: Slot, term: Term) -> bool:
    return not isinstance(slot, Const) or slot.term == term


def _with_first(names: Sequence[str], close: Sequence[str]) -> Sequence[str]:
    """The names in the order of the list; a close match that the list would cut is moved to its
    front."""
    if len(names) <= _MAX_NAMES or not close or close[0] in names[:_MAX_NAMES]:
        return names
    return [close[0], *(name for name in names if name != close[0])]
