"""Parser of the statements, rules and facts of LARS files.

Idea: each statement is parsed by itself, as in Datalog files. After a syntax error, parsing
continues with the next statement; after any other error, within the statement.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from dotr.errors.diagnostics import did_you_mean
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.model import LarsFact, LarsHead, LarsItem, LarsReport, LarsRule, ReportKind, slots_of_atom
from dotr.languages.lars.text.literals import STATEMENTS, LiteralReader, is_label
from dotr.model import dataclass
from dotr.model.algebra import Var
from dotr.model.datalog import RelationAtom
from dotr.model.places import Document, Span
from dotr.model.terms import Prefixes, Term, iri
from dotr.model.time import Micros
from dotr.syntax.datalog.terms import UnreadableStatement
from dotr.syntax.datalog.tokens import ARROW, IRI, NAME, VARIABLE, WORD, DatalogToken, DatalogTokenKind


@dataclass(frozen=True, slots=True)
class LarsRuleSyntax:
    """A rule and the place of each item of its body; `is_whole`: the rule has no syntax error."""

    rule: LarsRule
    places: tuple[Span, ...]
    is_whole: bool


@dataclass(slots=True)
class LarsDraft:
    """Statements of a file parsed so far.

    - `resolution`: in µs; `asserted`: STREAM ASSERTED or CLOSED. None before such a statement.
    - `first`: the place of the first statement that declares no prefix.
    - `words`: words and names of the statements with errors, any of which may define or use a
      relation of that name.
    """

    document: Document
    resolution: Micros | None = None
    resolution_span: Span | None = None
    asserted: bool | None = None
    background: list[Term] = field(default_factory=list)
    facts: list[LarsFact] = field(default_factory=list)
    rules: list[LarsRuleSyntax] = field(default_factory=list)
    reports: list[LarsReport] = field(default_factory=list)
    first: Span | None = None
    words: set[str] = field(default_factory=set)


_REPORT_KINDS: Final = {"NEW": ReportKind.NEW, "ENDED": ReportKind.ENDED, "ALL": ReportKind.ALL}
_REPORT: Final = "Write REPORT Busy(?x) .  or  REPORT ENDED Busy(?x) AS Free ."


class LarsReader(LiteralReader):
    """Parser of the statements of one file."""

    def __init__(self, document: Document, prefixes: Prefixes) -> None:
        super().__init__(document, prefixes)
        self.draft = LarsDraft(document)

    def statement(self, tokens: list[DatalogToken], line: int) -> None:
        """Parse one statement into the draft.

        Args:
            tokens: those of the statement, its dot included; a sentinel is appended.
            line: of its first token, counted from 1.
        """
        kind, text, start = tokens[0]
        self._tokens, self._index, self._depth = tokens, 0, 0
        last = tokens[-1]
        end = last[2] + len(last[1])
        # With this sentinel, access to the next token needs no check of the end.
        tokens.append((DatalogTokenKind.OPERATOR, "", end))
        if text == ".":
            return
        problems = len(self.problems)
        word = self._word()
        span = Span(self._document, start, end)
        try:
            if word in ("PREFIX", "BASE") or kind == DatalogTokenKind.TAG:
                self._declaration()
                return
            self.draft.first = self.draft.first or span
            match word:
                case "RESOLUTION":
                    self._resolution(span)
                case "STREAM":
                    self._stream(span)
                case "BACKGROUND":
                    self._background()
                case "REPORT":
                    self._report_statement(span)
                case _:
                    self._rule_or_fact(span, line)
        except UnreadableStatement:
            pass
        if len(self.problems) > problems:
            self.draft.words.update(text for kind, text, _ in tokens if kind in (WORD, NAME, IRI))

    def _expect_end(self, expected: str) -> None:
        """Check the dot of a statement; `expected`: what else may follow, for the message."""
        token = self._tokens[self._index]
        if token[1] != ".":
            self._unexpected(f"{expected}`.`" if expected else "`.`", "" if token[1] else "A statement, a rule and a fact end with a dot.")

    # --- statements ---

    def _resolution(self, span: Span) -> None:
        self._index += 1
        first = self._index
        resolution = self._duration()
        place = self._span_since(first)
        self._expect_end("")
        if resolution == 0:
            self._problem(LarsCode.NO_RESOLUTION, "points of no length", place, "Write how long a point is: RESOLUTION 1 s.")
            return
        if self.draft.resolution_span is not None:
            self._report_twice("RESOLUTION", span)
            return
        self.draft.resolution, self.draft.resolution_span = resolution, place

    def _stream(self, span: Span) -> None:
        self._index += 1
        word = self._word()
        if word not in ("CLOSED", "ASSERTED"):
            self._unexpected("CLOSED or ASSERTED", did_you_mean(word, ("CLOSED", "ASSERTED")) or "Write STREAM ASSERTED.")
        self._index += 1
        self._expect_end("")
        if self.draft.asserted is not None:
            self._report_twice("STREAM", span)
        self.draft.asserted = word == "ASSERTED"

    def _report_twice(self, statement: str, span: Span) -> None:
        self._problem(
            LarsCode.STATEMENT_TWICE, f"{statement} twice in one file", span, "It holds for the whole file: leave one of them out."
        )

    def _background(self) -> None:
        while True:
            self._index += 1
            token = self._tokens[self._index]
            if token[0] not in (NAME, IRI):
                self._unexpected("the IRI of a property or class", "Write BACKGROUND :Sensor, :partOf.")
            self.draft.background.append(iri(self._resolved_iri(token)))
            self._index += 1
            if self._tokens[self._index][1] != ",":
                break
        self._expect_end("`,` or ")

    def _report_statement(self, span: Span) -> None:
        self._index += 1
        kind = ReportKind.NEW
        if self._word() in _REPORT_KINDS:
            kind = _REPORT_KINDS[self._word()]
            self._index += 1
        first = self._index
        if self._word() in ("EVENT", "NOT"):
            hint = "REPORT is of an atom that a rule derives."
            self._fail(LarsCode.UNEXPECTED, f"REPORT of {self._word()}", self._tokens[first], hint)
        if self._word() and self._tokens[first + 1][0] in (WORD, NAME):
            close = did_you_mean(self._word(), tuple(_REPORT_KINDS))
            if close:
                self._unexpected("NEW, ENDED, ALL or an atom", close)
        problems = len(self.problems)
        atom = self._derived_atom(head=False)
        place = self._span_since(first)
        label, label_span = "", place
        if self._word() == "AS":
            self._index += 1
            word = self._tokens[self._index]
            if word[0] != WORD:
                self._unexpected("a label behind AS", _REPORT)
            if not is_label(word[1]):
                self._fail_label(word, "report")
            self._index += 1
            label, label_span = word[1], self._span_since(self._index - 1)
        elif self._word() in ("IN", "AT", "ALWAYS", "SINCE"):
            hint = "REPORT reads the evaluated point: put the window into a rule, and REPORT its head."
            self._unexpected("AS or `.`", hint)
        self._expect_end("AS or " if not label else "")
        if atom is None or len(self.problems) > problems:
            return
        if not label:
            if not isinstance(atom, RelationAtom) or kind is ReportKind.ENDED:
                what = "REPORT ENDED" if kind is ReportKind.ENDED else "REPORT of a triple atom"
                hint = f"Write REPORT {'ENDED ' if kind is ReportKind.ENDED else ''}{place.text} AS and the label of its events."
                self._problem(LarsCode.NO_REPORT_LABEL, f"{what} without a label", place, hint)
                return
            label = atom.relation
        self.draft.reports.append(LarsReport(kind, atom, label, span, label_span))

    # --- rules and facts ---

    def _rule_or_fact(self, span: Span, line: int) -> None:
        problems = len(self.problems)
        tokens = self._tokens
        if tokens[0][0] == ARROW:
            self._fail_no_head(tokens[0])
        heads: list[LarsHead] = []
        while True:
            head = self._head()
            heads += [head] if head is not None else []
            if tokens[self._index][1] != ",":
                break
            self._index += 1
        if tokens[self._index][0] != ARROW:
            self._expect_end("`:-`, `,` or ")
            if len(self.problems) == problems:
                self._facts(heads)
            return
        arrow = tokens[self._index]
        self._index += 1
        if tokens[self._index][1] in (".", ""):
            hint = "Write the body behind `:-`, or leave `:-` out: a fact holds at every point."
            self._fail(LarsCode.NO_RULE, "a rule without a body", arrow, hint)
        body: list[LarsItem] = []
        places: list[Span] = []
        while True:
            first = self._index
            item = self._item()
            if item is not None:
                body.append(item)
                places.append(self._span_since(first))
            if tokens[self._index][1] != ",":
                break
            self._index += 1
        self._expect_end("`,` or ")
        rule = LarsRule(f"{self._document.name}:{line}", tuple(heads), tuple(body), span)
        self.draft.rules.append(LarsRuleSyntax(rule, tuple(places), len(self.problems) == problems))

    def _fail_no_head(self, arrow: DatalogToken) -> None:
        hint = "Write an atom in front of `:-`, and REPORT it where it may not hold."
        self._fail(LarsCode.NO_RULE, "a rule without a head", arrow, hint)

    def _head(self) -> LarsHead | None:
        """`ATOM` or `ATOM AT ?t`; None after an error that has been reported."""
        first = self._index
        if self._word() == "EVENT":
            self._event_atom()
            hint = "Write an atom of the file's own, and REPORT it: that makes the events."
            self._problem(LarsCode.NO_HEAD, "EVENT in a head", self._span_since(first), hint)
            atom = None
        else:
            atom = self._derived_atom(head=True)
        at = None
        match self._word():
            case "AT":
                self._index += 1
                if self._tokens[self._index][0] != VARIABLE:
                    hint = "Write the variable that `AT ?t IN [5 s]` of the body binds."
                    self._unexpected("a variable behind AT", hint)
                at = self._tokens[self._index][1][1:]
                self._index += 1
                if self._word() == "IN":
                    self._unexpected("`:-` or `,`", "A head has no window: what it says holds at one point.")
            case "IN" | "ALWAYS" | "SINCE":
                self._unexpected("AT, `:-` or `,`", "A head has no window: what it says holds at one point.")
            case word if word in STATEMENTS:
                self._unexpected("`:-` or `.`", "The statement before ends with a dot.")
            case _:
                pass
        return LarsHead(atom, at, self._span_since(first)) if atom is not None else None

    def _item(self) -> LarsItem | None:
        match self._word():
            case "FILTER":
                return self._filter()
            case "BIND":
                return self._bind()
            case "NOT":
                return self._not()
            case _:
                return self._windowed_atom()

    def _facts(self, heads: list[LarsHead]) -> None:
        for head in heads:
            variables = [slot.name for slot in slots_of_atom(head.atom) if isinstance(slot, Var)]
            if variables:
                hint = "A fact holds for its terms at every point. Write `:-` and the body that binds the variable."
                self._problem(LarsCode.NO_FACT, f"a fact with the variable ?{variables[0]}", head.span, hint)
            elif head.at is not None:
                hint = "A fact holds at every point. What holds at some times is the head of a rule."
                self._problem(LarsCode.NO_FACT, "a fact with AT", head.span, hint)
            else:
                self.draft.facts.append(LarsFact(head.atom, head.span))
