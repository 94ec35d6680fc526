"""Parser of the literals of LARS files: atoms with their windows.

An atom is a triple, an atom of a relation of the file itself, or an event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final, NoReturn

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    DerivedAtom,
    EventAtom,
    LarsAtom,
    LarsLiteral,
    LarsNot,
    LarsWindow,
    Reach,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
)
from dotr.model.algebra import Expression, Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.places import Span
from dotr.model.terms import XSD, Variable
from dotr.model.time import Interval, Micros
from dotr.syntax.datalog.parser import ConditionReader, ForbiddenParts
from dotr.syntax.datalog.tokens import IRI, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind
from dotr.syntax.quantities import UNITS, InvalidDuration, lexical_duration, parse_duration
from dotr.syntax.scan import RESERVED

# Words of LARS files: keywords and labels.


STATEMENTS: Final = ("RESOLUTION", "STREAM", "BACKGROUND", "REPORT")
CONDITIONS: Final = ("FILTER", "BIND", "NOT")
REACHES: Final = ("ALWAYS", "AT", "SINCE", "IN")
REFUSED: Final = ("AGGREGATE", "EXISTS", "SKOLEM")
KEYWORDS: Final = frozenset(
    (
        *STATEMENTS,
        *CONDITIONS,
        *REACHES,
        *REFUSED,
        *("PREFIX", "BASE", "CLOSED", "ASSERTED", "NEW", "ENDED", "ALL", "AS", "LAST", "MATCHING", "PER", "EVENT"),
    )
)
TERMS: Final = ("true", "false", "a")
"""Words that are terms, and therefore no labels."""


def is_label(word: str) -> bool:
    """True of a word that may name a relation or a report.

    >>> is_label("Busy"), is_label("since"), is_label("Within"), is_label("false")
    (True, False, False, False)
    """
    return word.upper() not in KEYWORDS and word.lower() not in RESERVED and word not in TERMS


# Parser of the windows of LARS files: `[5 s]`, `(1 s, 5 s]`, `[LAST 3 PER ?s]`.

WINDOWS: Final = "Windows are [5 s], [0, 5 s), [LAST 3], [LAST 3 MATCHING] and [LAST 3 PER ?v]."
_NUMBER: Final = DatalogTokenKind.NUMBER
_MOST_DIGITS: Final = 18


class WindowReader(ConditionReader):
    """Parser of windows and durations."""

    _syntax_code: ClassVar[str] = LarsCode.UNEXPECTED
    _forbidden: ClassVar[ForbiddenParts] = ForbiddenParts(
        LarsCode.NO_CONDITION,
        "a LARS rule",
        "Attributes of an event are read by EVENT L(?a), times by `AT ?t IN [5 s]`.",
        "Write atoms, or NOT(atom, …), in the body itself.",
    )

    def _span_since(self, first: int) -> Span:
        """The place from a token to the last one read."""
        start = self._tokens[first][2]
        _, text, offset = self._tokens[max(first, self._index - 1)]
        return Span(self._document, start, offset + len(text))

    def _word(self) -> str:
        """The current token in capitals if it is a word, else an empty string."""
        kind, text, _ = self._tokens[self._index]
        return text.upper() if kind == WORD else ""

    def _problem(self, code: LarsCode, message: str, span: Span, hint: str) -> None:
        self.problems.append(Diagnostic(code, message, span, hint))

    def _expression(self, start: int, end: int) -> Expression | None:
        first = len(self.problems)
        expression = super()._expression(start, end)
        for number, problem in enumerate(self.problems[first:], first):
            if problem.code == "Q118":
                self.problems[number] = replace(
                    problem, code=LarsCode.NO_CONDITION, message="EXISTS in a LARS rule", hint=self._forbidden.exists_hint
                )
        return expression

    def _window(self) -> LarsWindow | None:
        """`[d]`, `[d, d)` or `[LAST n …]`; None after an error that has been reported."""
        opened = self._tokens[self._index]
        if opened[1] not in ("[", "("):
            self._unexpected("a window behind IN", WINDOWS)
        self._index += 1
        if self._word() == "LAST":
            return self._tuple_window(opened)
        first = self._index
        low = self._duration()
        if self._tokens[self._index][1] != ",":
            self._close(opened, "]")
            if opened[1] == "(":
                hint = "Write [5 s], which is [0, 5 s], or both bounds: (0, 5 s]."
                self._problem(LarsCode.UNEXPECTED, "one length of time between ( and ]", self._span_since(first - 1), hint)
                return None
            return None if low is None else TimeWindow(Interval(0, low, low_closed=True, high_closed=True))
        self._index += 1
        high = self._duration()
        closing = self._tokens[self._index][1]
        self._close(opened, "]", ")")
        if low is None or high is None:
            return None
        return TimeWindow(Interval(low, high, low_closed=opened[1] == "[", high_closed=closing == "]"))

    def _close(self, opened: DatalogToken, *closing: str) -> None:
        """Skip one of the closing brackets; `opened`: the matching opening bracket, for errors."""
        text = self._tokens[self._index][1]
        if text in closing:
            self._index += 1
            return
        if text in ("", "."):
            self._fail("K208", f"{opened[1]} is never closed", opened, f"Add the {closing[0]} that belongs to it.")
        self._unexpected(" or ".join(f"`{each}`" for each in closing), WINDOWS)

    def _tuple_window(self, opened: DatalogToken) -> LarsWindow | None:
        if opened[1] != "[":
            self._fail(LarsCode.UNEXPECTED, "( before LAST", opened, "Write [LAST 3].")
        self._index += 1
        count = self._count()
        counted, per = Counted.ALL, list[Variable]()
        match self._word():
            case "MATCHING":
                counted = Counted.MATCHING
                self._index += 1
            case "PER":
                counted = Counted.PER
                while counted is Counted.PER:
                    self._index += 1
                    per.append(self._expect(VARIABLE, "a variable behind PER")[1][1:])
                    if self._tokens[self._index][1] != ",":
                        break
            case "":
                pass
            case word:
                hint = did_you_mean(word, ("MATCHING", "PER")) or WINDOWS
                self._unexpected("`]`, MATCHING or PER", hint)
        self._close(opened, "]")
        return TupleWindow(count, counted, tuple(dict.fromkeys(per))) if count else None

    def _count(self) -> int:
        """The number behind LAST; 0 after an error that has been reported."""
        token = self._tokens[self._index]
        if token[0] != _NUMBER:
            self._unexpected("a number behind LAST", "Write [LAST 3].")
        self._index += 1
        text = token[1]
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            self._report(LarsCode.NO_NUMBER, f"{text[:40]} is no number of triples", token, "Write a whole number: [LAST 3].")
            return 0
        if int(text) == 0:
            self._report(LarsCode.NOTHING_COUNTED, "LAST 0 holds nothing", token, "Write [LAST 1] for the latest one.")
        return int(text)

    def _duration(self) -> Micros | None:
        """A duration, in µs; None after an error that has been reported."""
        first = self._index
        tokens = self._tokens
        text = self._lexical_form() if tokens[first][0] == DatalogTokenKind.STRING else self._quantities()
        if self._index == first:
            self._unexpected("a length of time", WINDOWS)
        if text is None:
            return None
        try:
            return lexical_duration(text) if tokens[first][0] == DatalogTokenKind.STRING else parse_duration(text)
        except InvalidDuration as error:
            place = self._span_since(first)
            if error.unit:
                words = [token for token in tokens[first : self._index] if token[1] == error.unit.rstrip(".")]
                place = Span(self._document, words[0][2], words[0][2] + len(words[0][1])) if words else place
            hint, message = error.hint, str(error)
            if text[:1] == "-" and text[1:2].isdecimal():
                message, hint = "a length of time is not negative", "Windows reach into the past: leave out the minus."
            if text.isdecimal():
                hint = f"Write [{text} s], with its unit, for a time; [LAST {text}] for a number of triples."
            self._problem(LarsCode.NO_DURATION, message, place, hint)
            return None

    def _quantities(self) -> str:
        """The text of `1 h 30 min.` or `PT0.5S`; blanks, comments and ends of lines become a blank.

        A dot belongs to a unit written right before it, except the dot that ends the statement. On
        a further line a number continues the text, and a word where it is the unit of a number;
        any other word begins a statement, after one whose dot is missing.
        """
        text, end = "", self._tokens[self._index][2]
        while True:
            kind, part, start = self._tokens[self._index]
            is_dot = part == "." and text[-1:].isalpha() and start == end and self._index < len(self._tokens) - 2
            is_statement = kind == WORD and "\n" in self._document.text[end:start] and (text[-1:].isalpha() or part.lower() not in UNITS)
            if (kind not in (_NUMBER, WORD) and not is_dot) or (text and is_statement):
                return text
            text += " " * (start > end) + part
            end = start + len(part)
            self._index += 1

    def _lexical_form(self) -> str | None:
        """The text of `"PT5M"^^xsd:duration`; None after an error that has been reported."""
        token = self._tokens[self._index]
        text = self._unescaped(token, 3 if token[1][:3] in ('"""', "'''") and len(token[1]) >= 6 else 1)
        self._index += 1
        if self._tokens[self._index][1] != "^^":
            return text
        self._index += 1
        datatype = self._tokens[self._index]
        if datatype[0] not in (NAME, IRI):
            self._unexpected("a datatype")
        self._index += 1
        known = datatype[0] == NAME and datatype[1].startswith("xsd:") and "xsd" not in self._prefixes
        name = XSD + datatype[1][4:] if known else self._resolved_iri(datatype)
        if name not in (XSD + "duration", XSD + "dayTimeDuration"):
            hint = 'Write "PT5M"^^xsd:duration, or 5 min.'
            self._report(LarsCode.NO_DURATION, f"{datatype[1]} is no type of duration", datatype, hint)
            return None
        return text

    def _refused_word(self, token: DatalogToken) -> NoReturn:
        """Raise the error of AGGREGATE, EXISTS or SKOLEM, which are refused."""
        match token[1].upper():
            case "AGGREGATE":
                hint = "REPORT the atoms, and aggregate over their events in a rule file: ?n = count(L.?v) of L within 5 min from …"
                self._fail(LarsCode.NO_CONDITION, "AGGREGATE in a LARS rule", token, hint)
            case "EXISTS":
                hint = "Write atoms, or NOT(atom, …): variables that occur there alone are existential."
                self._fail(LarsCode.NO_CONDITION, "EXISTS in a LARS rule", token, hint)
            case _:
                hint = "A rule file that reads the label of a REPORT writes new names (`dotr_id1`)."
                self._fail(LarsCode.NO_CONDITION, "SKOLEM is refused: rules make no new names", token, hint)


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
