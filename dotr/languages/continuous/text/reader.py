"""Reader of the query of a REGISTER statement: SPARQL with WINDOW blocks and MATCH."""

from __future__ import annotations

from collections.abc import Mapping

from dotr.errors.diagnostics import Refused, did_you_mean
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.text.events import read_match
from dotr.model.algebra import Const, MatchPattern, Pattern, WindowBlock
from dotr.model.places import Span
from dotr.model.terms import Term
from dotr.syntax.cursor import clipped
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.patterns import EMPTY_BGP
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.tokens import SparqlTokenKind, Token, TokenScan
from dotr.temporal.intervals.patterns import MatchBlock


class ContinuousReader(QueryReader):
    """Reader of a continuous query's tree.

    - `windows`: the named windows of the query, with their places.
    - `is_complete`: no FROM clause has an error, so a name that is not in `windows` is undeclared.
    - `matches`: the MATCH blocks read so far.
    """

    shows_keys = True

    def __init__(self, scan: TokenScan, no_references: str, windows: Mapping[Term, Span], is_complete: bool) -> None:
        super().__init__(scan, no_references)
        self.windows = windows
        self.is_complete = is_complete
        self.matches: list[MatchBlock] = []
        self._is_in_window = False

    def window_or_match(self, node: ParseNode) -> Pattern:
        """Return the pattern of a WINDOW block or of MATCH."""
        token = self.token(node.term)
        assert token is not None
        return self._match(token) if token.kind is SparqlTokenKind.MATCH else self._window(token, node)

    def _window(self, token: Token, node: ParseNode) -> Pattern:
        if self._is_in_window:
            hint = "Close the outer block first: WINDOW <a> { … } WINDOW <b> { … }."
            self.problem(WindowCode.WINDOW_IN_WINDOW, "a WINDOW inside a WINDOW", token.span, hint)
        window = self.window(token)
        self._is_in_window, outer = True, self._is_in_window
        pattern = self.nested_group("in a WINDOW", node.graph)
        self._is_in_window = outer
        return WindowBlock(window, pattern)

    def window(self, token: Token) -> Term:
        """Return the name of a window; report one that the query does not declare."""
        if not isinstance(token.value, Const) or token.kind is not SparqlTokenKind.IRI:
            hint = f"Write the name of a window: {self._declared_names()}."
            self.problem(WindowCode.UNKNOWN_WINDOW, f"{token.text} is no window", token.span, hint)
            return "<>"
        window = token.value.term
        if window not in self.windows and self.is_complete:
            names = {place.text: name for name, place in self.windows.items()}
            hint = did_you_mean(token.text, list(names)) or f"Declared: {self._declared_names()}."
            self.problem(WindowCode.UNKNOWN_WINDOW, f"the query declares no window {clipped(token.text)}", token.span, hint)
        return window

    def _declared_names(self) -> str:
        """The first 20 windows of the query for a hint, or how to declare one."""
        return (
            ", ".join(clipped(place.text) for place in list(self.windows.values())[:20])
            or "FROM NAMED WINDOW <w> ON <stream> [RANGE 10s] declares one"
        )

    def _match(self, token: Token) -> Pattern:
        if self.no_references:
            hint = "Write it directly between the braces of WHERE; join it with other patterns by common variables."
            self.problem(WindowCode.MISPLACED_MATCH, "MATCH is allowed directly in the WHERE group only", token.span, hint)
        try:
            block = read_match(token, self.scan, self.window)
        except Refused as refused:
            self.problems += refused.diagnostics
            return EMPTY_BGP
        self.matches.append(block)
        return MatchPattern(len(self.matches) - 1, block.variables)
