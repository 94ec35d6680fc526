"""Dead letters as text: one JSON line each (semantics.md, section 6)."""

from __future__ import annotations

import json

from dotr.expressions.times import format_time
from dotr.model.stream import DeadLetter
from dotr.model.time import Clock


def dead_letter_line(dead_letter: DeadLetter, clock: Clock) -> str:
    r"""JSON line of a dead letter, without its line end; `error` is the reason in words, `encoding` is
    there where the text is one of bytes.

    >>> from dotr.model.stream import Reason
    >>> print(dead_letter_line(DeadLetter(Reason.UNREADABLE, "in", "a.csv", 7, None, 'x,"y', "a quote is never closed"), Clock()))
    {"reason": "unreadable", "input": "in", "file": "a.csv", "line": 7, "time": null, "text": "x,\"y", "error": "a quote is never closed"}
    """
    return json.dumps(
        {
            "reason": dead_letter.reason.value,
            "input": dead_letter.input,
            "file": dead_letter.file,
            "line": dead_letter.line,
            "time": None if dead_letter.time is None else format_time(dead_letter.time, clock),
            "text": dead_letter.text,
            **({"encoding": dead_letter.encoding} if dead_letter.encoding else {}),
            "error": dead_letter.why,
        },
        ensure_ascii=False,
    )
