"""MATCH of a continuous query: tokens to event patterns (continuous.md, section 7).

Idea: recursive descent over the tokens between the braces. The group of each EVENT is parsed by the
SPARQL grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.languages.continuous.codes import WindowCode
from dotr.model.algebra import Bgp, Filter, PathPattern, Pattern, TriplePattern, is_hidden
from dotr.model.places import Span
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables, in_scope
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.patterns import EMPTY_BGP
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.tokens import MatchTokens, SparqlTokenKind, Token, TokenScan
from dotr.temporal.intervals.patterns import Edge, EventPattern, MatchBlock, Ordered, Outermost, PlainGroup, SequencePolicy, plain_groups

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
