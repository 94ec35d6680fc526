"""Parser of Datalog atoms: `:C(?x)`, `:p(?x, ?y)`, `:p[?x, ?y]` and `[?s, ?p, ?o]`.

Idea: almost every token of a file is part of an atom, so it is first looked up by its text in the
cache of parsed terms (`_slot_cache`), and parsed only at a miss.
"""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn, TypeAlias

from dotr.errors.diagnostics import did_you_mean
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.terms import can_be_subject, is_iri, is_literal
from dotr.syntax.datalog.terms import TYPE, StatementReader
from dotr.syntax.datalog.tokens import ARROW, IRI, MARK, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind

_CLOSING: Final = {"(": ")", "[": "]"}
KEYWORDS: Final = ("FILTER", "BIND", "NOT", "PREFIX", "BASE", "AGGREGATE", "SKOLEM")
_UNSUPPORTED: Final = {
    "SKOLEM": ("K207", "SKOLEM is refused: rules make no new names", "A temporal rule's define template makes them (`dotr_id1`)."),
}
ATOMS: Final = "Atoms are :C(?x), :p(?x, ?y), :p[?x, ?y] and [?s, ?p, ?o]."

ReadAtom: TypeAlias = TriplePattern | None
"""An atom; None for an atom of valid syntax with an error, which has been reported."""


class AtomReader(StatementReader):
    """Parser of the atoms of a statement; `_atoms_hint`: their forms, for messages."""

    _atoms_hint: ClassVar[str] = ATOMS

    def _atom(self, *, head: bool) -> ReadAtom:
        tokens, index = self._tokens, self._index
        kind, text, _ = token = tokens[index]
        if text == "[":
            slots = self._arguments("]")
            if len(slots) != 3:
                self._report(
                    "K203", f"[…] with {len(slots)} terms", token, "A triple is [?subject, ?predicate, ?object].", self._end_offset()
                )
                return None
            subject, predicate, object_ = slots
            subject_token = tokens[index + 1]
            predicate_token = self._token_behind_commas(index + 1, 1)
        elif kind in (NAME, IRI) or (kind == WORD and text == "a"):
            self._index += 1
            opening = tokens[index + 1][1]
            if opening not in _CLOSING:
                self._unexpected("`(` or `[`", self._atoms_hint if tokens[index + 1][1] != ":-" else f"Write {text}(?x).")
            slots = self._arguments(_CLOSING[opening])
            name = self._slot(token)
            subject_token, predicate_token = tokens[index + 2], token
            if len(slots) == 1:
                subject, predicate, object_ = slots[0], TYPE, name
            elif len(slots) == 2:
                subject, predicate, object_ = slots[0], name, slots[1]
            else:
                self._report("K203", f"{text} with {len(slots)} arguments", token, self._atoms_hint, self._end_offset())
                return None
        else:
            self._fail_atom(token, head=head)
        if type(predicate) is Const and not is_iri(predicate.term):
            self._report("K204", f"{predicate.term} cannot be a predicate", predicate_token, "A predicate is an IRI or a variable.")
            return None
        if type(subject) is Const and not can_be_subject(subject.term):
            kind_text = "a literal" if is_literal(subject.term) else "a triple term"
            self._report(
                "K204", f"{kind_text} cannot be a subject", subject_token, "Did you mean the subject and the object the other way round?"
            )
            return None
        return TriplePattern(subject, predicate, object_)

    def _arguments(self, closing: str) -> list[Slot]:
        """The terms between the current bracket and `closing`, which is consumed."""
        tokens, slots = self._tokens, list[Slot]()
        slot_cache = self._slot_cache
        index = self._index + 1
        while True:
            token = tokens[index]
            slot = slot_cache.get(token[1])
            if slot is None:
                self._index = index
                slot = self._slot(token)
                index = self._index
            slots.append(slot)
            text = tokens[index + 1][1]
            index += 2
            if text == ",":
                continue
            if text == closing:
                self._index = index
                return slots
            self._index = index - 1
            hint = "Terms are separated by commas." if tokens[self._index][0] not in (MARK, DatalogTokenKind.OPERATOR, ARROW) else ""
            self._unexpected(f"`,` or `{closing}`", hint)

    def _fail_atom(self, token: DatalogToken, *, head: bool) -> NoReturn:
        """Raise the error of a token that begins no atom."""
        kind, text, _ = token
        if kind == VARIABLE:
            following = self._tokens[self._index + 1]
            if following[0] == DatalogTokenKind.OPERATOR and following[1]:
                self._fail(self._syntax_code, f"{text} {following[1]} … is no atom", token, f"Write FILTER({text} {following[1]} …).")
            self._fail(
                self._syntax_code, f"{text} cannot be a class or a predicate here", token, f"Write [?x, {text}, ?y], or [?x, a, {text}]."
            )
        if kind == WORD and head and text.upper() in ("FILTER", "BIND", "NOT", "AGGREGATE"):
            self._fail(self._syntax_code, f"{text.upper()} in a head", token, "Conditions follow `:-`.")
        if kind == WORD and text.upper() in _UNSUPPORTED:
            self._fail(*self._unsupported(token))
        if kind == WORD:
            self._fail(
                self._syntax_code, f"unknown word {text}", token, did_you_mean(text.upper(), KEYWORDS) or f"Names need a prefix: :{text}."
            )
        self._unexpected("an atom", self._atoms_hint)

    def _end_offset(self) -> int:
        """The offset behind the last token read."""
        _, text, start = self._tokens[self._index - 1]
        return start + len(text)

    def _token_behind_commas(self, index: int, commas: int) -> DatalogToken:
        """The token behind the next `commas` commas from the token at `index`."""
        while commas:
            commas -= self._tokens[index][1] == ","
            index += 1
        return self._tokens[index]

    def _unsupported(self, token: DatalogToken) -> tuple[str, str, DatalogToken, str]:
        """The arguments of `_fail` for a word of other systems that is refused."""
        code, message, hint = _UNSUPPORTED[token[1].upper()]
        return code, message, token, hint
