r"""Output to a terminal: the only place that writes to standard output and standard error.

A file name, a header, a rule test or a dead letter may hold control characters, which a terminal
would execute (colours, title, overwritten lines). Each is printed as its escape, `\u001b`. JSON,
Turtle and N-Triples decode it to the same character, so printed JSON and terms stay valid. Sinks
write their data unchanged, without this module.
"""

from __future__ import annotations

import re
import sys
from typing import IO, Final

_CONTROLS: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f"  # C0 without tab and line feed
    "\x7f-\x9f"  # DEL and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # line and paragraph separators, byte order mark, annotations
    "\ud800-\udfff"  # bytes of a file name that are no UTF-8
    "\U000e0000-\U000e007f"  # tags
    "]"
)


def escape_controls(text: str) -> str:
    r"""Return the text with an escape for each control character, except line feed and tab.

    >>> print(escape_controls("a\x1b[31m.csv \x9b1m\u202e\r\udcff and two\nlines"))
    a\u001b[31m.csv \u009b1m\u202e\u000d\udcff and two
    lines
    """
    return _CONTROLS.sub(_escape, text)


def escape_line(text: str) -> str:
    r"""Return the text with line feeds escaped as well, for content within a line.

    >>> print(escape_line("a\nb.csv"))
    a\u000ab.csv
    """
    return escape_controls(text).replace("\n", "\\u000a")


def mask_controls(text: str) -> str:
    r"""Return the text with each control character replaced by one printable character.

    >>> mask_controls("a\x1bb\u202e")
    'a\ufffdb\ufffd'
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def stderr_is_terminal() -> bool:
    """True if standard error is a terminal, not a file or a pipe."""
    return sys.stderr.isatty()


def print_stderr(text: str) -> None:
    """Print one or several lines to standard error."""
    if sys.stderr is not None:
        _print(text, sys.stderr)


def print_stdout(text: str) -> None:
    """Print one or several lines to standard output."""
    _print(text, sys.stdout)


def _print(text: str, stream: IO[str]) -> None:
    line = escape_controls(text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
