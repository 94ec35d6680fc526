"""Translation of rdflib's tree to expressions (SPARQL 1.1, section 17).

Leaves are resolved by the token numbers in their placeholders; operators and functions become
calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from rdflib import RDF as RDFLIB_RDF
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal, URIRef, Variable

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.evaluation.expressions.casts import CASTS
from dotr.evaluation.expressions.functions import ELAPSED, FUNCTIONS, IN_ZONE, MATH, MATH_FUNCTIONS, SECONDS
from dotr.evaluation.expressions.regexes import unsupported_reason
from dotr.evaluation.triples.index import HIDDEN
from dotr.model.algebra import AggregateCall, Attribute, Call, Const, Exists, Expression, Pattern, Slot, TimeOf, Var, chain
from dotr.model.calendars import zone_of
from dotr.model.places import Span
from dotr.model.terms import RDF, XSD, Term, iri, is_literal, literal, literal_parts, triple_term
from dotr.model.time import Unit
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.keywords import AGGREGATES, FUNCTION_SYNONYMS
from dotr.syntax.sparql.quoted_triples import QUOTED_TRIPLE, with_quoted_parts
from dotr.syntax.sparql.tokens import Annotation, MatchTokens, Quoted, SparqlTokenKind, Token, TokenScan

_LEAVES: Final = {URIRef(RDF + name): iri(RDF + name) for name in ("type", "first", "rest", "nil")}
_PLACEHOLDER: Final = re.compile(r"t([0-9]+)")
_CHAIN_NODES: Final = {"ConditionalOrExpression", "ConditionalAndExpression", "AdditiveExpression", "MultiplicativeExpression"}


_UNIT: ContextVar[Unit] = ContextVar("unit", default=Unit.SECOND)


@contextmanager
def unit_of_times(unit: Unit) -> Iterator[None]:
    """Context in which `elapsed` and `seconds` are parsed with a unit of integer times. Where the
    unit is a second, they have no further argument."""
    token = _UNIT.set(unit)
    try:
        yield
    finally:
        _UNIT.reset(token)


def time_unit() -> Unit:
    """The unit of integer times of the context."""
    return _UNIT.get()


class ExpressionReader:
    """Reader of the expressions of one text.

    - `no_references`: where `M.?v` is refused, the place for messages (`in BIND`); else empty.
    - `no_exists`: the same for EXISTS.
    - `is_of_rule_set`: the hidden functions of the built-in rule sets are known.
    - `aggregates`: variables of the aggregates read so far; None where aggregates are refused.
    - `no_aggregates`: hint for a refused aggregate.
    """

    def __init__(self, scan: TokenScan, no_references: str) -> None:
        self.scan = scan
        self.problems: list[Diagnostic] = []
        self.no_references = no_references
        self.no_exists = ""
        self.is_of_rule_set = False
        self.aggregates: dict[AggregateCall, str] | None = None
        self.no_aggregates = "Aggregates are allowed in the SELECT line, HAVING and ORDER BY of a query."
        self._anonymous_slots: dict[BNode, Slot] = {}
        self._fresh_count = 0

    # --- leaves ---

    def token(self, node: ParseNode) -> Token | None:
        """Return the token of a leaf; None for nodes that the grammar inserts (`[]`, `a`)."""
        if isinstance(node, CompValue) and node.name == "literal":
            node = node.string
        if isinstance(node, Literal):
            return self.scan.tokens[abs(int(str(node)))]
        if isinstance(node, URIRef | Variable | BNode):
            match = _PLACEHOLDER.fullmatch(str(node))
            return self.scan.tokens[int(match[1])] if match else None
        return None

    def leaf_value(self, node: ParseNode) -> Var | Const | Attribute | TimeOf:
        """Return the variable, constant or reference of a leaf."""
        token = self.token(node)
        if token is not None:
            return self.token_value(token)
        if isinstance(node, BNode):
            if node not in self._anonymous_slots:
                self._anonymous_slots[node] = self.fresh_blank()
            return self._anonymous_slots[node]
        return Const(_LEAVES[node])

    def token_value(self, token: Token) -> Var | Const | Attribute | TimeOf:
        """Return the value of a token of one term; a fresh variable after a reported problem."""
        if isinstance(token.value, Quoted):
            self.problem(QUOTED_TRIPLE, f"a {'triple term' if token.value.is_term else 'reified triple'} is not allowed here", token.span)
            return Var(self.fresh())
        if token.value is None or isinstance(token.value, Annotation | MatchTokens):
            self.problem("Q101", f"{token.text} is a function", token.span, f"Write {token.text}(…).")
            return Var(self.fresh())
        if token.kind is SparqlTokenKind.REFERENCE and self.no_references:
            hint = "Write a separate FILTER, directly in the WHERE group; each condition joined by && counts as one."
            self.problem("Q109", f"{token.text} is not allowed {self.no_references}", token.span, hint)
        return token.value

    def fresh(self) -> str:
        """Return a new variable name that no query can contain."""
        self._fresh_count += 1
        return f".{self._fresh_count - 1}"

    def fresh_blank(self) -> Var:
        """Return a new blank node."""
        return Var(f"_:{self.fresh()}")

    def number(self, node: ParseNode) -> Const:
        """Return a number of a triple or of VALUES, with its sign."""
        token = self.token(node)
        assert token is not None
        return signed_number(token)

    def span(self, node: ParseNode) -> Span:
        """Return the span of all tokens below a node."""
        places = [t.span for t in self.tokens_of(node)]
        if not places:
            return self.scan.span
        return Span(self.scan.span.document, min(p.start for p in places), max(p.end for p in places))

    def tokens_of(self, node: ParseNode) -> Iterator[Token]:
        """Yield the tokens below a node."""
        if (token := self.token(node)) is not None:
            yield from with_quoted_parts((token,))
        elif isinstance(node, CompValue):
            for key in node:
                yield from self.tokens_of(node[key])
        elif isinstance(node, Iterable) and not isinstance(node, str):
            for part in node:
                yield from self.tokens_of(part)

    def problem(self, code: str, message: str, span: Span, hint: str = "") -> None:
        """Report a problem; a second report of the same problem has no effect."""
        diagnostic = Diagnostic(code, message, span, hint)
        if diagnostic not in self.problems:
            self.problems.append(diagnostic)

    # --- expressions ---

    def group(self, node: ParseNode) -> Pattern:
        """Return the pattern of a group, for EXISTS."""
        raise NotImplementedError

    def bind_anonymous(self, node: BNode, slot: Slot) -> None:
        """Set the slot of a blank node that the grammar has inserted."""
        self._anonymous_slots[node] = slot

    def variable(self, node: ParseNode) -> str:
        """Return the name of a variable that a query binds; `M.?v` is reported."""
        value = self.leaf_value(node)
        if isinstance(value, Var):
            return value.name
        token = self.token(node)
        assert token is not None
        self.problem("Q110", f"{token.text} is no variable of the query", token.span, "Write a variable of the query.")
        return token.text

    def expression(self, node: ParseNode) -> Expression:
        """Return the expression of a node."""
        if not isinstance(node, CompValue):
            token = self.token(node)
            return self._quoted_expression(token) if token is not None and token.kind is SparqlTokenKind.QUOTED else self.leaf_value(node)
        name: str = node.name
        match name:
            case "literal":
                return self.leaf_value(node)
            case "RelationalExpression":
                left = self.expression(node.expr)
                if node.op is None:
                    return left
                operator = " ".join(str(node.op).upper().split())
                if operator in ("IN", "NOT IN"):
                    return Call(operator, (left, *map(self.expression, self.argument_list(node.other))))
                return Call(operator, (left, self.expression(node.other)))
            case _ if name in _CHAIN_NODES:
                return self._chain(node)
            case "UnaryNot":
                return Call("!", (self.expression(node.expr),))
            case "UnaryMinus" | "UnaryPlus":
                token = self.token(node.expr)
                if token is not None and token.kind is SparqlTokenKind.NUMBER and token.sign:
                    if not self._is_signed_twice(node, token):
                        return signed_number(token)
                    return Call("UNARY-" if name == "UnaryMinus" else "UNARY+", (signed_number(token),))
                return Call("UNARY-" if name == "UnaryMinus" else "UNARY+", (self.expression(node.expr),))
            case "Function":
                return self._function(node)
            case "Builtin_EXISTS" | "Builtin_NOTEXISTS":
                return self._exists(node)
            case _ if name.startswith("Aggregate_"):
                return self._aggregate(node)
            case _:
                word = name.removeprefix("Builtin_").upper()
                word = FUNCTION_SYNONYMS.get(word, word)
                arguments = [self.expression(a) for key in node for a in self.argument_list(node[key])]
                if word == "IRI" and self.scan.base:
                    arguments.append(Const(iri(self.scan.base)))
                if word in ("REGEX", "REPLACE"):
                    self._check_pattern(node, arguments)
                return Call(word, tuple(arguments))

    @staticmethod
    def _is_signed_twice(node: ParseNode, token: Token) -> bool:
        """Return whether the number of a unary expression has a sign of its own, as in `- -1`.

        A signed number is one token here, but in the grammar `-1` is a unary minus and a number,
        and the sign of a number `+1` is lost. The placeholders of token 7 are parsed as follows:

            text       -1     - -1     - +1     + -1
            parsed as  -(7)   -(-7)    -(7)     +(-7)
        """
        return str(node.expr).startswith("-") or token.sign != ("-" if node.name == "UnaryMinus" else "+")

    def _quoted_expression(self, token: Token) -> Expression:
        """Return a triple term, or a part of one, as a constant or a call of TRIPLE."""
        if not isinstance(token.value, Quoted):
            if token.kind is SparqlTokenKind.BLANK:
                self.problem(
                    QUOTED_TRIPLE,
                    "a blank node is not allowed in an expression",
                    token.span,
                    "Use a variable, bound by a triple of the query.",
                )
            return signed_number(token) if token.kind is SparqlTokenKind.NUMBER else self.token_value(token)
        if not token.value.is_term:
            hint = "It denotes the reifier of the triple: match that by a triple of the query. The triple term itself is <<( … )>>."
            self.problem(QUOTED_TRIPLE, "a reified triple is not allowed in an expression", token.span, hint)
        subject, predicate, value = (self._quoted_expression(part) for part in token.value.parts)
        match subject, predicate, value:
            case Const(s), Const(p), Const(o):
                term = triple_term(s, p, o)
                assert term is not None, "checked by quoted_triples.py"
                return Const(term)
            case _:
                return Call("TRIPLE", (subject, predicate, value))

    def _check_pattern(self, node: ParseNode, arguments: list[Expression]) -> None:
        """Report a constant regular expression that cannot be compiled."""
        flags = arguments[2 if node.name == "Builtin_REGEX" else 3 :] or [Const('""')]
        pattern = arguments[1]
        if isinstance(pattern, Const) and isinstance(flags[0], Const) and pattern.term[0] == flags[0].term[0] == '"':
            reason = unsupported_reason(literal_parts(pattern.term)[0], literal_parts(flags[0].term)[0])
            if reason:
                self.problem("Q120", f"this pattern cannot be used: {reason}", self.span(node.pattern))

    def conjuncts(self, node: ParseNode) -> Iterator[ParseNode]:
        """Yield the parts of a condition between its outermost `&&`."""
        if isinstance(node, CompValue):
            if node.name == "ConditionalAndExpression" and node.other:
                for part in (node.expr, *node.other):
                    yield from self.conjuncts(part)
                return
            if node.name in _CHAIN_NODES or node.name == "RelationalExpression":
                inner = node.expr
                if not node.other and isinstance(inner, CompValue):
                    yield from self.conjuncts(inner)
                    return
        yield node

    @staticmethod
    def argument_list(node: ParseNode) -> list[ParseNode]:
        """Return the elements of an argument list: `()`, one expression, or several."""
        if node == RDFLIB_RDF.nil:
            return []
        if isinstance(node, CompValue | str):
            return [node]
        return list(node)

    def _chain(self, node: ParseNode) -> Expression:
        """Return the expression of `a + b - c` or `a && b && c`, evaluated from the left."""
        others: list[ParseNode] = node.other or []
        default = "||" if node.name == "ConditionalOrExpression" else "&&"
        operators = [str(operator) for operator in node.op or [default] * len(others)]
        return chain(operators, [self.expression(each) for each in (node.expr, *others)])

    def _function(self, node: ParseNode) -> Expression:
        token = self.token(node.iri)
        assert token is not None
        arguments = tuple(self.expression(a) for a in node.expr or [])
        if token.kind is SparqlTokenKind.WORD:
            word = token.text.upper()
            if len(arguments) != FUNCTIONS[word].least or node.distinct:
                count = "three arguments" if FUNCTIONS[word].least == 3 else "one argument"
                self.problem("Q115", f"{token.text} takes {count}, and no DISTINCT", token.span)
            return Call(word, arguments)
        function = self.leaf_value(node.iri)
        name = function.term if isinstance(function, Const) else ""
        if name not in FUNCTIONS or (name.startswith(HIDDEN) and not self.is_of_rule_set):
            hint = _near_function(name, token.text) or (
                f"Functions with an IRI are the casts, such as xsd:integer(?x), those of <{MATH}>, such as math:sqrt(?x), and "
                f'{SECONDS}(?duration) and {IN_ZONE}(?time, "Europe/Berlin").'
            )
            self.problem("Q115", f"unknown function {token.text}", token.span, hint)
        elif len(arguments) != FUNCTIONS[name].least or node.distinct:
            count = ("no argument", "one argument", "two arguments")[FUNCTIONS[name].least]
            self.problem("Q115", f"{token.text} takes {count}, and no DISTINCT", token.span)
        elif name in (SECONDS, ELAPSED) and _UNIT.get() is not Unit.SECOND:
            return Call(name, (*arguments, Const(literal(str(_UNIT.get().value), XSD + "integer"))))
        elif name == IN_ZONE and isinstance(zone := arguments[1], Const) and is_literal(zone.term):
            try:
                return Call(name, (*arguments, Const(literal(zone_of(literal_parts(zone.term)[0]).text))))
            except LookupError as error:
                reason, _, hint = str(error).partition(". ")
                self.problem("Q157", reason, token.span, hint)
        return Call(name, arguments)

    def _exists(self, node: ParseNode) -> Expression:
        if self.no_exists:
            self.problem("Q118", f"EXISTS is not allowed {self.no_exists}", self.span(node), "EXISTS reads the graph of a query.")
        outer, self.no_references = self.no_references, self.no_references or "inside EXISTS"
        aggregates, self.aggregates = self.aggregates, None
        pattern = self.group(node.graph)
        self.no_references, self.aggregates = outer, aggregates
        return Exists(pattern, node.name == "Builtin_NOTEXISTS")

    def _aggregate(self, node: ParseNode) -> Expression:
        function = node.name.removeprefix("Aggregate_").upper()
        function = "GROUP_CONCAT" if function == "GROUPCONCAT" else function
        assert function in AGGREGATES
        aggregates, self.aggregates = self.aggregates, None
        outer_hint, self.no_aggregates = self.no_aggregates, "An aggregate is not allowed inside another."
        argument = None if node.vars == "*" else self.expression(node.vars)
        self.aggregates, self.no_aggregates = aggregates, outer_hint
        separator = None
        if node.separator is not None:
            token = self.token(node.separator)
            assert token is not None
            assert isinstance(token.value, Const)
            separator, datatype, _ = literal_parts(token.value.term)
            if datatype != XSD + "string":
                self.problem("Q101", "a separator is a plain string", token.span)
        call = AggregateCall(function, bool(node.distinct), argument, separator)
        if aggregates is None:
            self.problem("Q113", f"{function} is not allowed here", self.span(node), self.no_aggregates)
            return Var(self.fresh())
        if call not in aggregates:
            aggregates[call] = self.fresh()
        return Var(aggregates[call])


def signed_number(token: Token) -> Const:
    """Return the constant of a number token, with its sign."""
    assert isinstance(token.value, Const)
    term: Term = token.value.term
    return Const(f'"{token.sign}{term[1:]}')


def _near_function(name: Term, written: str) -> str:
    """Return a hint with the closest cast or function of doubles, with the prefix of `written` if it
    has one."""
    namespace, functions = (MATH, list(MATH_FUNCTIONS)) if name.startswith(f"<{MATH}") else (XSD, list(CASTS))
    near = did_you_mean(name, functions)
    return near if written.startswith("<") else near.replace(f"<{namespace}", f"{written.partition(':')[0]}:").replace(">", "")
