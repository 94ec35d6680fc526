"""Failures of inputs that no file of the user causes, and that end a run."""

from __future__ import annotations

from dotr.errors.diagnostics import Diagnostic, DotrError


class InputFailed(DotrError):
    """Failure of an input that cannot be read further, with the reason as `diagnostic`.

    Before the first element it is raised as an error of the user (`Refused`); later the run fails.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.diagnostic = Diagnostic(code, message, None, hint)
        super().__init__(str(self.diagnostic))
