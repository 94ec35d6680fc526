"""Failures of inputs that no file of the user causes: what a run cannot go on from."""

from __future__ import annotations

from dotr.errors.diagnostics import Diagnostic, DotrError


class InputFailed(DotrError):
    """An input that cannot be read any further, with a `diagnostic` that says why.

    Before the first element it is an error of the user's (`Refused`); later the run fails.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.diagnostic = Diagnostic(code, message, None, hint)
        super().__init__(str(self.diagnostic))
