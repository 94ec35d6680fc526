"""Dead letters as text: one JSON line each (semantics.md, section 6)."""

from __future__ import annotations

import json

from dotr.expressions.times import written
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock


def letter_line(letter: DeadLetter, clock: Clock) -> str:
    r"""The line of a dead letter, without its line end. Why it is one is for the log, and in the line only where a stage has failed or a
    limit is exceeded.

    >>> print(letter_line(DeadLetter(Reason.UNREADABLE, "in", "a.csv", 7, None, 'x,"y', "a quote is never closed"), Clock()))
    {"reason": "unreadable", "input": "in", "file": "a.csv", "line": 7, "time": null, "text": "x,\"y"}
    """
    failed = {"error": letter.why} if letter.reason in (Reason.FAILED, Reason.LIMIT) else {}
    return json.dumps(
        {
            "reason": letter.reason.value,
            "input": letter.input,
            "file": letter.file,
            "line": letter.line,
            "time": None if letter.time is None else written(letter.time, clock),
            "text": letter.text,
            **failed,
        },
        ensure_ascii=False,
    )
