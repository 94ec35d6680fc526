"""Texts of outputs: one file in process, a file for each batch on Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dotr.model.stream import Firing
from dotr.streams.sinks.messages import Encoder, MessageFormat, event_encoder, numbering

_PREFIXES: Final = re.compile(r"(?:@prefix [^\n]*\n)*")


def joined(files: Iterable[Path]) -> str:
    """The text of an output. The prefixes with which every file in TriG begins are kept once."""
    texts = [text for file in files if (text := file.read_text(encoding="utf-8"))]
    headers = [found[0] for text in texts if (found := _PREFIXES.match(text))]
    assert len(set(headers)) <= 1, set(headers)
    return "".join([*headers[:1], *[text[len(header) :] for header, text in zip(headers, texts, strict=True)]])


def numbering_encoder(format: MessageFormat) -> Encoder[Firing]:
    """The encoder of an output that has all events, with the ordinals that the run gives them."""
    encode, number = event_encoder(format), numbering()
    return lambda firings: encode(number(firings))
