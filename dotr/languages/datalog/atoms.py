"""Parser of Datalog atoms: `:C(?x)`, `:p(?x, ?y)`, `:p[?x, ?y]` and `[?s, ?p, ?o]`.

Idea: almost every token of a file is part of an atom, so a token is first looked up by its text
among the terms parsed before (`_slots`), and classified only if it is not among them.
"""

from __future__ import annotations

from typing import Final, NoReturn, TypeAlias

from dotr.errors.diagnostics import did_you_mean
from dotr.languages.datalog.terms import TYPE, StatementReader
from dotr.languages.datalog.tokens import ARROW, IRI, MARK, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.terms import can_be_subject, is_iri, is_literal

_CLOSING: Final = {"(": ")", "[": "]"}
KEYWORDS: Final = ("FILTER", "BIND", "NOT", "PREFIX", "BASE", "AGGREGATE", "SKOLEM")
_UNSUPPORTED: Final = {
    "SKOLEM": ("K207", "SKOLEM is refused: rules make no new names", "A temporal rule's define template makes them (`dotr_id1`)."),
}
ATOMS: Final = "Atoms are :C(?x), :p(?x, ?y), :p[?x, ?y] and [?s, ?p, ?o]."

ReadAtom: TypeAlias = TriplePattern | None
"""None: an atom that parses but has an error, which has been reported."""


class AtomReader(StatementReader):
    """Parser of the atoms of a statement."""

    def _atom(self, *, head: bool) -> ReadAtom:
        tokens, at = self._tokens, self._at
        kind, text, _ = token = tokens[at]
        if text == "[":
            slots = self._arguments("]")
            if len(slots) != 3:
                self._note("K203", f"[…] with {len(slots)} terms", token, "A triple is [?subject, ?predicate, ?object].", self._behind())
                return None
            subject, predicate, object_ = slots
            place = tokens[at + 1]
            predicate_place = self._nth(at + 1, 1)
        elif kind in (NAME, IRI) or (kind == WORD and text == "a"):
            self._at += 1
            opened = tokens[at + 1][1]
            if opened not in _CLOSING:
                self._unexpected("`(` or `[`", ATOMS if tokens[at + 1][1] != ":-" else f"Write {text}(?x).")
            slots = self._arguments(_CLOSING[opened])
            name = self._slot(token)
            place, predicate_place = tokens[at + 2], token
            if len(slots) == 1:
                subject, predicate, object_ = slots[0], TYPE, name
            elif len(slots) == 2:
                subject, predicate, object_ = slots[0], name, slots[1]
            else:
                self._note("K203", f"{text} with {len(slots)} arguments", token, ATOMS, self._behind())
                return None
        else:
            self._no_atom(token, head=head)
        if type(predicate) is Const and not is_iri(predicate.term):
            self._note("K204", f"{predicate.term} cannot be a predicate", predicate_place, "A predicate is an IRI or a variable.")
            return None
        if type(subject) is Const and not can_be_subject(subject.term):
            what = "a literal" if is_literal(subject.term) else "a triple term"
            self._note("K204", f"{what} cannot be a subject", place, "Did you mean the subject and the object the other way round?")
            return None
        return TriplePattern(subject, predicate, object_)

    def _arguments(self, closing: str) -> list[Slot]:
        """The terms between the current bracket and `closing`.

        The next token is the one behind `closing`.
        """
        tokens, slots = self._tokens, list[Slot]()
        known = self._slots
        at = self._at + 1
        while True:
            token = tokens[at]
            slot = known.get(token[1])
            if slot is None:
                self._at = at
                slot = self._slot(token)
                at = self._at
            slots.append(slot)
            text = tokens[at + 1][1]
            at += 2
            if text == ",":
                continue
            if text == closing:
                self._at = at
                return slots
            self._at = at - 1
            hint = "Terms are separated by commas." if tokens[self._at][0] not in (MARK, DatalogTokenKind.OPERATOR, ARROW) else ""
            self._unexpected(f"`,` or `{closing}`", hint)

    def _no_atom(self, token: DatalogToken, *, head: bool) -> NoReturn:
        kind, text, _ = token
        if kind == VARIABLE:
            followed = self._tokens[self._at + 1]
            if followed[0] == DatalogTokenKind.OPERATOR and followed[1]:
                self._fail("K201", f"{text} {followed[1]} … is no atom", token, f"Write FILTER({text} {followed[1]} …).")
            self._fail("K201", f"{text} cannot be a class or a predicate here", token, f"Write [?x, {text}, ?y], or [?x, a, {text}].")
        if kind == WORD and head and text.upper() in ("FILTER", "BIND", "NOT", "AGGREGATE"):
            self._fail("K201", f"{text.upper()} in a head", token, "Conditions stand behind `:-`.")
        if kind == WORD and text.upper() in _UNSUPPORTED:
            self._fail(*self._unsupported(token))
        if kind == WORD:
            self._fail("K201", f"unknown word {text}", token, did_you_mean(text.upper(), KEYWORDS) or f"Names need a prefix: :{text}.")
        self._unexpected("an atom", ATOMS)

    def _behind(self) -> int:
        """The offset behind the last token read."""
        _, text, start = self._tokens[self._at - 1]
        return start + len(text)

    def _nth(self, at: int, commas: int) -> DatalogToken:
        """The token behind the next `commas` commas from the token with index `at`."""
        while commas:
            commas -= self._tokens[at][1] == ","
            at += 1
        return self._tokens[at]

    def _unsupported(self, token: DatalogToken) -> tuple[str, str, DatalogToken, str]:
        code, message, hint = _UNSUPPORTED[token[1].upper()]
        return code, message, token, hint
