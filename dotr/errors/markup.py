"""HTML built from elements; all text is escaped.

Invariant: only `Markup` reaches a page unescaped, and this module alone makes it, of element names
and attributes of the code and of escaped text. The content of streams is text.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TypeAlias

from dotr.errors.terminal import escape_controls


class Markup(str):
    """HTML, in contrast to text."""

    __slots__ = ()


Child: TypeAlias = Markup | str
"""Content of an element: HTML as it is, or text that is to be escaped."""

_VOID = frozenset(["meta", "link", "br", "input"])


def markup(child: Child) -> Markup:
    r"""HTML of text, or HTML unchanged. Control characters are shown as escapes.

    >>> markup("</script>"), markup(Markup("<br>")), markup("a\u202eb")
    ('&lt;/script&gt;', '<br>', 'a\\u202eb')
    """
    return child if isinstance(child, Markup) else Markup(escape(escape_controls(child)))


def element(name: str, /, *children: Child, **attributes: str | bool) -> Markup:
    """An element. Names of attributes end in `_` where Python reserves them; `_` inside is `-`.

    >>> element("p", "1 < 2", class_="note", hidden=True, aria_label='say "x"')
    '<p class="note" hidden aria-label="say &quot;x&quot;">1 &lt; 2</p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{markup(value)}"')
        for key, value in attributes.items()
        if value is not False
    )
    return Markup(f"<{name}{written}>" + ("" if name in _VOID else f"{join(*children)}</{name}>"))


def join(*children: Child) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(map(markup, children)))


def source_hash(text: str) -> str:
    """The source of a Content-Security-Policy for a script or style with this text.

    >>> source_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
