"""Errors of Spark's processes as errors of dotr.

Spark passes an exception of a Python worker on as text, within traces of two languages. Diagnostics
of dotr are encoded in that text between two marks, and decoded on the driver. The cause of any
other error is the last line of its innermost trace.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from dotr.errors.diagnostics import Diagnostic, DotrError, InputFailed, Refused, Severity
from dotr.model.places import Document, Span
from dotr.runtimes.monitoring.totals import InputLost, RunFailed

P = ParamSpec("P")
R = TypeVar("R")

_LASTING: Final = "lasting "
_MARKED: Final = re.compile(r"<<<dotr (.*?) dotr>>>", re.DOTALL)
_PYTHON: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt)): ?(.*)$", re.MULTILINE)
_JVM: Final = re.compile(r"^(?:Caused by: )?(?:\w+\.)+(\w+(?:Error|Exception)): ?(.*)$", re.MULTILINE)


_WORKER_LOSS: Final = re.compile(r"EOFException|[Cc]onnection reset|Broken pipe|Python worker (?:exited|failed)|Failed to (?:bind|connect)")

DISK_FULL: Final = "No space left on device"
JVM_LOST: Final = "its JVM was lost: was it killed, or out of memory?"
_WORKER_LOST: Final = "a Python process that it had started was lost: was it killed, or out of memory?"
_WORKER_LATE: Final = "a Python process that it had started was not ready within its limit: is the machine busy?"
_LATE: Final = re.compile(
    r"Timed out while waiting for the Python worker to connect back"
    r"|Python worker failed to connect back\..*SocketTimeoutException",
    re.DOTALL,
)
"""Spark's messages where a process has not connected, or not shown its secret, in time: 10 s each
for the planner and the driver's worker of the state, 60 s for a daemon that forks a worker. They
are constants of Spark."""


class CarriedDiagnostics(DotrError):
    """Raised in Spark's processes; its text has encoded diagnostics for the driver."""


def carrying_diagnostics(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that turns Refused and InputFailed into CarriedDiagnostics."""

    @functools.wraps(function)
    def carrying(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Refused as refused:
            raise CarriedDiagnostics(encode_diagnostics(refused)) from None
        except InputFailed as failed:
            raise CarriedDiagnostics(encode_diagnostics(Refused([failed.diagnostic]), lasting=True)) from None

    return carrying


def encode_diagnostics(refused: Refused, *, lasting: bool = False) -> str:
    """Diagnostics as ASCII text between marks; the inverse of `decode_diagnostics`. `lasting`: they
    report the failure of an input, not an error of the user."""
    listed = [
        [
            d.code,
            d.message,
            d.hint,
            d.severity.value,
            [d.span.document.name, d.span.document.text, d.span.start, d.span.end] if d.span else None,
        ]
        for d in refused.diagnostics
    ]
    mark = _LASTING if lasting else ""
    return f"<<<dotr {mark}{json.dumps(listed).replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')} dotr>>>"


def decode_diagnostics(text: str) -> Refused | None:
    """The diagnostics in a text; None where there are none.

    >>> text = "Traceback …" + encode_diagnostics(Refused([Diagnostic("S1", "no <such> thing")])) + "at java.lang.Thread"
    >>> decode_diagnostics(text).diagnostics[0].message
    'no <such> thing'
    """
    found = _MARKED.search(text)
    if found is None:
        return None
    return Refused(
        Diagnostic(code, message, Span(Document(span[0], span[1]), span[2], span[3]) if span else None, hint, Severity(severity))
        for code, message, hint, severity, span in json.loads(found[1].removeprefix(_LASTING))
    )


def failure_of(text: str, log: Path) -> Refused | RunFailed:
    r"""The error of a failed query for the user, from Spark's message and the path of the log.

    >>> print(failure_of("Traceback\n  File x\nValueError: no such thing\n\tat org.apache.Spark", Path("ck/spark.log")))
    Spark stopped: ValueError: no such thing (the log is ck/spark.log)
    """
    refused = decode_diagnostics(text)
    if refused is not None:
        return InputLost(str(refused)) if f"<<<dotr {_LASTING}" in text else refused
    if DISK_FULL in text:
        where = f"the checkpoint {log.parent} or of Spark's local directories (spark.local.dir)"
        return RunFailed(
            f"{DISK_FULL.lower()}: the disk of {where} is full (once there is room, the same command goes on; the log is {log})"
        )
    return RunFailed(f"Spark stopped: {_cause(text)} (the log is {log})")


def is_late_worker(text: str) -> bool:
    r"""True if Spark gave up a Python process that took too long to start.

    >>> is_late_worker("SocketTimeoutException: Timed out while waiting for the Python worker to connect back")
    True
    >>> is_late_worker("Python worker failed to connect back.\nCaused by: java.net.SocketTimeoutException: Read timed out")
    True
    >>> is_late_worker("Python worker failed to connect back.\nCaused by: java.io.EOFException")
    False
    """
    return _LATE.search(text) is not None


def _cause(text: str) -> str:
    r"""The cause in a message of Spark, on one line of at most 300 characters.

    >>> _cause("Query terminated with exception:\njava.io.EOFException\n\tat java.io.DataInputStream")
    'a Python process that it had started was lost: was it killed, or out of memory?'
    """
    if text == JVM_LOST:
        return text
    if is_late_worker(text):
        return _WORKER_LATE
    if _WORKER_LOSS.search(text) and not _PYTHON.search(text):
        return _WORKER_LOST
    causes = _PYTHON.findall(text) or _JVM.findall(text)
    name, message = next(((n, m) for n, m in reversed(causes) if m), ("", "")) if causes else ("", "")
    line = f"{name}: {message}" if name else next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return line if len(line) <= 300 else line[:299] + "…"
