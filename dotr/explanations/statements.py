"""Triples of an instant as Turtle statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dotr.model.terms import Prefixes, Term, Triple, Variable, is_blank, is_triple
from dotr.syntax.term_writer import TermWriter


class StatementWriter:
    """Writer of the triples of one instant.

    If an instant has a single blank node, which is neither an object nor an attribute, it is
    written as `[]`; otherwise blank nodes have names (`TermWriter`).

    >>> writer = StatementWriter({"": "http://e/"})
    >>> graph = [("_:0", "<http://e/p>", '"1"'), ("_:0", "<http://e/q>", "<http://e/a>")]
    >>> writer.see(graph)
    >>> list(writer.statements(graph))
    ['[] :p "1" ; :q :a .']
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self._terms = TermWriter(prefixes)
        self._blanks: set[Term] = set()
        self._has_names = False

    def name_after(self, attributes: Iterable[tuple[Variable, Term]]) -> None:
        """Name the blank nodes among attributes after them."""
        for name, term in attributes:
            if is_blank(term):
                self._terms.name_blank(term, name)
                self._has_names = True

    def see(self, triples: Iterable[Triple]) -> None:
        """Collect the blank nodes of triples; called before any triple is written."""
        for subject, _, value in triples:
            if is_blank(subject):
                self._blanks.add(subject)
            if is_blank(value) or (is_triple(value) and "_:" in value):
                self._has_names = True

    def statements(self, triples: Sequence[Triple]) -> Iterator[str]:
        """Triples in Turtle, one statement for consecutive triples with one subject."""
        before = verb = text = ""
        for triple in triples:
            subject, predicate, value = triple
            if subject != before:
                if text:
                    yield f"{text} ."
                text = self.triple(triple)
            elif predicate != verb:
                text += f" ; {self._terms.predicate(predicate)} {self.text(value)}"
            else:
                text += f" , {self.text(value)}"
            before, verb = subject, predicate
        if text:
            yield f"{text} ."

    def triple(self, triple: Triple) -> str:
        """A triple without a full stop."""
        subject, predicate, value = triple
        return f"{self.text(subject)} {self._terms.predicate(predicate)} {self.text(value)}"

    def text(self, term: Term) -> str:
        """A term as Turtle."""
        if len(self._blanks) == 1 and not self._has_names and term in self._blanks:
            return "[]"
        return self._terms.text(term)
