"""Parser of the literals of LARS files: atoms with their windows.

An atom is a triple, an atom of a relation of the file itself, or an event.
"""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn

from dotr.errors.diagnostics import did_you_mean
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.model import (
    Always,
    At,
    DerivedAtom,
    EventAtom,
    LarsAtom,
    LarsLiteral,
    LarsNot,
    Reach,
    Since,
    Sometime,
    TupleWindow,
)
from dotr.languages.lars.text.keywords import CONDITIONS, KEYWORDS, REACHES, REFUSED, STATEMENTS, is_label
from dotr.languages.lars.text.windows import WindowReader
from dotr.model.algebra import Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.syntax.datalog.tokens import VARIABLE, WORD, DatalogToken

_WHOLE: Final = "Write how long, its state has no bound else: "


class LiteralReader(WindowReader):
    """Parser of literals."""

    _atoms_hint: ClassVar[str] = "Atoms are :C(?x), :p(?x, ?y), :p[?x, ?y], [?s, ?p, ?o], Busy(?x) and EVENT Busy(?x)."

    # --- atoms ---

    def _derived_atom(self, *, head: bool) -> DerivedAtom | None:
        """A triple atom or an atom of an own relation; None after a reported error."""
        kind, text, _ = token = self._tokens[self._index]
        if kind == WORD and not (text == "a" and self._tokens[self._index + 1][1] in ("(", "[")):
            return self._own_atom(token, head=head)
        return self._atom(head=head)

    def _any_atom(self) -> LarsAtom | None:
        return self._event_atom() if self._word() == "EVENT" else self._derived_atom(head=False)

    def _own_atom(self, token: DatalogToken, *, head: bool) -> RelationAtom:
        text = token[1]
        if not is_label(text):
            self._fail_own_atom(token, head=head)
        self._index += 1
        opening = self._tokens[self._index][1]
        if opening == "[":
            hint = f"Write {text}(…), or with a prefix :{text}[…]."
            if self._tokens[self._index + 1][0] != VARIABLE:
                hint = "Write IN before a window: Busy(?x) IN [5 s]."
            self._unexpected("`(`", hint)
        if opening != "(":
            return RelationAtom(text, ())
        if self._tokens[self._index + 1][1] == ")":
            self._fail(LarsCode.UNEXPECTED, f"{text}() without arguments", token, f"Write {text}.")
        return RelationAtom(text, tuple(self._arguments(")")))

    def _fail_own_atom(self, token: DatalogToken, *, head: bool) -> NoReturn:
        """Raise the error of a word that cannot name a relation, where an atom is expected."""
        word = token[1].upper()
        if word in REFUSED:
            self._refused_word(token)
        if head and word in CONDITIONS:
            self._fail(LarsCode.UNEXPECTED, f"{word} in a head", token, "Conditions follow `:-`.")
        if word in STATEMENTS:
            self._fail(LarsCode.UNEXPECTED, f"{word} inside a rule", token, "The statement before ends with a dot.")
        if word in ("TRUE", "FALSE"):
            hint = "A rule has a head: write an atom, and REPORT it where it may not hold." if head else self._atoms_hint
            self._fail(LarsCode.NO_RULE if head else LarsCode.UNEXPECTED, f"{token[1]} is no atom", token, hint)
        self._fail_label(token, "relation")

    def _fail_label(self, token: DatalogToken, what: str) -> NoReturn:
        place = "LARS" if token[1].upper() in KEYWORDS else "the rule language" if token[1] != "a" else "Turtle, for rdf:type"
        self._fail(LarsCode.NO_LABEL, f"{token[1]} cannot name a {what}", token, f"It is a word of {place}. Choose another name.")

    def _event_atom(self) -> EventAtom:
        """`EVENT L(?a AS ?x, ?b)`."""
        self._index += 1
        label = self._tokens[self._index]
        if label[0] != WORD:
            self._unexpected("a label behind EVENT", "Write EVENT High(?x), High being the label of a rule, a query or a REPORT.")
        if not is_label(label[1]):
            self._fail_label(label, "label")
        self._index += 1
        attributes: dict[Variable, Slot] = {}
        if self._tokens[self._index][1] == "[":
            self._unexpected("`(`", "Attributes stand in round brackets, and IN before a window.")
        if self._tokens[self._index][1] == "(":
            while True:
                self._index += 1
                attribute = self._tokens[self._index]
                if attribute[0] != VARIABLE:
                    hint = f"Write EVENT {label[1]}(?a), or EVENT {label[1]}(?a AS term) for the value of ?a."
                    self._unexpected("an attribute", hint if attribute[1] != ")" else f"Write EVENT {label[1]} without brackets.")
                self._index += 1
                name = attribute[1][1:]
                slot: Slot = Var(name)
                if self._word() == "AS":
                    self._index += 1
                    slot = self._slot(self._tokens[self._index])
                    self._index += 1
                if name in attributes:
                    hint = "An attribute has one value: join two variables with FILTER(?x = ?y)."
                    self._report(LarsCode.ATTRIBUTE_TWICE, f"{label[1]} with the attribute ?{name} twice", attribute, hint)
                attributes[name] = slot
                if self._tokens[self._index][1] != ",":
                    break
            if self._tokens[self._index][1] != ")":
                self._unexpected("`,`, AS or `)`")
            self._index += 1
        return EventAtom(label[1], tuple(sorted(attributes.items())))

    # --- literals ---

    def _windowed_atom(self) -> LarsLiteral | None:
        """`ATOM [ALWAYS | AT ?t | SINCE ATOM] [IN WINDOW]`; None after a reported error."""
        first = self._index
        problems = len(self.problems)
        atom = self._any_atom()
        atom_span = self._span_since(first)
        word = self._word()
        token = self._tokens[self._index]
        time: Slot | None = None
        other: LarsAtom | None = None
        other_span = atom_span
        match word:
            case "ALWAYS":
                self._index += 1
            case "AT":
                self._index += 1
                time = self._slot(self._tokens[self._index])
                self._index += 1
            case "SINCE":
                self._index += 1
                second = self._index
                if self._word() == "NOT":
                    self._fail(LarsCode.UNEXPECTED, "NOT behind SINCE", self._tokens[second], "SINCE stands between two atoms.")
                other = self._any_atom()
                other_span = self._span_since(second)
        window_span: Span | None = None
        window = None
        if self._word() == "IN":
            self._index += 1
            opened = self._index
            window = self._window()
            window_span = self._span_since(opened)
            if self._word() in REACHES:
                hint = "Windows do not nest: write a rule for the inner one, its head with AT, and a window over that head."
                self._unexpected("`,` or `.`", hint)
        elif word in ("ALWAYS", "AT", "SINCE"):
            example = {"ALWAYS": "ALWAYS IN [5 s]", "AT": "AT ?t IN [5 s]", "SINCE": "… SINCE … IN [5 s]"}[word]
            self._report(LarsCode.NO_WINDOW, f"{word} without IN", token, f"{_WHOLE}{example}.")
        elif token[1] in ("[", "(") and token[2] >= atom_span.end:
            self._unexpected("IN before a window", "Write it: Busy(?x) IN [5 s].")
        elif word and word not in KEYWORDS:
            self._unexpected("`,` or `.`", did_you_mean(word, ("ALWAYS", "AT", "SINCE", "IN")))
        if window is None or atom is None:
            return LarsLiteral(atom, None, self._span_since(first), atom_span) if atom and len(self.problems) == problems else None
        reach: Reach
        match word:
            case "ALWAYS":
                reach = Always(window)
            case "AT" if time is not None:
                reach = At(time, window)
            case "SINCE":
                if isinstance(window, TupleWindow):
                    hint = "Write a window of time: … SINCE … IN [5 s]."
                    assert window_span is not None
                    self._problem(LarsCode.SINCE_COUNTED, "SINCE in a tuple window", window_span, hint)
                    return None
                if other is None:
                    return None
                reach = Since(other, other_span, window)
            case _:
                reach = Sometime(window)
        return LarsLiteral(atom, reach, self._span_since(first), atom_span, window_span)

    def _not(self) -> LarsNot | None:
        """`NOT x` or `NOT(x, …)`; None after an error that has been reported."""
        first = self._index
        self._index += 1
        if self._word() == "EXISTS":
            self._refused_word(self._tokens[self._index])
        literals: list[LarsLiteral | None] = []
        is_list = self._tokens[self._index][1] == "("
        while True:
            if is_list:
                self._index += 1
            if self._word() in (*CONDITIONS, *REFUSED):
                token = self._tokens[self._index]
                hint = "Move it to the body of a rule of its own, and write NOT of that rule's head."
                self._fail(LarsCode.INSIDE_NOT, f"{token[1].upper()} inside NOT: only atoms with windows are allowed", token, hint)
            literals.append(self._windowed_atom())
            if not is_list or self._tokens[self._index][1] != ",":
                break
        if is_list:
            if self._tokens[self._index][1] != ")":
                self._unexpected("`,` or `)`")
            self._index += 1
            if self._word() in ("IN", "ALWAYS", "AT", "SINCE"):
                self._unexpected("`,` or `.`", "Each atom has its own window: NOT(:p(?x, ?y) IN [5 s], :q(?y, ?z) IN [5 s]).")
        known = tuple(literal for literal in literals if literal is not None)
        return LarsNot(known, self._span_since(first)) if len(known) == len(literals) else None
