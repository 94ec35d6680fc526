"""The grammar of rule files, in pyparsing: text to the syntax tree, one statement after the other.

Idea: terminals skip blanks and comments themselves, keep their place, and note what they looked for in vain at the furthest place
reached; that is the error message. A statement that does not parse becomes one diagnostic, and parsing goes on at the next line that
starts a statement, so that every broken statement of a file is reported. No packrat: alternatives differ in their first words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import pyparsing as pp

from dotr.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.dotr import scan
from dotr.languages.dotr.codes import Code
from dotr.languages.dotr.syntax import (
    AbsentSyntax,
    AggregateSyntax,
    AssignmentSyntax,
    BetweenSyntax,
    ByLabel,
    ChooseSyntax,
    DelaySyntax,
    DocumentSyntax,
    Inline,
    IntervalSyntax,
    Lexical,
    PrefixSyntax,
    Quantities,
    QuerySyntax,
    RuleSyntax,
    Ticks,
    WindowSyntax,
    Word,
)
from dotr.model.places import Document, Span
from dotr.model.rules import Mode
from dotr.model.terms import unescaped

_NOT_RESERVED: Final = rf"(?!(?i:{'|'.join(sorted(scan.RESERVED))})(?!\w))"
_NAME: Final = rf"(?!(?i:{'|'.join(sorted(scan.RESERVED - {'every'}))})(?!\w))\w+(?:-\w+)*"
_STATEMENT: Final = re.compile(
    rf"(?:^|;)[^\S\n]*({scan.STATEMENT}|(?i:prefix)\s+[\w.-]*:|(?i:rule)\s+\w|(?i:query|define)\s+\w+\s*=)", re.MULTILINE
)
_STRING: Final = r"\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*'"
_LONG_STRING: Final = r"\"{3}(?:[^\"\\]|\\.|\"{1,2}(?!\"))*\"{3}|'{3}(?:[^'\\]|\\.|'{1,2}(?!'))*'{3}"
_LABEL: Final = re.compile(r"\b(?i:query|define)\s+(\w+)")

_Made: TypeAlias = Any
"""What a parse action makes: pyparsing hands it on untyped; the syntax nodes check it again."""


class _Furthest:
    """What was looked for in vain at the furthest place of the statement being parsed."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Diagnostic] = []
        self.clear()

    def clear(self) -> None:
        self.place = -1
        self.expected: list[str] = []
        self.known: Diagnostic | None = None

    def note(self, place: int, expected: str) -> None:
        if place > self.place:
            self.place, self.expected, self.known = place, [], None
        if place == self.place and expected not in self.expected:
            self.expected.append(expected)

    def note_known(self, diagnostic: Diagnostic) -> None:
        """A problem that is understood better than by what could have stood in its place."""
        place = diagnostic.span.start if diagnostic.span else 0
        if place >= self.place:
            self.place, self.expected, self.known = place, [], diagnostic

    def diagnostic(self) -> Diagnostic:
        if self.known is not None:
            return self.known
        text, expected = self.document.text, _in_words(self.expected)
        found = scan.TOKEN.match(text, self.place)
        if found is None:
            end = len(text[: self.place].rstrip())
            return Diagnostic(Code.UNEXPECTED, f"expected {expected}, found the end of the file", Span(self.document, max(0, end - 1), end))
        place = Span(self.document, found.start(), found.end())
        word = found[0].split("\n", 1)[0]
        return Diagnostic(Code.UNEXPECTED, f"expected {expected}, found {word!r}", place, self._way_out(word))

    def _way_out(self, word: str) -> str:
        if word.lower() in scan.RESERVED and any("label" in e or "name" in e for e in self.expected):
            return f"{word!r} is a word of the language and cannot be a label or a name."
        if word.lower() == "and" and "'with'" in self.expected:
            return "A clause `and …` stands before `if`; in an expression write &&."
        if word.lower() == "between" and "'within'" in self.expected:
            return "Only `not` and aggregates look between two events; each, last and first take a window: within 5 min from …"
        meant = did_you_mean(word.lower(), [e.strip("'") for e in self.expected if e.startswith("'")])
        return meant or _HINTS.get(self.expected[0] if self.expected else "", "")


def _in_words(expected: Sequence[str]) -> str:
    return f"{', '.join(expected[:-1])} or {expected[-1]}" if len(expected) > 1 else expected[0] if expected else "nothing more"


_HINTS: Final = {
    "'each'": "After `and` comes `each E`, `last E`, `first E`, `not E` or `?x = count(*) of E`.",
    "a unit of time": "Write durations like 5 min, 1 h 30 min or 250 ms.",
    "a duration": "Write `within 5 min from …` or an interval like `within [0, 5 min] from …`.",
    "'PREFIX'": "A statement starts with PREFIX, query, rule or define.",
}


class _Terminal(pp.Token):
    """A regular expression behind blanks and comments; gives a Word, or nothing if it is not kept."""

    def __init__(self, furthest: _Furthest, pattern: str, description: str, *, keep: bool = True) -> None:
        super().__init__()
        self.furthest = furthest
        self.pattern = re.compile(pattern, re.DOTALL)
        self.description = description
        self.keep = keep
        self.leave_whitespace()

    def _generateDefaultName(self) -> str:
        return self.description

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip(instring, loc)
        found = self.pattern.match(instring, start)
        if found is None:
            self.fail(instring, start)
        end = found.end()
        return end, [Word(found[0], Span(self.furthest.document, start, end))] if self.keep else []

    def fail(self, text: str, place: int, *, known: Diagnostic | None = None) -> NoReturn:
        if known is not None:
            self.furthest.note_known(known)
        else:
            self.furthest.note(place, self.description)
        raise pp.ParseException(text, place, self.description, self)


class _Bracketed(_Terminal):
    """`[ … ]` around a text of another language; gives the Span between the brackets."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip(instring, loc)
        if not instring.startswith("[", start):
            self.fail(instring, start)
        try:
            end = scan.bracketed(self.furthest.document, start)
        except Refused as refused:
            self.fail(instring, start, known=refused.diagnostics[0])
        return end, [Span(self.furthest.document, start + 1, end - 1)]


class _Expression(_Terminal):
    """A SPARQL expression up to the next word of the rule; gives its Span."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip(instring, loc)
        try:
            end = scan.expression(self.furthest.document, start)
        except Refused as refused:
            self.fail(instring, start, known=refused.diagnostics[0])
        if end == start:
            self.fail(instring, start)
        return end, [Span(self.furthest.document, start, end)]


class _Mark(_Terminal):
    """The offset reached: where a statement ends."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        return loc, [loc]


class _Recovery(_Terminal):
    """What no statement can read: reported, and skipped up to the next statement."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip(instring, loc)
        if start >= len(instring):
            raise pp.ParseException(instring, start, self.description, self)
        furthest = self.furthest
        furthest.problems.append(furthest.diagnostic())
        wanted = max(furthest.place, start + 1)
        furthest.clear()
        line = instring.rfind("\n", 0, wanted) + 1
        end = next((found.start(1) for found in _STATEMENT.finditer(instring, line) if found.start(1) >= wanted), len(instring))
        return end, [_Broken(tuple(_LABEL.findall(instring, start, end)))]


class _Broken(tuple[str, ...]):
    """The labels that a statement which could not be read seems to define."""

    __slots__ = ()


class _End(_Terminal):
    """The end of the text."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        if _skip(instring, loc) < len(instring):
            self.fail(instring, _skip(instring, loc))
        return loc, []


def _skip(text: str, place: int) -> int:
    found = scan.SKIP.match(text, place)
    return found.end() if found else place


class Grammar:
    """The grammar for one document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.furthest = _Furthest(document)
        self._label = self._terminal(_NOT_RESERVED + r"[^\W\d]\w*", "a label")
        self._variable = _made(self._terminal(r"[?$]\w+", "a variable"), lambda t: Word(t[0].text[1:], t[0].span))
        self._string = _made(self._terminal(f"{_LONG_STRING}|{_STRING}", "a string"), _unquoted)
        self._text = _Bracketed(self.furthest, "", "'['")
        statements = pp.MatchFirst([self._prefix(), self._query(), self._rule(), _Recovery(self.furthest, "", "a statement")])
        self._statements = pp.ZeroOrMore(statements).parse_with_tabs()

    def parse(self) -> tuple[DocumentSyntax, tuple[Diagnostic, ...]]:
        """The statements that could be read, and a diagnostic for each that could not."""
        made = list(self._statements.parse_string(self.document.text))
        prefixes = tuple(m for m in made if isinstance(m, PrefixSyntax))
        queries = tuple(m for m in made if isinstance(m, QuerySyntax))
        rules = tuple(m for m in made if isinstance(m, RuleSyntax))
        broken = frozenset(label for m in made if isinstance(m, _Broken) for label in m)
        return DocumentSyntax(self.document, prefixes, queries, rules, broken), tuple(self.furthest.problems)

    def _terminal(self, pattern: str, description: str) -> pp.ParserElement:
        return _Terminal(self.furthest, pattern, description)

    def _keyword(self, word: str, *, keep: bool = False) -> pp.ParserElement:
        shown = word.upper() if word == "prefix" else word
        return _Terminal(self.furthest, rf"(?i:{word})(?!\w)", f"'{shown}'", keep=keep)

    def _mark(self, mark: str, *, keep: bool = False) -> pp.ParserElement:
        return _Terminal(self.furthest, re.escape(mark), f"'{mark}'", keep=keep)

    def _prefix(self) -> pp.ParserElement:
        name = _made(self._terminal(r"(?:[^\W\d][\w.-]*)?:", "a prefix with its colon"), lambda t: Word(t[0].text[:-1], t[0].span))
        iri = _made(self._terminal(r"<[^<>\"{}|^`\x00-\x20]*>", "an IRI in angle brackets"), lambda t: Word(t[0].text[1:-1], t[0].span))
        return _made(self._keyword("prefix") + name + iri, lambda t: PrefixSyntax(*t))

    def _query(self) -> pp.ParserElement:
        return _made(self._keyword("query") + self._label + self._mark("=") + self._text, lambda t: QuerySyntax(*t))

    def _rule(self) -> pp.ParserElement:
        name = self._terminal(_NAME, "the rule's name")
        head = self._keyword("rule", keep=True) + name + pp.Opt(self._string, default=None)
        clauses = _listed(pp.ZeroOrMore(self._keyword("and") + self._clause()))
        condition = self._keyword("if") + _Expression(self.furthest, "", "an expression")
        assignments = self._keyword("with") + self._separated(self._assignment())
        consuming = self._keyword("consuming") + self._separated(self._label)
        following = pp.MatchFirst([self._keyword(word) for word in ("prefix", "query", "rule", "define")])
        rule = (
            _made(pp.Opt(head), lambda t: [list(t) or [None, None, None]])
            + self._keyword("define", keep=True)
            + self._label
            + self._mark("=")
            + self._text
            + self._keyword("from")
            + self._anchor()
            + clauses
            + pp.Opt(condition, default=None)
            + _listed(pp.Opt(assignments))
            + _listed(pp.Opt(consuming))
            + pp.Opt(self._mark(";"))
            + _Mark(self.furthest, "", "an end")
            + pp.FollowedBy(_End(self.furthest, "", "the end") | following)
        )
        return _made(rule, self._made_rule)

    def _made_rule(self, t: Sequence[_Made]) -> RuleSyntax:
        (keyword, name, documentation), define, event, template, (anchor, delay), clauses, condition, assignments, consuming, end = t
        start = (keyword or define).span.start
        span = Span(self.document, start, end)
        text = documentation.text if documentation is not None else ""
        return RuleSyntax(name, text, event, template, anchor, delay, clauses, condition, assignments, consuming, span)

    def _separated(self, item: pp.ParserElement) -> pp.ParserElement:
        return item + pp.ZeroOrMore(self._mark(",") + item)

    def _assignment(self) -> pp.ParserElement:
        expression = _Expression(self.furthest, "", "an expression")
        return _made(self._label + self._mark(".") + self._variable + self._mark("=") + expression, lambda t: AssignmentSyntax(*t))

    def _event(self) -> pp.ParserElement:
        inline = self._mark("=") + self._text
        by_label = pp.Opt(self._keyword("as") + self._label, default=None) + pp.Opt(self._text, default=None)
        return _made(self._label + (inline | by_label), _event)

    def _anchor(self) -> pp.ParserElement:
        duration = self._duration()
        answers = pp.Opt(self._keyword("for") + self._text, default=None)
        ticks = self._keyword("every", keep=True) + duration + answers + self._keyword("as") + self._label
        delay = _made(self._keyword("delayed", keep=True) + self._keyword("by") + duration, lambda t: DelaySyntax(*t))
        return _made(ticks, lambda t: [(Ticks(*t), None)]) | _made(self._event() + pp.Opt(delay, default=None), lambda t: [tuple(t)])

    def _clause(self) -> pp.ParserElement:
        event, window = self._event(), self._window()
        between = _made(
            self._keyword("between") + self._label + self._keyword("and") + self._label,
            lambda t: BetweenSyntax(*t),
        )
        scope = pp.Opt(window | between, default=None)
        count = pp.Opt(self._terminal(r"\d+(?![\w.])", "a whole number"), default=None)
        each = _made(self._keyword("each", keep=True), lambda t: [t[0], None])
        some = (self._keyword("last", keep=True) | self._keyword("first", keep=True)) + count
        choose = _made((each | some) + event + pp.Opt(window, default=None), _choose)
        absent = _made(self._keyword("not", keep=True) + event + scope, lambda t: AbsentSyntax(*t))
        return choose | absent | self._aggregate(event, scope)

    def _aggregate(self, event: pp.ParserElement, scope: pp.ParserElement) -> pp.ParserElement:
        distinct = pp.Opt(self._keyword("distinct", keep=True), default=None)
        argument = _made(distinct + self._label + self._mark(".") + self._variable, lambda t: [t[0] is not None, (t[1], t[2])])
        everything = _made(self._mark("*", keep=True), lambda _: [False, None])
        function = self._terminal(r"[^\W\d]\w*", "count, sum, avg, min or max")
        return _made(
            self._variable
            + self._mark("=")
            + function
            + self._mark("(")
            + (everything | argument)
            + self._mark(")")
            + self._keyword("of")
            + event
            + scope,
            lambda t: AggregateSyntax(*t),
        )

    def _window(self) -> pp.ParserElement:
        duration = self._duration()
        interval = _made(
            (self._mark("[", keep=True) | self._mark("(", keep=True))
            + duration
            + self._mark(",")
            + duration
            + (self._mark("]", keep=True) | self._mark(")", keep=True)),
            self._interval,
        )
        return _made(
            self._keyword("within") + (duration | interval) + self._keyword("from") + self._label,
            lambda t: WindowSyntax(*t),
        )

    def _interval(self, t: Sequence[_Made]) -> IntervalSyntax:
        open_, low, high, close = t
        span = Span(self.document, open_.span.start, close.span.end)
        return IntervalSyntax(low, high, open_.text == "[", close.text == "]", span)

    def _duration(self) -> pp.ParserElement:
        number = r"(?:\d+(?:\.\d+)?|\.\d+)"
        amount = self._terminal(number + r"(?!\.?\d)", "a duration")
        unit = self._terminal(_NOT_RESERVED + r"[^\W\d_]+\.?", "a unit of time")
        datatype = self._terminal(r"\^\^(?:<[^<>\"{}|^`\x00-\x20]*>|[\w.-]*:\w+)", "'^^xsd:duration'")
        quantities = _made(pp.OneOrMore(amount + unit), self._quantities)
        zero = _made(self._terminal(r"0+(?:\.0+)?(?![\w.])", "a duration"), lambda t: Quantities(((t[0], None),), t[0].span))
        lexical = _made(self._string + datatype, self._lexical)
        return quantities | zero | lexical

    def _quantities(self, t: Sequence[_Made]) -> Quantities:
        words: list[Word] = list(t)
        parts = tuple(zip(words[::2], words[1::2], strict=True))
        return Quantities(parts, Span(self.document, words[0].span.start, words[-1].span.end))

    def _lexical(self, t: Sequence[_Made]) -> Lexical:
        value, datatype = t
        return Lexical(value, Word(datatype.text[2:], datatype.span), Span(self.document, value.span.start, datatype.span.end))


def _made(element: pp.ParserElement, make: Callable[[Sequence[_Made]], _Made]) -> pp.ParserElement:
    """The element in a group of its own, with what `make` makes of its tokens (a list: several tokens)."""

    def action(tokens: pp.ParseResults) -> _Made:
        return make(list(tokens))

    return element.copy().add_parse_action(action)


def _listed(element: pp.ParserElement) -> pp.ParserElement:
    """The element's tokens as one token, a tuple."""
    return _made(element, lambda t: [tuple(t)])


def _unquoted(t: Sequence[_Made]) -> Word:
    word: Word = t[0]
    quotes = 3 if word.text[:3] in ('"""', "'''") else 1
    return Word(unescaped(word.text[quotes:-quotes]), word.span)


def _event(t: Sequence[_Made]) -> Inline | ByLabel:
    match t:
        case [label, Span() as text]:
            return Inline(label, text)
        case [origin, label, filters]:
            return ByLabel(origin, label or origin, filters)
    raise AssertionError(t)


def _choose(t: Sequence[_Made]) -> ChooseSyntax:
    keyword, count, event, scope = t
    return ChooseSyntax(keyword, Mode(keyword.text.lower()), count, event, scope)
