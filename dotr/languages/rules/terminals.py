"""Terminals of the rule grammar, and the syntax errors that they report.

Idea: a recursive descent parser backtracks, so the best error is at the furthest offset that any
terminal reached. Every terminal skips blanks and comments, and records at a mismatch what it
expected; a statement that does not parse becomes one diagnostic and is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import pyparsing as pp

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.codes import RuleCode
from dotr.languages.rules.syntax import Word
from dotr.model.calendars import UNITS_OF_CALENDARS
from dotr.model.places import Document, Span
from dotr.model.terms import ESCAPE_HINT, invalid_escape
from dotr.syntax import scan
from dotr.syntax.lexemes import quotes_hint

_STATEMENT_START: Final = re.compile(
    rf"(?:^|;)[^\S\n]*({scan.STATEMENT_START}|(?i:prefix)\s+[\w.-]*:|(?i:rule)\s+\w|(?i:query|define)\s+(?:(?i:internal)\s+)?\w+\s*=)",
    re.MULTILINE,
)
_EVENT: Final = re.compile(r"\bdefine\s+(?:internal\s+(?!=))?(\w+)", re.IGNORECASE)
_LABEL: Final = re.compile(r"\b(?i:query|define)\s+(?:(?i:internal)\s+(?!=))?(\w+)")
_ANCHOR: Final = re.compile(r"\b(?i:from)\s+(\w+)(?=(?:\s+(?i:delayed)|\s*\[|\s*=))")
_ATTRIBUTE: Final = re.compile(r"\w+\s*\.\s*[?$]\w+")
_AT_MOST: Final = re.compile(scan.AT_MOST)
_CODES: Final = scan.ScanCodes(RuleCode.UNCLOSED_BRACKET, RuleCode.UNCLOSED_STRING)


class FurthestFailure:
    """Record of the terminals expected at the furthest offset reached in the current statement."""

    def __init__(self) -> None:
        self.start(Document("", ""))

    def start(self, document: Document) -> None:
        """Remove all failures, before the first statement of a document."""
        self.document = document
        self.problems: list[Diagnostic] = []
        self.clear()

    def clear(self) -> None:
        """Remove all failures, before the next statement."""
        self.offset = -1
        self.expected: list[str] = []
        self.diagnosed: Diagnostic | None = None

    def expect(self, offset: int, expected: str) -> None:
        """Record that a terminal failed at an offset; earlier offsets are dropped."""
        if offset > self.offset:
            self.offset, self.expected, self.diagnosed = offset, [], None
        if offset == self.offset and expected not in self.expected:
            self.expected.append(expected)

    def record(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic, which replaces the list of expected terminals in the message."""
        offset = diagnostic.span.start if diagnostic.span else 0
        if offset >= self.offset:
            self.offset, self.expected, self.diagnosed = offset, [], diagnostic

    def diagnostic(self) -> Diagnostic:
        """The error at the furthest offset."""
        if self.diagnosed is not None:
            return self.diagnosed
        text, expected = self.document.text, _alternatives(self.expected)
        token = scan.TOKEN.match(text, self.offset)
        if token is None:
            end = len(text[: self.offset].rstrip())
            return Diagnostic(
                RuleCode.UNEXPECTED, f"expected {expected}, found the end of the file", Span(self.document, max(0, end - 1), end)
            )
        span = Span(self.document, token.start(), token.end())
        word = token[0].split("\n", 1)[0]
        return Diagnostic(RuleCode.UNEXPECTED, f"expected {expected}, found {word!r}", span, self._hint(word))

    def _hint(self, word: str) -> str:
        if typographic := quotes_hint(self.document.text[self.offset :][:200].lstrip()):
            return typographic
        before = self.document.text[: self.offset].split()
        if hint := self._hint_by_previous_word(before[-1].lower() if before else "", word) or self._hint_by_context(word):
            return hint
        if word.lower() in scan.RESERVED and any("label" in e or "name" in e for e in self.expected):
            return f"{word!r} is a word of the language and cannot be a label or a name."
        if word.lower() == "and" and "'with'" in self.expected:
            return "A clause `and …` stands before `if`; in an expression write &&."
        if word.lower() == "between" and "'within'" in self.expected:
            return "Only `not` and aggregates look between two events; each, last and first take a window: within 5 min from …"
        suggestion = did_you_mean(word.lower(), [e.strip("'") for e in self.expected if e.startswith("'")])
        return suggestion or _HINTS.get(self.expected[0] if self.expected else "", "")

    def _hint_by_context(self, word: str) -> str:
        """A hint by the expected terminals and the text around the word; may be empty."""
        text, lower = self.document.text, word.lower()
        if lower in ("where", "when", "having") and "'if'" in self.expected:
            return f"The condition of a rule begins with if: write if in place of {word}."
        if lower in ("next", "after", "before") and not {"'each'", "'from'", "'within'"}.isdisjoint(self.expected):
            return _WINDOWS_LOOK_BACK
        if "'as'" in self.expected and "'within'" in self.expected and word[0].isupper() and lower not in scan.RESERVED:
            return f"A label of the clause's own stands behind as: as {word}."
        if lower in ("then", "sequence", "followed") and "'and'" in self.expected:
            return _WINDOWS_LOOK_BACK
        if "'and'" in self.expected and (lower in ("each", "last", "first", "not") or _CLAUSE.match(text, self.offset)):
            missing = "and each" if word[0].isalnum() and lower not in scan.RESERVED else "and"
            return f"Is an and missing? A clause begins with and each, and last, and first, and not: {missing} {word} …"
        if "'*'" in self.expected and word[0].isdigit():
            return f"quantile alone takes a number: quantile({word}, E.?v). The others take an attribute: median(E.?v)."
        if _ASSIGNMENT.match(text, self.offset) and text[: self.offset].rstrip().endswith(";"):
            return f"Assignments are separated by commas, and ; ends the rule: , {word}.?…"
        if lower == "and" and "','" in self.expected and "'consuming'" in self.expected:
            return "Assignments, and labels behind consuming, are separated by commas."
        if "'for'" in self.expected and "'as'" in self.expected:
            label = word if lower not in scan.RESERVED and word[0].isalpha() else "Tick"
            return f"Ticks are an event with a label of its own: every … as {label}."
        return ""

    def _hint_by_previous_word(self, before: str, word: str) -> str:
        """A hint by the word and the word before it; may be empty."""
        number = word[0].isdigit()
        match self.expected:
            case ["a label"] if before == "before" and word.lower() in ("within", "between", "as"):
                return "`before R` names the anchor. For a label of that name write as: as Before within …"
            case ["a label"] if before == "not" and word.lower() in ("each", "last", "first"):
                return f"`not E` looks at every E: leave {word} out."
            case ["a label"] if before == "each" and number:
                return "`each` takes every event. For some of them write last 3 or first 3."
            case ["a whole number", *_] if number or word in ("-", "+"):
                return "Write a whole number from 1, or none: last 3 Temp."
            case ["a label"] if word.startswith(("?", "$")) and (events := _EVENT.findall(self.document.text, 0, self.offset)):
                return f"Write the event's label first: {events[-1]}.?{word[1:]}."
            case ["a variable"] if word[0].isalpha():
                return f"A variable begins with a question mark: ?{word}."
            case ["a duration", *_] if before == "by" and (word.startswith(("?", "$")) or word[0].isalpha()):
                labels = _ANCHOR.findall(self.document.text, 0, self.offset)
                written = _ATTRIBUTE.match(self.document.text, self.offset)
                value = written[0] if written else f"{labels[-1] if labels else 'L'}.?{word[1:] if word[0] in '?$' else 'v'}"
                return f"Write a delay of the data with its greatest value: delayed by {value} at most 1 h."
            case ["a duration", *_] if before == "every":
                return did_you_mean(word.lower(), UNITS_OF_CALENDARS) or _EVERY
            case ["a duration", *_] if word in ("-", "+"):
                return "A length of time has no sign. Windows look back: within 5 min from …"
            case _ if number and did_you_mean(before, ["every"]):
                return "Did you mean every?"
            case _:
                return ""


def _alternatives(expected: Sequence[str]) -> str:
    return f"{', '.join(expected[:-1])} or {expected[-1]}" if len(expected) > 1 else expected[0] if expected else "nothing more"


_WINDOWS_LOOK_BACK: Final = (
    "Windows look back, so the later event is the anchor: from Later and last Earlier within 5 min from Later. To wait for what comes, or "
    "does not, delay the anchor: from Earlier delayed by 5 min and not Later within [0, 5 min) from Earlier."
)
_EVERY: Final = "Write a length, every 10 min, or a calendar: every hour, every day at 06:00, every month, or every monday for a week."
_CLAUSE: Final = re.compile(
    r"(?!(?i:as|from|if|with|define|rule|query|prefix|consuming)\b)[^\W\d]\w*(?:\s+(?i:as)\s+\w+)?\s*(?:(?i:within)\b|\[)|[?$]\w+\s*=\s*\w+\s*\("
)
_ASSIGNMENT: Final = re.compile(r"[^\W\d]\w*\s*\.\s*[?$]\w+\s*=")

AGGREGATE_EXPECTED: Final = "count, sum, avg, min, max, median, quantile, variance or stddev"
FRACTION_EXPECTED: Final = "a number from 0 to 1"

_HINTS: Final = {
    FRACTION_EXPECTED: "Write the fraction first: quantile(0.95, E.?v). The median is median(E.?v).",
    "'also'": "After `and` comes `each E`, `last E`, `first E`, `not E` or `?x = count(*) of E`.",
    "a unit of time": "Write durations like 5 min, 1 h 30 min or 250 ms.",
    "a duration": "Write `within 5 min from …` or an interval like `within [0, 5 min] from …`.",
    "'PREFIX'": "A statement starts with PREFIX, query, rule or define.",
}


class Terminal(pp.Token):
    """Regular expression after blanks and comments; it yields a Word if `keep`, else nothing."""

    def __init__(self, furthest: FurthestFailure, pattern: str, description: str, *, keep: bool = True) -> None:
        super().__init__()
        self.furthest = furthest
        self.pattern = re.compile(pattern, re.DOTALL)
        self.description = description
        self.keep = keep
        self.leave_whitespace()

    def _generateDefaultName(self) -> str:
        return self.description

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip_blanks(instring, loc)
        match = self.pattern.match(instring, start)
        if match is None:
            self.fail(instring, start)
        end = match.end()
        return end, [Word(match[0], Span(self.furthest.document, start, end))] if self.keep else []

    def fail(self, text: str, offset: int, *, diagnosed: Diagnostic | None = None) -> NoReturn:
        """Record the failure at an offset, and raise pyparsing's exception."""
        if diagnosed is not None:
            self.furthest.record(diagnosed)
        else:
            self.furthest.expect(offset, self.description)
        raise pp.ParseException(text, offset, self.description, self)


class OptionalWord(Terminal):
    """Word that may be absent: it yields None then, and no failure is recorded."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        match = self.pattern.match(instring, _skip_blanks(instring, loc))
        return super().parseImpl(instring, loc, do_actions) if match else (loc, [None])


class Escaped(Terminal):
    """String or IRI in which every backslash begins an escape."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        end, words = super().parseImpl(instring, loc, do_actions)
        for word in words:
            if (bad_escape := invalid_escape(word.text)) is not None:
                start = word.span.start + bad_escape.start()
                span = Span(self.furthest.document, start, start + len(bad_escape[0]))
                self.fail(instring, start, diagnosed=Diagnostic(RuleCode.UNEXPECTED, f"{bad_escape[0]} is no escape", span, ESCAPE_HINT))
        return end, words


class Bracketed(Terminal):
    """`[ … ]` around a text of another language; its value is the Span between the brackets."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip_blanks(instring, loc)
        if not instring.startswith("[", start):
            self.fail(instring, start)
        try:
            end = scan.end_of_bracket(self.furthest.document, start, _CODES)
        except Refused as refused:
            self.fail(instring, start, diagnosed=refused.diagnostics[0])
        return end, [Span(self.furthest.document, start + 1, end - 1)]


class ExpressionTerminal(Terminal):
    """SPARQL expression up to the next keyword of the rule; its value is the expression's Span."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip_blanks(instring, loc)
        try:
            end = scan.end_of_expression(self.furthest.document, start, _CODES)
        except Refused as refused:
            self.fail(instring, start, diagnosed=refused.diagnostics[0])
        if end == start:
            self.fail(instring, start)
        return end, [Span(self.furthest.document, start, end)]


class DelayExpression(ExpressionTerminal):
    """SPARQL expression before `at most`; a mismatch is not recorded, since a constant may follow."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip_blanks(instring, loc)
        try:
            end = scan.end_of_expression(self.furthest.document, start, _CODES)
        except Refused:
            end = start
        if end == start or not _AT_MOST.match(instring, _skip_blanks(instring, end)):
            raise pp.ParseException(instring, start, self.description, self)
        return end, [Span(self.furthest.document, start, end)]


class EndMark(Terminal):
    """Empty terminal; its value is the offset, the end of a statement."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        return loc, [loc]


class Recovery(Terminal):
    """Text that no statement matches: reported, and skipped up to the next start of a statement."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        start = _skip_blanks(instring, loc)
        if start >= len(instring):
            raise pp.ParseException(instring, start, self.description, self)
        furthest = self.furthest
        furthest.problems.append(furthest.diagnostic())
        resume_at = max(furthest.offset, start + 1)
        furthest.clear()
        line = instring.rfind("\n", 0, resume_at) + 1
        end = next((match.start(1) for match in _STATEMENT_START.finditer(instring, line) if match.start(1) >= resume_at), len(instring))
        return end, [Broken(tuple(_LABEL.findall(instring, start, end)))]


class Broken(tuple[str, ...]):
    """Labels that a statement with a syntax error seems to define."""

    __slots__ = ()


class End(Terminal):
    """End of the text."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:
        if _skip_blanks(instring, loc) < len(instring):
            self.fail(instring, _skip_blanks(instring, loc))
        return loc, []


def _skip_blanks(text: str, offset: int) -> int:
    match = scan.SKIP.match(text, offset)
    return match.end() if match else offset
