r"""REGEX and REPLACE by RE2, in time linear in the text for every pattern (SPARQL 1.1, sections
17.4.3.14 and 15).

Idea: XPath's patterns are rewritten into RE2's: `\d`, `\w`, `\s`, `\i`, `\c` (in classes too) and
the flags `s m i x q` have XPath's meaning. Unsupported, each with its own message: back-references,
look-around, class subtraction (`[a-z-[aeiou]]`), blocks (`\p{IsGreek}`).
Kept by hand: no library translates XPath's patterns to RE2.

A pattern of the program is compiled once. A pattern that comes with the stream, or is computed,
may have `_LONGEST` characters as RE2's and `_MEMORY` bytes compiled, and all of an instant
together `MOST_PATTERNS` bytes, each counted once, whether or not it is cached; beyond that the
expression errs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.expressions.strings import StringValue, text_of, with_tag_of
from dotr.evaluation.expressions.values.terms import Value
from dotr.evaluation.limits import BOUNDS

_WORD: Final = r"\p{L}\p{M}\p{N}\p{S}"
_NOT_WORD: Final = r"\p{P}\p{Z}\p{C}"
_NAME_START: Final = (
    r":A-Z_a-z\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{2FF}\x{370}-\x{37D}\x{37F}-\x{1FFF}\x{200C}-\x{200D}\x{2070}-\x{218F}\x{2C00}-\x{2FEF}"
    r"\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}"
)
_NAME: Final = _NAME_START + r"\-.0-9\x{B7}\x{300}-\x{36F}\x{203F}-\x{2040}"
_CLASSES: Final = {"d": r"\p{Nd}", "D": r"\P{Nd}", "w": _WORD, "W": _NOT_WORD, "s": r" \t\n\r", "i": _NAME_START, "c": _NAME}
_COMPLEMENTS: Final = {"S": r" \t\n\r", "I": _NAME_START, "C": _NAME}


class Unsupported(DotrError, ValueError):
    """Raised for an ill-formed pattern, or one that RE2 cannot match in linear time."""


def unsupported_reason(pattern: str, flags: str = "") -> str:
    r"""The reason for which a pattern is unsupported, or an empty string.

    >>> unsupported_reason("^a+$", "i"), unsupported_reason(r"(a)\1")
    ('', 'back-references (\\1) are not supported: they cannot be matched in linear time')
    >>> unsupported_reason("(?<=a)b")
    'look-ahead and look-behind are not supported: they cannot be matched in linear time'
    """
    try:
        compiled(pattern, flags)
    except Unsupported as reason:
        return str(reason)
    return ""


_LONGEST: Final = 1 << 14
"""Bytes that a pattern of the stream may have, rewritten for RE2, which takes 10 µs a byte at worst."""

_MEMORY: Final = 1 << 20
"""Bytes that RE2 may take for a pattern of the stream."""

_INSTRUCTION: Final = 16
"""Bytes of an instruction of a compiled pattern, as counted."""


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: str) -> Any:
    """Compiles an XPath pattern of a program with its flags to an RE2 pattern. Raises
    `Unsupported`.
    """
    return _compiled(pattern, flags)


@lru_cache(maxsize=128)
def _of_stream(pattern: str, flags: str) -> tuple[Any, int]:
    """A pattern of the stream, compiled (None: it cannot be), and the bytes that it counts."""
    if len(pattern) > _LONGEST:
        return None, 0
    try:
        matcher = _compiled(pattern, flags, _LONGEST, _MEMORY)
    except Unsupported:
        return None, _MEMORY
    return matcher, len(pattern) + _INSTRUCTION * matcher.programsize


def _matcher(pattern: str, flags: str) -> Any:
    """A pattern of the stream, compiled; None where it is unsupported or over a limit."""
    known = BOUNDS.patterns
    key = (pattern, flags)
    if key not in known:
        matcher, size = _of_stream(pattern, flags) if BOUNDS.patterns_left > 0 else (None, 0)
        BOUNDS.patterns_left -= size
        known[key] = matcher if BOUNDS.patterns_left >= 0 else None
    return known[key]


def _matcher_of_program(pattern: str, flags: str) -> Any:
    try:
        return compiled(pattern, flags)
    except Unsupported:
        return None


def _compiled(pattern: str, flags: str, longest: int | None = None, memory: int | None = None) -> Any:
    for flag in flags:
        if flag not in "smixq":
            raise Unsupported(f"the flag {flag} is not one of s, m, i, x, q")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = "i" not in flags
    if memory is not None:
        options.max_mem = memory
    if "q" in flags:
        text = re2.escape(pattern)
    else:
        text = _rewritten(pattern, "x" in flags)
        inline = "".join(flag for flag in "sm" if flag in flags)
        text = f"(?{inline}){text}" if inline else text
    if longest is not None and len(text) > longest:
        raise Unsupported(f"the pattern has more than {longest:,} characters")
    try:
        return re2.compile(text, options)
    except re2.error as reason:
        cause = reason.args[0] if reason.args else ""
        raise Unsupported(f"the pattern is not understood: {cause.decode() if isinstance(cause, bytes) else cause}") from None


def _rewritten(pattern: str, spaced: bool) -> str:
    parts: list[str] = []
    position, depth = 0, 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\" and position < len(pattern):
            escape = pattern[position]
            position += 1
            parts.append(_escape(escape, pattern[position:], inside=depth > 0))
        elif depth:
            if char == "[":
                if parts[-1] == "-":
                    raise Unsupported("class subtraction ([a-z-[aeiou]]) is not supported; list the characters that remain")
                parts.append("\\[")
                continue
            depth -= char == "]"
            parts.append(char)
        elif char == "[":
            depth = 1
            parts.append(char)
            if pattern[position : position + 1] == "^":
                parts.append("^")
                position += 1
        elif char == "(" and (assertion := re.match(r"\?(<?[=!]|>)", pattern[position:])):
            raise Unsupported(
                "atomic groups are not supported"
                if assertion[1] == ">"
                else "look-ahead and look-behind are not supported: they cannot be matched in linear time"
            )
        elif not (spaced and char in " \t\n\r"):
            parts.append(char)
    return "".join(parts)


def _escape(char: str, rest: str, *, inside: bool) -> str:
    if char.isdigit():
        raise Unsupported(f"back-references (\\{char}) are not supported: they cannot be matched in linear time")
    if char in "pP" and rest.startswith("{Is"):
        raise Unsupported("Unicode blocks (\\p{Is…}) are not supported; use a script such as \\p{Greek}")
    if char in _CLASSES:
        members = _CLASSES[char]
        return members if inside else f"[{members}]"
    if char in _COMPLEMENTS:
        if inside:
            raise Unsupported(f"\\{char} inside a class is not supported; write the class the other way round")
        return f"[^{_COMPLEMENTS[char]}]"
    return f"\\{char}"


def regex(text: Value, pattern: Value, flags: Value = "", find_matcher: Callable[[str, str], Any] = _matcher) -> bool | None:
    """REGEX: tests whether the pattern matches somewhere in the text."""
    subject = text_of(text)
    if subject is None or type(pattern) is not str or type(flags) is not str:
        return None
    matcher = find_matcher(pattern, flags)
    return None if matcher is None else matcher.search(subject) is not None


def regex_of_program(text: Value, pattern: Value, flags: Value = "") -> bool | None:
    """REGEX with a pattern of the program."""
    return regex(text, pattern, flags, _matcher_of_program)


def replace_of_program(text: Value, pattern: Value, replacement: Value, flags: Value = "") -> StringValue | None:
    """REPLACE with a pattern of the program."""
    return replace(text, pattern, replacement, flags, _matcher_of_program)


def replace(
    text: Value, pattern: Value, replacement: Value, flags: Value = "", find_matcher: Callable[[str, str], Any] = _matcher
) -> StringValue | None:
    r"""REPLACE of every match; `$1` is a group, `$0` the match, `\$` and `\\` are literal.

    None (an error) for a pattern that matches the empty string and for an ill-formed replacement.

    >>> replace("abcd", "b", "Z"), replace("abcb", "(b)", "[$1]"), replace("a", "x*", "y"), replace("A", "a", "b", "i")
    ('aZcd', 'a[b]c[b]', None, 'b')
    """
    subject = text_of(text)
    if subject is None or type(pattern) is not str or type(replacement) is not str or type(flags) is not str:
        return None
    matcher = find_matcher(pattern, flags)
    if matcher is None or matcher.search("") is not None:
        return None
    template = [replacement] if "q" in flags else _replacement_parts(replacement, matcher.groups)
    if template is None:
        return None
    parts: list[str] = []
    end, remaining = 0, BOUNDS.characters
    for match in matcher.finditer(subject):
        start, stop = match.span()
        if start == stop:
            continue
        parts.append(subject[end:start])
        remaining -= start - end
        for piece in template:
            parts.append(piece if isinstance(piece, str) else match.group(piece) or "")
            remaining -= len(parts[-1])
            if remaining < 0:
                return None
        end = stop
    return with_tag_of(text, "".join(parts) + subject[end:])


def _replacement_parts(replacement: str, groups: int) -> list[str | int] | None:
    """The parts of a replacement: texts and numbers of groups.

    With 3 groups, `a$12` is `a`, group 1 and `2`. None if ill-formed (XPath FORX0004).
    """
    parts: list[str | int] = []
    position = 0
    while position < len(replacement):
        char = replacement[position]
        position += 1
        if char == "\\":
            if replacement[position : position + 1] not in ("\\", "$"):
                return None
            parts.append(replacement[position])
            position += 1
        elif char == "$":
            digits = re.match("[0-9]+", replacement[position:])
            if digits is None:
                return None
            group = digits[0]
            while len(group) > 1 and int(group) > groups:
                group = group[:-1]
            parts.append(int(group) if int(group) <= groups else "")
            position += len(group)
        else:
            plain = _PLAIN.match(replacement, position - 1)
            assert plain is not None
            parts.append(plain[0])
            position = plain.end()
    return parts


_PLAIN: Final = re.compile(r"[^\\$]+")
