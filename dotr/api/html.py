"""Fragments of HTML for notebooks: tables and text, without scripts, styles and links.

Invariant: all content is escaped here, control characters and invisible ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Final

from dotr.errors.terminal import escape_controls

MOST_ROWS: Final = 50
"""The largest number of rows that a table shows."""


def escaped(text: str) -> str:
    r"""Text as the content of an element.

    >>> escaped("a < b\x1b")
    'a &lt; b\\u001b'
    """
    return escape(escape_controls(text))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    """A table of the first `MOST_ROWS` of `count` rows, and the number of further rows.

    >>> table(["time"], [["12"], ["<"]], 2)
    '<table class="dotr"><thead><tr><th>time</th></tr></thead><tbody><tr><td>12</td></tr><tr><td>&lt;</td></tr></tbody></table>'
    """
    shown = [_row("td", row) for row in islice(rows, MOST_ROWS)]
    if count > MOST_ROWS:
        shown.append(f'<tr><td colspan="{len(head)}">… and {count - MOST_ROWS:,} more</td></tr>')
    return f'<table class="dotr"><thead>{_row("th", head)}</thead><tbody>{"".join(shown)}</tbody></table>'


def paragraph(text: str) -> str:
    """A paragraph.

    >>> paragraph("no events")
    '<p>no events</p>'
    """
    return f"<p>{escaped(text)}</p>"


def preformatted(text: str) -> str:
    """Text with its line breaks and spaces.

    >>> preformatted("a\\n  b")
    '<pre>a\\n  b</pre>'
    """
    return f"<pre>{escaped(text)}</pre>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escaped(cell)}</{tag}>' for cell in cells)}</tr>"
