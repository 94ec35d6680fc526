"""Parser of SPARQL 1.1 SELECT queries and expressions, with the triple terms of SPARQL 1.2.

The result is `dotr.model.algebra`. Expressions may also have `M.?v` and `time(M)`, attributes and
times of the events of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from pyparsing import ParserElement

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.expressions.functions import FUNCTIONS
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Expression, Extend, Filter, Group, Join, Pattern, Select, TimeOf, Values
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.traverse import depth, free_variables
from dotr.syntax.sparql import grammar
from dotr.syntax.sparql.expressions import time_unit, unit_of_times
from dotr.syntax.sparql.keywords import FUNCTION_SYNONYMS, REFUSED_KEYWORDS
from dotr.syntax.sparql.queries import QueryReader, event_references
from dotr.syntax.sparql.quoted_triples import merge_quoted_tokens, with_quoted_parts
from dotr.syntax.sparql.tokens import SparqlTokenKind, Token, TokenScan, placeholder_text, scan

__all__ = [
    "ConditionPlaces",
    "Reference",
    "event_references",
    "parse_expression",
    "parse_filters",
    "parse_select",
    "parse_tokens",
    "scan_references",
    "split_constraints",
    "time_unit",
    "unit_of_times",
]


@dataclass(frozen=True, slots=True)
class Reference:
    """`M.?v`, or `time(M)` where `variable` is None, with its span."""

    label: Label
    variable: Variable | None
    span: Span


ConditionPlaces: TypeAlias = dict[Expression, Span]
"""The span of each conjunct of a FILTER."""


def parse_select(span: Span, prefixes: Prefixes, places: ConditionPlaces | None = None) -> Select:
    """Return the SELECT query of a span; raises `Refused`.

    Temporal constraints remain conditions of the WHERE group (see `split_constraints`). The spans
    of all conjuncts of FILTERs are added to `places`.
    """
    tokens = tokenize(span, prefixes)
    if not tokens.tokens:
        raise Refused(tokens.problems) if tokens.problems else refuse("Q106", "there is no query here", span, "Write SELECT … WHERE { … }.")

    def read(reading: QueryReader, node: grammar.ParseNode) -> Select:
        select = reading.select(node, top=True)
        if places is not None:
            places.update(reading.condition_places)
        return select

    return parse_tokens(tokens, grammar.QUERY, read, no_references="")


def parse_expression(span: Span, prefixes: Prefixes, places: ConditionPlaces | None = None, *, is_of_rule_set: bool = False) -> Expression:
    """Return an expression of `if`, `with` or a Datalog body.

    Raises `Refused`, also for EXISTS and aggregates. The spans of its conjuncts are added to
    `places`.

    >>> from dotr.model.places import Document
    >>> text = "?speed < 0.6 * Last.?speed"
    >>> parse_expression(Span(Document("", text), 0, len(text)), {}).function
    '<'
    """
    tokens = tokenize(span, prefixes)
    if not tokens.tokens:
        raise Refused(tokens.problems) if tokens.problems else refuse("Q101", "an expression is missing", span)

    def read(reading: QueryReader, node: grammar.ParseNode) -> Expression:
        reading.is_of_rule_set = is_of_rule_set
        reading.no_exists = "in an expression outside a query"
        reading.no_aggregates = "An aggregate of events is a separate clause: and ?x = avg(E.?v) of E … within …"
        expression = reading.expression(node)
        if places is not None:
            places.update({reading.expression(part): reading.span(part) for part in reading.conjuncts(node)})
        return expression

    return parse_tokens(tokens, grammar.EXPRESSION, read, no_references="")


_FILTERS: Final = "Conditions after a label are written [ FILTER(…) ]; a query of the rule's own is Label = [ SELECT … ]."


def parse_filters(span: Span, prefixes: Prefixes, places: ConditionPlaces | None = None) -> tuple[Expression, ...]:
    """Return the conditions of `FILTER(…) FILTER(…)` after the label of an event.

    An empty text has none. Raises `Refused`. The spans of the conjuncts are added to `places`.
    """
    tokens = tokenize(span, prefixes)
    if not tokens.tokens and not tokens.problems:
        return ()

    def read(reading: QueryReader, node: grammar.ParseNode) -> tuple[Expression, ...]:
        reading.no_exists = "in a condition on an event"
        parts = node.part or [] if node.name == "GroupGraphPatternSub" else [node]
        for part in parts:
            if part.name != "Filter":
                reading.problem("Q101", "only FILTERs are allowed here", reading.span(part), _FILTERS)
        nodes = [node for part in parts if part.name == "Filter" for node in reading.conjuncts(part.expr)]
        conditions = [(reading.expression(node), reading.span(node)) for node in nodes]
        if places is not None:
            places.update(conditions)
        return tuple([condition for condition, _ in conditions])

    return parse_tokens(tokens, grammar.GROUP, read, no_references="", wrapper=("{ ", " }"))


@lru_cache(maxsize=64)
def scan_references(span: Span) -> tuple[Reference, ...]:
    """Return every `M.?v` and `time(M)` of a span, in the order of the text; never raises."""
    references: list[Reference] = []
    for token in with_quoted_parts(tokenize(span, {}).tokens):
        match token.value:
            case Attribute(label, name):
                references.append(Reference(label, name, token.span))
            case TimeOf(label):
                references.append(Reference(label, None, token.span))
    return tuple(references)


def split_constraints(query: Select, outer: Collection[Variable] = ()) -> tuple[Select, tuple[Expression, ...]]:
    """Return the query without its temporal constraints, and the constraints (semantics.md, 3).

    A temporal constraint is a conjunct of the WHERE group that reads another event, or a variable
    of `outer`: variables that are bound outside the query.
    """
    pattern, constraints = _split_pattern(query.pattern, frozenset(outer))
    return Select(query.projection, pattern, query.distinct, query.order, query.offset, query.limit), constraints


def _split_pattern(pattern: Pattern, outer: frozenset[Variable]) -> tuple[Pattern, tuple[Expression, ...]]:
    """Split the WHERE pattern, below the nodes of solution modifiers around it."""

    def temporal(condition: Expression) -> bool:
        return bool(event_references(condition) or not outer.isdisjoint(free_variables(condition)))

    match pattern:
        case Filter(inner, conditions) if not isinstance(inner, Group) and any(map(temporal, conditions)):
            remaining = tuple(c for c in conditions if not temporal(c))
            return Filter(inner, remaining) if remaining else inner, tuple(c for c in conditions if temporal(c))
        case Filter(inner, conditions):
            inner, constraints = _split_pattern(inner, outer)
            return Filter(inner, conditions), constraints
        case Extend(inner, variable, expression):
            inner, constraints = _split_pattern(inner, outer)
            return Extend(inner, variable, expression), constraints
        case Group(inner, keys, aggregates):
            inner, constraints = _split_pattern(inner, outer)
            return Group(inner, keys, aggregates), constraints
        case Join(inner, Values() as values):
            inner, constraints = _split_pattern(inner, outer)
            return Join(inner, values), constraints
        case _:
            return pattern, ()


def tokenize(span: Span, prefixes: Prefixes) -> TokenScan:
    """Return the tokens of a span, with quoted triples merged."""
    tokens = scan(span, prefixes)
    if not tokens.problems:
        merge_quoted_tokens(tokens)
    return tokens


_Result = TypeVar("_Result", Select, Expression, tuple[Expression, ...], Pattern)


def parse_tokens(
    tokens: TokenScan,
    element: ParserElement,
    read: Callable[[QueryReader, grammar.ParseNode], _Result],
    *,
    no_references: str,
    wrapper: tuple[str, str] = ("", ""),
    reader: type[QueryReader] | Callable[[TokenScan, str], QueryReader] = QueryReader,
    filters: str | None = None,
) -> _Result:
    """Return the result of `read` on the tree of the tokens; raises `Refused` with all problems.

    - `element`: the grammar rule of the whole text.
    - `wrapper`: text before and after the placeholders, such as braces around filters.
    - `no_references`: as in `ExpressionReader`.
    - `reader`: constructor of the reader of the tree.
    - `filters`: hint for a syntax error in a group; by default that of conditions on an event.
    """
    if tokens.problems:
        raise Refused(tokens.problems)
    text, starts = placeholder_text(tokens.tokens)
    before, after = wrapper
    hint = (_FILTERS if element is grammar.GROUP else "") if filters is None else filters
    try:
        tree = grammar.parse(element, f"{before}{text}{after}")
    except grammar.Unparsed as stopped:
        raise Refused([_unexpected_token(tokens, starts, stopped, len(before), hint)]) from None
    reading = reader(tokens, no_references)
    with grammar.raised_recursion_limit():
        result = read(reading, tree)
    if reading.problems:
        raise Refused(reading.problems)
    if len(tokens.tokens) > _MAX_DEPTH and depth(*(result if isinstance(result, tuple) else (result,))) > _MAX_DEPTH:
        raise refuse("Q117", f"this is nested more than {_MAX_DEPTH} deep", tokens.span, _SPLIT)
    return result


_MAX_DEPTH: Final = 128
"""Maximal depth of the result: levels of operators and functions, and of the parts of a group.

The parts of a group nest to the left. Passes and compilers recurse with several frames per level,
within Python's limit of 1,000 frames.
"""

_SPLIT: Final = "Split it into several conditions or sub-queries."


def _unexpected_token(tokens: TokenScan, starts: list[int], stopped: grammar.Unparsed, shift: int, filters: str) -> Diagnostic:
    """Return the diagnostic of a syntax error; `shift` is the length of the text before."""
    if stopped.offset is None:
        return Diagnostic("Q117", "this is nested too deeply", tokens.span, _SPLIT)
    offset = stopped.offset - shift
    index = next((i for i, start in enumerate(starts) if start >= offset), None)
    expected = [word for word in stopped.expected if word not in REFUSED_KEYWORDS and word not in ("?", "$", "#", ":")]
    hint = f"Expected here: {' '.join(expected)}" if 0 < len(expected) <= 8 else ""
    hint = syntax_hint(tokens.tokens, index) or filters or hint
    if index is None:
        end = tokens.tokens[-1].span.end
        return Diagnostic("Q101", "the text ends too early", Span(tokens.span.document, max(end - 1, tokens.span.start), end), hint)
    token = tokens.tokens[index]
    return Diagnostic("Q101", f"unexpected {token.sign}{token.text}", token.span, hint)


# Hints for syntax errors: operators of other languages, missing separators, surplus arguments.

_NUMBERS = ("no argument", "one argument", "two arguments", "three arguments", "four arguments")


def syntax_hint(tokens: Sequence[Token], index: int | None) -> str:
    """Return a hint for the unexpected token at `index`, or an empty string.

    `index` is None at the end of the text.
    """
    if index is None:
        last = tokens[-1].text
        return f"Something is missing after {last}." if last not in (")", "}") and not last[-1].isalnum() else ""
    token = tokens[index]
    previous = tokens[index - 1] if index else None
    if previous is not None and previous.text == token.text == "=":
        return "Equality is written =."
    if previous is not None and previous.text.upper() == "NOT":
        return "Write !( … ), NOT IN ( … ) or NOT EXISTS { … }."
    if previous is not None and previous.text.upper() in ("LIMIT", "OFFSET"):
        return f"{previous.text.upper()} takes a whole number: {previous.text.upper()} 10."
    if previous is not None and previous.text.upper() == "WINDOW":
        return "Write the name of a window: WINDOW <w> { … }."
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if previous is not None and following is not None and _is_term(previous):
        if token.kind is SparqlTokenKind.REFERENCE and following.text == "=":
            return f"Is a comma missing before {token.text}? Assignments are separated by commas."
        if token.kind in (SparqlTokenKind.VARIABLE, SparqlTokenKind.IRI, SparqlTokenKind.BLANK) and (
            following.kind in _VERBS or following.text in ("a", "^", "!", "(")
        ):
            return f"Is a dot missing before {token.text}? Triples are separated by dots, objects of one subject and predicate by commas."
    if token.text in (",", ")"):
        return _arity_hint(tokens, index)
    return ""


_VERBS = (SparqlTokenKind.IRI, SparqlTokenKind.VARIABLE)
_TERMS = (
    SparqlTokenKind.IRI,
    SparqlTokenKind.VARIABLE,
    SparqlTokenKind.LITERAL,
    SparqlTokenKind.NUMBER,
    SparqlTokenKind.BLANK,
    SparqlTokenKind.REFERENCE,
    SparqlTokenKind.QUOTED,
)


def _is_term(token: Token) -> bool:
    """Return whether an operand or an object may end with a token."""
    return token.kind in _TERMS or token.text in ("]", ")")


def _arity_hint(tokens: Sequence[Token], index: int) -> str:
    """Return a sentence on the arity of the function around the token at `index`; may be empty."""
    depth = 0
    for number in range(index - 1, 0, -1):
        text = tokens[number].text
        depth += (text == ")") - (text == "(")
        if depth < 0:
            name = tokens[number - 1].text.upper()
            function = FUNCTIONS.get(FUNCTION_SYNONYMS.get(name, name))
            least, most = (3, 3) if name == "IF" else (function.least, function.most) if function is not None else (0, 0)
            if name == "IRI" or name == "URI":
                most = 1  # the second argument is the BASE of the query
            if not least:
                return ""
            return (
                f"{name} takes {_NUMBERS[least]}." if least == most else f"{name} takes {_NUMBERS[least]} or {_NUMBERS[most].split()[0]}."
            )
    return ""
