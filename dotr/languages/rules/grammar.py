"""Grammar of rule files, in pyparsing: text to the syntax tree, one statement after the other.

A statement that does not parse becomes one diagnostic (`terminals.py`), and parsing resumes at the
next line that starts a statement, so every broken statement of a file is reported. Alternatives
differ in their first words, so the grammar needs no packrat table.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyparsing as pp

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules.program import ProgramDraft, QueryDraft, rule_draft
from dotr.languages.rules.syntax import (
    AbsentSyntax,
    AggregateSyntax,
    AssignmentSyntax,
    BetweenSyntax,
    ByLabel,
    CalendarSyntax,
    ChooseSyntax,
    DelaySyntax,
    DocumentSyntax,
    Inline,
    IntervalSyntax,
    Lexical,
    OnceSyntax,
    PrefixSyntax,
    Quantities,
    QuerySyntax,
    RuleSyntax,
    TicksSyntax,
    WindowSyntax,
    Word,
)
from dotr.languages.rules.terminals import (
    AGGREGATE_EXPECTED,
    FRACTION_EXPECTED,
    Bracketed,
    Broken,
    DelayExpression,
    End,
    EndMark,
    Escaped,
    ExpressionTerminal,
    FurthestFailure,
    OptionalWord,
    Recovery,
    Terminal,
)
from dotr.model.calendars import UNITS_OF_CALENDARS
from dotr.model.places import Document, Span
from dotr.model.rules import Mode
from dotr.model.terms import unescaped
from dotr.syntax import scan
from dotr.syntax.lexemes import LONG_STRING, STRING

_NOT_RESERVED: Final = rf"(?!(?i:{'|'.join(sorted(scan.RESERVED))})(?!\w))"
_NAME: Final = rf"(?!(?i:{'|'.join(sorted(scan.RESERVED - {'every'}))})(?!\w))\w+(?:-\w+)*"
_INTERNAL: Final = r"(?i:internal)(?!\w)(?!(?:\s|#[^\n]*)*=)"
"""The word of `define internal A = …`; in `define internal = …` it is the label."""
_Parsed: TypeAlias = Any
"""Value of a parse action, which has no type in pyparsing."""


class Grammar:
    """Grammar of rule files; its terminals refer to the document that is parsed, for the spans."""

    def __init__(self) -> None:
        self.furthest = FurthestFailure()
        self._label = self._terminal(_NOT_RESERVED + r"[^\W\d]\w*", "a label")
        self._variable = _with_action(self._terminal(r"[?$]\w+", "a variable"), lambda t: Word(t[0].text[1:], t[0].span))
        self._string = _with_action(Escaped(self.furthest, f"{LONG_STRING}|{STRING}", "a string"), _unquoted)
        self._text = Bracketed(self.furthest, "", "'['")
        statements = pp.MatchFirst([self._prefix(), self._query(), self._rule(), Recovery(self.furthest, "", "a statement")])
        self._statements = pp.ZeroOrMore(statements).parse_with_tabs()

    def parse(self, document: Document) -> tuple[DocumentSyntax, tuple[Diagnostic, ...]]:
        """The valid statements of a document, and a diagnostic for each statement with a syntax
        error."""
        self.furthest.start(document)
        parsed = list(self._statements.parse_string(document.text))
        prefixes = tuple(statement for statement in parsed if isinstance(statement, PrefixSyntax))
        queries = tuple(statement for statement in parsed if isinstance(statement, QuerySyntax))
        rules = tuple(statement for statement in parsed if isinstance(statement, RuleSyntax))
        broken = frozenset(label for statement in parsed if isinstance(statement, Broken) for label in statement)
        return DocumentSyntax(document, prefixes, queries, rules, broken), tuple(self.furthest.problems)

    def _terminal(self, pattern: str, description: str) -> pp.ParserElement:
        return Terminal(self.furthest, pattern, description)

    def _keyword(self, word: str, *, keep: bool = False) -> pp.ParserElement:
        shown = word.upper() if word == "prefix" else word
        return Terminal(self.furthest, rf"(?i:{word})(?!\w)", f"'{shown}'", keep=keep)

    def _mark(self, mark: str, *, keep: bool = False) -> pp.ParserElement:
        return Terminal(self.furthest, re.escape(mark), f"'{mark}'", keep=keep)

    def _prefix(self) -> pp.ParserElement:
        name = _with_action(self._terminal(r"(?:[^\W\d][\w.-]*)?:", "a prefix with its colon"), lambda t: Word(t[0].text[:-1], t[0].span))
        bracketed = Escaped(self.furthest, r"<[^<>\"{}|^`\x00-\x20]*>", "an IRI in angle brackets")
        iri = _with_action(bracketed, lambda t: Word(t[0].text[1:-1], t[0].span))
        return _with_action(self._keyword("prefix") + name + iri, lambda t: PrefixSyntax(*t))

    def _query(self) -> pp.ParserElement:
        return _with_action(self._keyword("query") + self._label + self._mark("=") + self._text, lambda t: QuerySyntax(*t))

    def _rule(self) -> pp.ParserElement:
        name = self._terminal(_NAME, "the rule's name")
        head = self._keyword("rule", keep=True) + name + pp.Opt(self._string, default=None)
        clauses = _as_tuple(pp.ZeroOrMore(self._keyword("and") + self._clause()))
        condition = self._keyword("if") + ExpressionTerminal(self.furthest, "", "an expression")
        assignments = self._keyword("with") + self._separated(self._assignment())
        consuming = self._keyword("consuming") + self._separated(self._label)
        following = pp.MatchFirst([self._keyword(word) for word in ("prefix", "query", "rule", "define")])
        rule = (
            _with_action(pp.Opt(head), lambda t: [list(t) or [None, None, None]])
            + self._keyword("define", keep=True)
            + OptionalWord(self.furthest, _INTERNAL, "'internal'")
            + self._label
            + self._mark("=")
            + self._text
            + self._keyword("from")
            + self._anchor()
            + clauses
            + pp.Opt(condition, default=None)
            + _as_tuple(pp.Opt(assignments))
            + _as_tuple(pp.Opt(consuming))
            + pp.Opt(self._once(), default=None)
            + pp.Opt(self._mark(";"))
            + EndMark(self.furthest, "", "an end")
            + pp.FollowedBy(End(self.furthest, "", "the end") | following)
        )
        return _with_action(rule, self._rule_syntax)

    def _rule_syntax(self, t: Sequence[_Parsed]) -> RuleSyntax:
        (keyword, name, documentation), define, internal, event, template, (anchor, delay), clauses, *rest, end = t
        condition, assignments, consuming, once = rest
        start = (keyword or define).span.start
        span = Span(self.furthest.document, start, end)
        text = documentation.text if documentation is not None else ""
        return RuleSyntax(name, text, event, template, anchor, delay, clauses, condition, assignments, consuming, span, internal, once)

    def _once(self) -> pp.ParserElement:
        keyword = Terminal(self.furthest, scan.ONCE, "'once'")
        pause = pp.Opt(self._keyword("in") + self._duration("per"), default=None)
        keys = _as_tuple(pp.Opt(self._keyword("per") + self._separated(self._variable)))
        return _with_action(keyword + pause + keys, lambda t: OnceSyntax(*t))

    def _separated(self, item: pp.ParserElement) -> pp.ParserElement:
        return item + pp.ZeroOrMore(self._mark(",") + item)

    def _assignment(self) -> pp.ParserElement:
        expression = ExpressionTerminal(self.furthest, "", "an expression")
        return _with_action(self._label + self._mark(".") + self._variable + self._mark("=") + expression, lambda t: AssignmentSyntax(*t))

    def _event(self) -> pp.ParserElement:
        inline = self._mark("=") + self._text
        by_label = pp.Opt(self._keyword("as") + self._label, default=None) + pp.Opt(self._text, default=None)
        return _with_action(self._label + (inline | by_label), _event)

    def _anchor(self) -> pp.ParserElement:
        duration = self._duration()
        answers = pp.Opt(self._keyword("for") + self._text, default=None)
        unit = self._terminal(rf"(?i:{'|'.join(UNITS_OF_CALENDARS)})(?!\w)", "a word such as day")
        time = pp.Opt(self._keyword("at") + self._terminal(r"[0-9][\w:.]*", "a time of day"), default=None)
        zone = pp.Opt(self._keyword("in") + self._string, default=None)
        moments = _with_action(unit + time + zone, lambda t: CalendarSyntax(*t))
        ticks = self._keyword("every", keep=True) + (duration | moments) + answers + self._keyword("as") + self._label
        at = Terminal(self.furthest, scan.AT_MOST, "'at'", keep=False)
        value = DelayExpression(self.furthest, "", "an expression") + at + self._keyword("most") + duration
        length = _with_action(value, lambda t: [t[1], t[0]]) | duration
        delay = _with_action(self._keyword("delayed", keep=True) + self._keyword("by") + length, lambda t: DelaySyntax(*t))
        return _with_action(ticks, lambda t: [(TicksSyntax(*t), None)]) | _with_action(
            self._event() + pp.Opt(delay, default=None), lambda t: [tuple(t)]
        )

    def _clause(self) -> pp.ParserElement:
        event, window = self._event(), self._window()
        between = _with_action(
            self._keyword("between") + self._label + self._keyword("and") + self._label,
            lambda t: BetweenSyntax(*t),
        )
        before = _with_action(self._keyword("before", keep=True) + self._label, lambda t: WindowSyntax(*t))
        scope = pp.Opt(window | between | before, default=None)
        count = pp.Opt(self._terminal(r"\d{1,18}(?![\w.])", "a whole number"), default=None)
        each = _with_action(self._keyword("each", keep=True), lambda t: [t[0], None])
        some = (self._keyword("last", keep=True) | self._keyword("first", keep=True)) + count
        also = pp.Opt(self._keyword("also", keep=True) + pp.FollowedBy(each | some), default=None)
        choose = _with_action(also + (each | some) + event + pp.Opt(window | before, default=None), _choose)
        absent = _with_action(self._keyword("not", keep=True) + event + scope, lambda t: AbsentSyntax(*t))
        return choose | absent | self._aggregate(event, scope)

    def _aggregate(self, event: pp.ParserElement, scope: pp.ParserElement) -> pp.ParserElement:
        distinct = pp.Opt(self._keyword("distinct", keep=True), default=None)
        argument = _with_action(distinct + self._label + self._mark(".") + self._variable, lambda t: [t[0] is not None, (t[1], t[2])])
        everything = _with_action(self._mark("*", keep=True), lambda _: [False, None])
        function = self._terminal(r"(?!(?i:quantile)(?!\w))[^\W\d]\w*", AGGREGATE_EXPECTED)
        plain = _with_action(function + self._mark("(") + (everything | argument), lambda t: [t[0], None, *t[1:]])
        fraction = self._terminal(r"(?![^\W\d]\w*\s*\.\s*[?$]|(?i:distinct)\b)[^\s,()]+", FRACTION_EXPECTED)
        quantile = self._terminal(r"(?i:quantile)(?!\w)", AGGREGATE_EXPECTED) + self._mark("(") + fraction + self._mark(",") + argument
        return _with_action(
            self._variable + self._mark("=") + (plain | quantile) + self._mark(")") + self._keyword("of") + event + scope,
            lambda t: AggregateSyntax(t[0], t[1], t[3], t[4], t[5], t[6], t[2]),
        )

    def _window(self) -> pp.ParserElement:
        duration = self._duration()
        interval = _with_action(
            (self._mark("[", keep=True) | self._mark("(", keep=True))
            + duration
            + self._mark(",")
            + duration
            + (self._mark("]", keep=True) | self._mark(")", keep=True)),
            self._interval,
        )
        return _with_action(
            self._keyword("within") + (duration | interval) + self._keyword("from") + self._label,
            lambda t: WindowSyntax(*t),
        )

    def _interval(self, t: Sequence[_Parsed]) -> IntervalSyntax:
        open_, low, high, close = t
        span = Span(self.furthest.document, open_.span.start, close.span.end)
        return IntervalSyntax(low, high, open_.text == "[", close.text == "]", span)

    def _duration(self, follower: str = "") -> pp.ParserElement:
        """A duration; `follower`: the word that may come next, which is no unit."""
        number = r"(?:\d+(?:\.\d+)?|\.\d+)"
        amount = self._terminal(number + r"(?!\.?\d)", "a duration")
        other = rf"(?!(?i:{follower})(?!\w))" if follower else ""
        unit = self._terminal(_NOT_RESERVED + other + r"[^\W\d_]+\.?", "a unit of time")
        datatype = self._terminal(r"\^\^(?:<[^<>\"{}|^`\x00-\x20]*>|[\w.-]*:\w+)", "'^^xsd:duration'")
        quantities = _with_action(pp.OneOrMore(amount + unit), self._quantities)
        zero = _with_action(self._terminal(r"0+(?:\.0+)?(?![\w.])", "a duration"), lambda t: Quantities(((t[0], None),), t[0].span))
        lexical = _with_action(self._string + datatype, self._lexical)
        plain = _with_action(self._terminal(r"P(?=T?\d)[\dA-Z.]*[A-Z](?!\w)", "a duration"), lambda t: Lexical(t[0], None, t[0].span))
        return quantities | zero | lexical | plain

    def _quantities(self, t: Sequence[_Parsed]) -> Quantities:
        words: list[Word] = list(t)
        parts = tuple(zip(words[::2], words[1::2], strict=True))
        return Quantities(parts, Span(self.furthest.document, words[0].span.start, words[-1].span.end))

    def _lexical(self, t: Sequence[_Parsed]) -> Lexical:
        value, datatype = t
        return Lexical(value, Word(datatype.text[2:], datatype.span), Span(self.furthest.document, value.span.start, datatype.span.end))


class _Grammars(threading.local):
    """The grammar of each thread. Terminals record failures while they parse, so threads share
    none."""

    @cached_property
    def grammar(self) -> Grammar:
        """The grammar of this thread, built when the thread parses its first document."""
        return Grammar()


_GRAMMARS: Final = _Grammars()


def parse_document(document: Document) -> tuple[DocumentSyntax, tuple[Diagnostic, ...]]:
    """The valid statements of a document, and a diagnostic for each statement with a syntax error.

    >>> file, problems = parse_document(Document("a.dotr", "rule X define A = [] fro B"))
    >>> file.rules, problems[0].message
    ((), "expected 'from', found 'fro'")
    """
    return _GRAMMARS.grammar.parse(document)


def _with_action(element: pp.ParserElement, make: Callable[[Sequence[_Parsed]], _Parsed]) -> pp.ParserElement:
    """A copy of the element with its tokens replaced by `make` of them (a list: several tokens)."""

    def action(tokens: pp.ParseResults) -> _Parsed:
        return make(list(tokens))

    return element.copy().add_parse_action(action)


def _as_tuple(element: pp.ParserElement) -> pp.ParserElement:
    """The element's tokens as one token, a tuple."""
    return _with_action(element, lambda t: [tuple(t)])


def _unquoted(t: Sequence[_Parsed]) -> Word:
    word: Word = t[0]
    quotes = 3 if word.text[:3] in ('"""', "'''") else 1
    return Word(unescaped(word.text[quotes:-quotes]), word.span)


def _event(t: Sequence[_Parsed]) -> Inline | ByLabel:
    match t:
        case [label, Span() as text]:
            return Inline(label, text)
        case [origin, label, filters]:
            return ByLabel(origin, label or origin, filters)
    raise AssertionError(t)


def _choose(t: Sequence[_Parsed]) -> ChooseSyntax:
    also, keyword, count, event, scope = t
    return ChooseSyntax(keyword, Mode(keyword.text.lower()), count, event, scope, also)


# Pass 1: parses the text of each file to its syntax tree.
#
# Before: documents. After: `files`, and a draft of every valid query and rule in them.


def parse(program: ProgramDraft) -> ProgramDraft:
    """Parse every document; reports D101 to D103."""
    files: list[DocumentSyntax] = []
    problems: list[Diagnostic] = []
    for document in program.documents:
        file, errors = parse_document(document)
        files.append(file)
        problems += errors
    return replace(
        program,
        files=tuple(files),
        queries=tuple(QueryDraft(query) for file in files for query in file.queries),
        rules=tuple(rule_draft(rule) for file in files for rule in file.rules),
    ).with_problems(problems)
