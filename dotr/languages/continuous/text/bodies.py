"""Query of a REGISTER statement: the SELECT line and the pattern, parsed as SPARQL.

CONSTRUCT and ASK are parsed as `SELECT *` of their pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import AskForm, ConstructForm, QueryForm, SelectForm
from dotr.languages.continuous.text.events import merge_match_tokens, read_match
from dotr.languages.continuous.text.keywords import CONTINUOUS, TIMESTAMP_HINT
from dotr.languages.continuous.text.statements import StatementSyntax
from dotr.model.algebra import Const, MatchPattern, Pattern, Select, Var, WindowBlock
from dotr.model.places import Span
from dotr.model.templates import Fresh, Template, leaves
from dotr.model.terms import Term
from dotr.syntax.cursor import clipped
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.patterns import EMPTY_BGP
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.quoted_triples import merge_quoted_tokens
from dotr.syntax.sparql.tokens import SparqlTokenKind, Token, TokenScan, scan
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.intervals.patterns import MatchBlock


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A parsed query."""

    form: QueryForm
    matches: tuple[MatchBlock, ...]


def read_body(statement: StatementSyntax) -> ParsedBody | None:
    """Return the query of a statement; None after recorded problems."""
    if statement.body is None or statement.form_span is None:
        return None
    tokens = _tokens(statement, statement.body, statement.form_span)
    windows = {window.name: window.name_span for window in statement.windows if window.name is not None and window.name_span is not None}
    try:
        query, reader = _parse(tokens, windows, statement.is_complete)
    except Refused as refused:
        statement.scan.problems += refused.diagnostics
        if statement.template is not None:
            _template(statement, statement.template)
        return None
    match statement.form:
        case "SELECT":
            return ParsedBody(SelectForm(query), tuple(reader.matches))
        case "ASK":
            return ParsedBody(AskForm(query), tuple(reader.matches))
    template = _template(statement, statement.template or _short_template(tokens))
    if template is None:
        return None
    _check_template(statement, template, query)
    return ParsedBody(ConstructForm(template, query), tuple(reader.matches))


def _parse(tokens: TokenScan, windows: Mapping[Term, Span], is_complete: bool) -> tuple[Select, ContinuousReader]:
    """The query, and the reader of the tree, which holds its MATCH blocks. Raises `Refused`."""
    readers: list[ContinuousReader] = []

    def reader(scan_: TokenScan, no_references: str) -> ContinuousReader:
        readers.append(ContinuousReader(scan_, no_references, windows, is_complete))
        return readers[-1]

    def read(reading: QueryReader, node: grammar.ParseNode) -> Select:
        return reading.select(node, top=True)

    query = parse_tokens(tokens, grammar.QUERY, read, no_references="", reader=reader)
    return query, readers[0]


def _tokens(statement: StatementSyntax, body: Span, form: Span) -> TokenScan:
    """The tokens of the SELECT line and the pattern, without the FROM clauses between them."""
    prefixes, base = statement.scan.prefixes, statement.scan.base
    rest = scan(body, prefixes, CONTINUOUS, base)
    if statement.form == "SELECT":
        head = scan(statement.line, prefixes, CONTINUOUS, base) if statement.line else None
        first = [Token(SparqlTokenKind.WORD, "SELECT", form), *(head.tokens if head else [])]
        problems = head.problems if head else []
    else:
        first = [Token(SparqlTokenKind.WORD, "SELECT", form), Token(SparqlTokenKind.MARK, "*", form)]
        problems = []
    tokens = [*first, *rest.tokens]
    result = replace(rest, span=Span(body.document, form.start, body.end), tokens=tokens, problems=[*problems, *rest.problems])
    if any(problem.code == WindowCode.OTHER_SYNTAX for problem in result.problems):
        # The rest of a CQELS-QL STREAM clause is not SPARQL either: report the clause once.
        result.problems[:] = [problem for problem in result.problems if problem.code not in ("Q101", "Q103", "Q105", "Q108")]
    _check_functions(result)
    if not result.problems:
        merge_quoted_tokens(result)
    if not result.problems:
        result.tokens[:] = merge_match_tokens(result.tokens)
    return result


def _check_functions(tokens: TokenScan) -> None:
    """Report C-SPARQL's `f:timestamp(…)`."""
    for token, following in zip(tokens.tokens, tokens.tokens[1:], strict=False):
        name = token.value.term.lower() if isinstance(token.value, Const) and token.kind is SparqlTokenKind.IRI else ""
        if following.text == "(" and name.endswith(("timestamp>", "timestamp")):
            tokens.problems.append(Diagnostic(WindowCode.TIMESTAMP, f"{token.text}() is C-SPARQL's", token.span, TIMESTAMP_HINT))


def _short_template(tokens: TokenScan) -> Span:
    """The place of the template of `CONSTRUCT WHERE { … }`, between the braces of WHERE."""
    opened = next(token for token in tokens.tokens if token.text == "{")
    closed = next(token for token in reversed(tokens.tokens) if token.text == "}")
    return Span(opened.span.document, opened.span.end, closed.span.start)


_NO_FRESH: Final = "A new node is written [] or _:b: it is new for each solution."


def _template(statement: StatementSyntax, span: Span) -> Template | None:
    """The template in a span; None after recorded problems."""
    scan_ = statement.scan
    try:
        template = parse_template(span, scan_.prefixes, base=scan_.base)
    except Refused as refused:
        scan_.problems += refused.diagnostics
        return None
    names = [leaf.name for leaf in leaves(template) if isinstance(leaf, Fresh)]
    if names:
        scan_.report("T105", f"{names[0]} in CONSTRUCT", span.start, span.end, _NO_FRESH)
        return None
    return template


def _check_template(statement: StatementSyntax, template: Template, query: Select) -> None:
    """Report variables that the pattern cannot bind."""
    assert statement.form_span is not None
    place = statement.template or statement.form_span
    for name in dict.fromkeys(leaf.name for leaf in leaves(template) if isinstance(leaf, Var)):
        if name not in query.projection:
            shown = ", ".join(f"?{each}" for each in query.projection) or "no variable"
            span = _variable_place(place, name)
            hint = f"Its triples would always be dropped. WHERE binds {shown}."
            statement.scan.report(WindowCode.UNBOUND_IN_TEMPLATE, f"WHERE cannot bind ?{name}", span.start, span.end, hint)


def _variable_place(place: Span, name: str) -> Span:
    """The first occurrence of a variable in a part of a text; the whole part if there is none."""
    for mark in "?$":
        at = place.document.text.find(mark + name, place.start, place.end)
        if at >= 0:
            return Span(place.document, at, at + len(name) + 1)
    return place


# Reader of the query of a REGISTER statement: SPARQL with WINDOW blocks and MATCH.


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
