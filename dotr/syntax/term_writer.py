"""Terms in Turtle, with prefixed names, and blank nodes named after variables."""

from __future__ import annotations

from dotr.model.terms import WELL_KNOWN, Prefixes, Term, Triple, Variable, is_triple, rename_blanks
from dotr.syntax.rendering import predicate_text, term_text


class TermWriter:
    """Writer of the terms of one explanation.

    A blank node is written as `_:` and the first variable that is bound to it; a second blank node
    of that variable has a number. Blank nodes without a variable are `_:b`, `_:b2`, ….

    Args:
        prefixes: namespace IRI by prefix, without its colon; well-known prefixes such as `xsd` and
            `rdfs` are added.

    >>> writer = TermWriter({"": "http://e/"})
    >>> writer.name_blank("_:0", "r")
    >>> writer.name_blank("_:1", "r")
    >>> [writer.text(term) for term in ("_:0", "_:1", "_:7", "<http://e/lab>")]
    ['_:r', '_:r2', '_:b', ':lab']
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes: Prefixes = {**WELL_KNOWN, **prefixes}
        self._names: dict[Term, Term] = {}
        self._taken: set[Term] = set()

    def name_blank(self, term: Term, variable: Variable) -> None:
        """Name a blank node after a variable, unless it has a name; other terms are ignored."""
        if not term.startswith("_:") or term in self._names:
            return
        name, number = f"_:{variable}", 1
        while name in self._taken:
            number += 1
            name = f"_:{variable}{number}"
        self._names[term] = name
        self._taken.add(name)

    def text(self, term: Term) -> str:
        """The term in Turtle, which parses to the same term except for the names of blank nodes."""
        if is_triple(term):
            return term_text(rename_blanks(term, self._blank), self.prefixes)
        return self._blank(term) if term.startswith("_:") else term_text(term, self.prefixes)

    def predicate(self, term: Term) -> str:
        """The term in Turtle as the predicate of a triple: rdf:type is `a`."""
        return predicate_text(term, self.prefixes)

    def triple(self, triple: Triple) -> str:
        """The triple in Turtle, without a full stop.

        >>> TermWriter({"": "http://e/"}).triple(("_:0", "<http://e/p>", '"1"'))
        '_:b :p "1"'
        """
        subject, predicate, value = triple
        return f"{self.text(subject)} {self.predicate(predicate)} {self.text(value)}"

    def _blank(self, term: Term) -> Term:
        self.name_blank(term, "b")
        return self._names[term]
