"""Results of compiling files of a language: the valid statements, and all diagnostics."""

from __future__ import annotations

from typing import Self

from dotr.errors.diagnostics import Diagnostic, Refused, Severity


class CheckedFiles:
    """Base of compilation results: dataclasses with `diagnostics`, ordered by file and offset."""

    __slots__ = ()

    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(each for each in self.diagnostics if each.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are warnings."""
        return tuple(each for each in self.diagnostics if each.severity is Severity.WARNING)

    def checked(self) -> Self:
        """Return this result unchanged. Raises `Refused` with all errors if there are any."""
        if self.errors:
            raise Refused(self.errors)
        return self
