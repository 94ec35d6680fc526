"""Query of a REGISTER statement: the SELECT line and the pattern, parsed as SPARQL.

CONSTRUCT and ASK are parsed as `SELECT *` of their pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import AskForm, ConstructForm, QueryForm, SelectForm
from dotr.languages.continuous.text.statements import CONTINUOUS, TIMESTAMP_HINT, StatementSyntax
from dotr.model import dataclass
from dotr.model.algebra import Bgp, Const, Filter, MatchPattern, PathPattern, Pattern, Select, TriplePattern, Var, WindowBlock, is_hidden
from dotr.model.places import Span
from dotr.model.templates import Fresh, Template, leaves
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables, in_scope
from dotr.syntax.cursor import clipped
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.patterns import EMPTY_BGP
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.quoted_triples import merge_quoted_tokens
from dotr.syntax.sparql.tokens import MatchTokens, SparqlTokenKind, Token, TokenScan, scan
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.intervals.patterns import Edge, EventPattern, MatchBlock, Ordered, Outermost, PlainGroup, SequencePolicy, plain_groups

# MATCH of a continuous query: tokens to event patterns (continuous.md, section 7).
#
# Idea: recursive descent over the tokens between the braces. The group of each EVENT is parsed by the
# SPARQL grammar.


_MAX_EVENTS: Final = 64
"""Maximal number of EVENTs, FIRSTs and LASTs of a MATCH, which bounds the depth of its tree."""

_EVENT_HINT: Final = "An event is EVENT <w> { … }, FIRST or LAST of one, or several in parentheses, joined by SEQ."
_TRIPLES: Final = "An EVENT holds triple patterns and FILTERs."


def merge_match_tokens(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with each `MATCH { … }` of balanced braces as one token."""
    merged: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        is_match = token.kind is SparqlTokenKind.WORD and token.text.upper() == "MATCH"
        inner = position + 1
        is_consuming = is_match and _text(tokens, inner) == "CONSUMING"
        inner += is_consuming
        end = _closing(tokens, inner) if is_match and _text(tokens, inner) == "{" else None
        if end is None:
            merged.append(token)
            position += 1
            continue
        span = Span(token.span.document, token.span.start, tokens[end].span.end)
        value = MatchTokens(is_consuming, tuple(tokens[inner + 1 : end]))
        merged.append(Token(SparqlTokenKind.MATCH, token.text, span, value))
        position = end + 1
    return merged


def _text(tokens: Sequence[Token], position: int) -> str:
    return tokens[position].text.upper() if position < len(tokens) else ""


def _closing(tokens: Sequence[Token], opened: int) -> int | None:
    """The position of the brace that closes the one at `opened`; None without one."""
    depth = 0
    for position in range(opened, len(tokens)):
        if tokens[position].kind is SparqlTokenKind.MARK:
            depth += (tokens[position].text == "{") - (tokens[position].text == "}")
            if depth == 0:
                return position
    return None


def read_match(token: Token, scan: TokenScan, read_window: Callable[[Token], Term]) -> MatchBlock:
    """Return the MATCH of a merged token.

    - `scan`: that of the token's text, for prefixes and dialect.
    - `read_window`: checks the token of an EVENT's window, and returns its name.

    Raises `Refused` with all problems of the block.
    """
    assert isinstance(token.value, MatchTokens)
    reader = _EventReader(token, scan, token.value.tokens, read_window)
    events = reader.block()
    if reader.problems or events is None:
        raise Refused(reader.problems)
    return MatchBlock(events, token.value.is_consuming, _variables(events), token.span)


def _variables(events: EventPattern) -> tuple[Variable, ...]:
    """The variables of the mappings, in order of appearance, without blank nodes."""
    names = [name for group in plain_groups(events) for name in (*([group.time] if group.time else []), *in_scope(group.pattern))]
    return tuple(dict.fromkeys(name for name in names if not is_hidden(name)))


class _Stop(Exception):
    """Raised at a syntax error of MATCH, after its problem is recorded."""


@dataclass(slots=True)
class _EventReader:
    """Recursive descent over the tokens of one MATCH."""

    match: Token
    scan: TokenScan
    tokens: Sequence[Token]
    read_window: Callable[[Token], Term]
    position: int = 0
    events: int = 0
    problems: list[Diagnostic] = field(default_factory=list)

    def block(self) -> EventPattern | None:
        """The pattern of all tokens; None after a problem."""
        try:
            events = self._events()
            if self.position < len(self.tokens):
                self._unexpected("SEQ or }")
        except _Stop:
            return None
        return events

    def _events(self) -> EventPattern | None:
        """`EVENT (SEQ policy? EVENT)*`, joined from the left; None after a problem."""
        result = self._event()
        while self._take("SEQ"):
            policy = next((each for each in SequencePolicy if each.value and self._take(each.value)), SequencePolicy.UNRESTRICTED)
            right = self._event()
            result = None if result is None or right is None else Ordered(result, right, policy)
        return result

    def _event(self) -> EventPattern | None:
        self.events += 1
        if self.events > _MAX_EVENTS:
            self._problem("Q117", f"a MATCH of more than {_MAX_EVENTS} events", self.match.span, "Split it into several queries.")
            raise _Stop
        for edge in Edge:
            if self._take(edge.value):
                inner = self._event()
                return None if inner is None else Outermost(edge, inner)
        if self._take("("):
            events = self._events()
            if not self._take(")"):
                self._unexpected("SEQ or )")
            return events
        if not self._take("EVENT"):
            self._unexpected("EVENT, FIRST, LAST or (")
        return self._plain_group()

    def _plain_group(self) -> PlainGroup | None:
        start = self.tokens[self.position - 1].span.start
        name = self._next
        if name is None or name.kind is not SparqlTokenKind.IRI:
            self._unexpected("the name of a window")
        assert name is not None
        self.position += 1
        window = self.read_window(name)
        time: Token | None = None
        if self._take("AT"):
            time = self._next
            if time is None or time.kind is not SparqlTokenKind.VARIABLE:
                self._unexpected("a variable")
            self.position += 1
        if not self._take("{"):
            self._unexpected("{" if time else "{ or AT")
        end = _closing(self.tokens, self.position - 1)
        assert end is not None, "brackets are checked before"
        span = Span(name.span.document, start, self.tokens[end].span.end)
        inner = list(self.tokens[self.position : end])
        self.position = end + 1
        pattern = self._pattern(inner, span)
        if pattern is None:
            return None
        if time is not None and time.text[1:] in in_scope(pattern):
            hint = "AT binds a variable of its own; compare it in a FILTER beside MATCH."
            self._problem(WindowCode.TIME_IN_PATTERN, f"{time.text} is also a variable of the event's pattern", time.span, hint)
            return None
        return PlainGroup(window, pattern, None if time is None else time.text[1:], span)

    def _pattern(self, tokens: list[Token], span: Span) -> Pattern | None:
        """The pattern between an EVENT's braces; None after a problem."""

        def read(reading: QueryReader, node: grammar.ParseNode) -> Pattern:
            return self._checked(reading, node, span)

        try:
            inner = replace(self.scan, span=span, tokens=tokens, problems=[])
            return parse_tokens(inner, grammar.GROUP, read, no_references="in an EVENT", wrapper=("{ ", " }"), filters=_TRIPLES)
        except Refused as refused:
            self.problems += refused.diagnostics
            return None

    def _checked(self, reading: QueryReader, node: grammar.ParseNode, span: Span) -> Pattern:
        """The pattern of a group; all parts that an EVENT cannot have are reported."""
        parts = node.part or [] if node.name == "GroupGraphPatternSub" else [node]
        others = [part for part in parts if part.name not in ("TriplesBlock", "Filter")]
        for part in others:
            reading.problem(WindowCode.NO_TRIPLE_PATTERN, "an EVENT with other patterns", reading.span(part), _TRIPLES)
        if others:
            return EMPTY_BGP
        pattern = reading.where(node)
        triples = pattern.pattern if isinstance(pattern, Filter) else pattern
        assert isinstance(triples, Bgp)
        if any(isinstance(item, PathPattern) for item in triples.patterns):
            reading.problem(WindowCode.NO_TRIPLE_PATTERN, "a property path in an EVENT", span, "Write triple patterns, or a WINDOW block.")
        elif not any(isinstance(item, TriplePattern) for item in triples.patterns):
            hint = "Write a triple pattern; for the time alone: EVENT <w> AT ?t { ?s ?p ?o }."
            reading.problem(WindowCode.NO_TRIPLE_PATTERN, "an EVENT without a triple pattern", span, hint)
            return triples
        known = in_scope(triples)
        for condition, place in reading.condition_places.items():
            for name in [each for each in free_variables(condition) if each not in known]:
                hint = "A FILTER of an EVENT can use the variables of its own triples only. Write it beside MATCH, behind its }."
                reading.problem(WindowCode.FOREIGN_VARIABLE, f"?{name} is no variable of this EVENT", place, hint)
        return pattern

    @property
    def _next(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _take(self, text: str) -> bool:
        token = self._next
        if token is None or token.kind not in (SparqlTokenKind.WORD, SparqlTokenKind.MARK) or token.text.upper() != text:
            return False
        self.position += 1
        return True

    def _unexpected(self, expected: str) -> None:
        token = self._next
        end = self.match.span.end
        span = Span(self.match.span.document, end - 1, end) if token is None else token.span
        found = "the block ends" if token is None else f"found {token.text}"
        self._problem(WindowCode.UNEXPECTED, f"expected {expected}, {found}", span, _EVENT_HINT)
        raise _Stop

    def _problem(self, code: str, message: str, span: Span, hint: str) -> None:
        self.problems.append(Diagnostic(code, message, span, hint))


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
