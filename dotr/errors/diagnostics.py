"""Diagnostics: errors and warnings with a code, a span, a message and a hint.

Every problem of a user's file is a `Diagnostic`. `Refused` carries diagnostics to the command line,
which prints them and exits with 2. First letter of a code: C configuration and command line, D
rules, K background knowledge and Datalog, Q queries, T templates, I inputs and outputs, S Spark, W
continuous queries, L LARS, E EP-SPARQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from dotr.errors.terminal import escape_line, mask_controls
from dotr.model import dataclass
from dotr.model.places import Span


class Severity(Enum):
    """An error ends the command with exit code 2; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem of a file or an argument.

    - `code`: a code of `dotr.errors.catalogue`.
    - `message`: the problem in a few words.
    - `span`: its place in a file, or None.
    - `hint`: a correction to write instead; may be empty.
    - `dated`: it holds only where times are date-times (True), or integers (False); None: in both.
    """

    code: str
    message: str
    span: Span | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR
    dated: bool | None = None

    def __str__(self) -> str:
        r"""Return the text for users.

        >>> from dotr.model.places import Document
        >>> place = Span(Document("fire.dotr", "within 5 min from Smok\n"), 18, 22)
        >>> print(Diagnostic("D203", "unbound label Smok", place, "The rule binds Smoke. Did you mean Smoke?"))
        fire.dotr:1:19: D203 unbound label Smok
          1 | within 5 min from Smok
            |                   ^^^^
        The rule binds Smoke. Did you mean Smoke?
        """
        kind = "warning: " if self.severity is Severity.WARNING else ""
        lines = [f"{self.code} {kind}{escape_line(self.message)}"]
        if self.span is not None:
            line, column = self.span.line_column
            lines[0] = f"{escape_line(self.span.document.name)}:{line}:{column}: {lines[0]}"
            source, start = _excerpt(self.span.document.text.split("\n")[line - 1].rstrip("\r"), column - 1)
            width = max(1, min(self.span.end - self.span.start, len(source) - start))
            pad = "".join("\t" if c == "\t" else " " for c in source[:start])
            lines += [f"{line:>3} | {source}", f"    | {pad}{'^' * width}"]
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


_MAX_LINE: Final = 240
_EXCERPT: Final = 160


def _excerpt(source: str, start: int) -> tuple[str, int]:
    """Return a line cut around `start` if very long, without control characters; and `start`."""
    if len(source) > _MAX_LINE:
        begin = max(0, start - _EXCERPT // 2)
        before, after = "…" if begin else "", "…" if begin + _EXCERPT < len(source) else ""
        source, start = before + source[begin : begin + _EXCERPT] + after, start - begin + len(before)
    return mask_controls(source), start


class DotrError(Exception):
    """Base class of all errors that dotr raises.

    `Refused` is a program, configuration or argument that cannot be used, with its diagnostics.
    `SessionError` (also a `ValueError`) is a call of a session that cannot be carried out.

    >>> import dotr
    >>> try:
    ...     dotr.Program.load("no-such-file.dotr")
    ... except dotr.DotrError as error:
    ...     print(error)
    C302 cannot read no-such-file.dotr: there is no such file
    Is the path right? Relative paths are relative to the working directory.
    """


class Refused(DotrError):
    """A rule file, configuration, background file or argument that cannot be used.

    `diagnostics` holds every problem, in the order of discovery; `str` of the error is their text.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n\n".join(map(str, self.diagnostics)))


class ArgumentRefused(Refused, ValueError):
    """A `Refused` for the argument of a Python function; also a `ValueError`."""


class InputFailed(DotrError):
    """Failure of an input that cannot be read further, with the reason as `diagnostic`.

    Before the first element it is raised as an error of the user (`Refused`); later the run fails.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.diagnostic = Diagnostic(code, message, None, hint)
        super().__init__(str(self.diagnostic))


def refuse(code: str, message: str, span: Span | None = None, hint: str = "") -> Refused:
    """Return a `Refused` with a single error."""
    return Refused([Diagnostic(code, message, span, hint)])


def did_you_mean(word: str, known: Sequence[str], least: float = 0.6) -> str:
    """Return a hint with the known word closest to a misspelt one, or an empty string.

    `least`: the least share of letters that the two have in common, in their order.

    The hint is empty for a known word too, since a known word in the wrong place is not misspelt.

    >>> did_you_mean("Smok", ["Smoke", "HighTemp"])
    'Did you mean Smoke?'
    >>> did_you_mean("Smoke", ["Smoke", "HighTemp"])
    ''
    """
    from difflib import get_close_matches  # no command needs it to start

    close = get_close_matches(word, known, n=1, cutoff=least)
    return f"Did you mean {close[0]}?" if close and close[0] != word else ""


# Comments of a file that allow a warning (`dotr.languages.allowances`).


class Allowance(NamedTuple):
    """One code of a comment.

    - `code`: empty if the comment has a syntax error.
    - `reason`: the text in its parentheses; empty without one.
    - `place`: the comment.
    - `scope`: the statement below it; None if there is none.
    """

    code: str
    reason: str
    place: Span
    scope: Span | None

    def allows(self, code: str, place: Span) -> bool:
        """True of a warning that the comment silences, by its code and its place."""
        return bool(self.reason) and code == self.code and self.scope is not None and self.scope.contains(place)


class Silenced(NamedTuple):
    """A warning that a comment silences."""

    diagnostic: Diagnostic
    allowance: Allowance


def without_allowed(
    diagnostics: Iterable[Diagnostic], allowed: Sequence[Allowance], queries: Mapping[Span, Span] = MappingProxyType({})
) -> tuple[list[Diagnostic], list[Silenced]]:
    """The diagnostics that no comment silences, and the silenced warnings, both in the given order.

    `queries`: the place of the shared query for the place of a rule that reads it. A comment above
    either silences a warning of the rule's place.
    """
    kept: list[Diagnostic] = []
    silenced: list[Silenced] = []
    for diagnostic in diagnostics:
        span = diagnostic.span
        places = [] if span is None or diagnostic.severity is not Severity.WARNING else [span, *filter(None, [queries.get(span)])]
        by = [each for each in allowed if any(each.allows(diagnostic.code, place) for place in places)]
        silenced += [Silenced(diagnostic, each) for each in by]
        if not by:
            kept.append(diagnostic)
    return kept, silenced


# Results of compiling files of a language: the valid statements, and all diagnostics.


class CheckedFiles:
    """Base of compilation results: dataclasses with `diagnostics`, ordered by file and offset."""

    __slots__ = ()

    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(each for each in self.diagnostics if each.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are warnings."""
        return tuple(each for each in self.diagnostics if each.severity is Severity.WARNING)

    def checked(self) -> Self:
        """Return this result unchanged. Raises `Refused` with all errors if there are any."""
        if self.errors:
            raise Refused(self.errors)
        return self
