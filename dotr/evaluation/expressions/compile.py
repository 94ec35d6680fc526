"""Expressions compiled to Python functions of terms (SPARQL 1.1, section 17), for both stages and
for Datalog.

Idea: an expression becomes straight-line Python with a local variable for every sub-expression, in
the form that its consumer needs: term, value (`values.py`) or truth value. None is "unbound" and
"error", so SPARQL's three-valued logic is plain `is True`, `is False`, `is None`. Constants are
parsed at compile time, values of terms are cached, and comparisons with a number are inlined.
Example: `?v > ?w` is compiled to

    def expression(p0, p1):
        x3 = V[p0]    # the cached value of a term
        x4 = V[p1]
        x5 = type(x3)
        x6 = type(x4)
        x2 = x3 > x4 if (x5 is x6 and x5 in SAME) or (x5 in EXACT and x6 in EXACT) else K1(x3, x4)
        if x2 is not True: return False
        return True

Cost: `?v > 60` about 0.1 µs, `?speed < 0.6 * Last.?speed` about 0.7 µs for cached terms; compiling
0.3 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

from dotr.evaluation.codegen import define
from dotr.evaluation.codegen.printer import printed
from dotr.evaluation.codegen.tree import Assign, CodeNode, Emit, GeneratedFunction, IfElse, Return, SkipIf
from dotr.evaluation.expressions import operators, regexes
from dotr.evaluation.expressions.functions import FUNCTIONS, ArgumentForm, Function
from dotr.evaluation.expressions.operators import SAME, to_double
from dotr.evaluation.expressions.sort_keys import ConstantSet
from dotr.evaluation.expressions.values.datetimes import Duration
from dotr.evaluation.expressions.values.terms import EXACT_TYPES, INTEGER_END, NUMERIC, VALUES, read, value_of, write
from dotr.evaluation.limits import counted, counted_above_short
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, Select, TimeOf, Var, fold_balanced, is_chain
from dotr.model.terms import FALSE, TRUE, XSD, Label, Term, Variable, is_literal, is_triple, literal
from dotr.model.traverse import conjuncts, operands, parameters_of, transform, with_changed_expressions

Parameter: TypeAlias = Var | Attribute | TimeOf | Exists
"""A parameter of an expression. The argument for an `Exists` is TRUE or FALSE, with NOT already
applied.
"""

_COMPARISONS: Final = {
    "=": operators.equal,
    "!=": operators.unequal,
    "<": operators.less,
    ">": operators.greater,
    "<=": operators.at_most,
    ">=": operators.at_least,
    "length <": operators.shorter,
    "length >": operators.longer,
    "length <=": operators.no_longer,
    "length >=": operators.no_shorter,
}
_ARITHMETIC: Final = {
    "+": operators.add,
    "-": operators.subtract,
    "*": operators.multiply,
    "/": operators.divide,
    "UNARY-": operators.negative,
    "UNARY+": operators.positive,
}
_TRUTHS: Final = frozenset((*_COMPARISONS, "!", "&&", "||", "IN", "NOT IN", "BOUND"))
_MIRRORED: Final = {"=": "=", "!=": "!="} | {
    prefix + one: prefix + other for prefix in ("", "length ") for one, other in (("<", ">"), (">", "<"), ("<=", ">="), (">=", "<="))
}
_PYTHON: Final = {"=": "==", "!=": "!="} | {name: name.removeprefix("length ") for name in _MIRRORED if name not in ("=", "!=")}
_DEEPEST: Final = 60
"""The deepest nesting of blocks; Python's parser accepts fewer than 100."""
_TEXTS: Final = frozenset(
    (
        *("STR", "LANG", "DATATYPE", "IRI", "STRDT", "STRLANG", "TRIPLE", "SUBJECT", "PREDICATE", "OBJECT", "SUBSTR", "UCASE", "LCASE"),
        *("STRBEFORE", "STRAFTER", "ENCODE_FOR_URI", "CONCAT", "REPLACE", "TZ", "MD5", "SHA1", "SHA256", "SHA384", "SHA512"),
        *("LANGDIR", "STRLANGDIR"),
        f"<{XSD}string>",
    )
)
"""The functions whose results are texts, IRIs or triple terms; those of all others are numbers,
times and truth values."""
_NAN: Final = frozenset((literal("NaN", XSD + "double"), literal("NaN", XSD + "float")))


def condition(expression: Expression, parameters: Sequence[Parameter]) -> Callable[..., bool]:
    """Compiles an expression to a test of its parameters' terms (None: unbound); an error is false.

    >>> hot = condition(Call(">", (Var("v"), Const('"60"^^<http://www.w3.org/2001/XMLSchema#integer>'))), [Var("v")])
    >>> hot('"61.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'), hot('"61"'), hot(None)
    (True, False, False)
    >>> from inspect import getsource
    >>> print(getsource(condition(Call("BOUND", (Var("v"),)), [Var("v")])))
    def expression(p0):
        x1 = p0 is not None
        if x1 is not True: return False
        return True
    <BLANKLINE>
    """
    return conjunction((expression,), parameters)


def conjunction(expressions: Sequence[Expression], parameters: Sequence[Parameter]) -> Callable[..., bool]:
    """Compiles expressions to a test of their conjunction, which holds if there are none."""
    code = _ExpressionWriter(parameters)
    for expression in expressions:
        for conjunct in conjuncts(expression):
            truth = code.truth(conjunct)
            code.add(SkipIf(f"{truth} is not True"))
    code.add(Return("True"))
    return code.function()


ErrorNote: TypeAlias = Callable[[tuple[Term | None, ...]], object]
"""A function that is called with the terms of the parameters of conditions that are an error."""


def truth_of(
    expressions: Sequence[Expression], parameters: Sequence[Parameter], note: ErrorNote | None = None
) -> Callable[..., bool | None]:
    """Compiles expressions to the truth of their conjunction, which is None where it is an error.

    `note` is called there.

    >>> five = Const('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    >>> high = truth_of([Call(">", (Var("v"), five)), Call("BOUND", (Var("w"),))], [Var("v"), Var("w")])
    >>> high(five.term, five.term), high('"n/a"', five.term), high('"n/a"', None)
    (False, None, False)
    """
    code = _ExpressionWriter(parameters)
    truth = code.truth(fold_balanced(expressions, lambda a, b: Call("&&", (a, b))))
    if note is not None:
        terms = "".join([f"p{number}, " for number in range(len(parameters))])
        code.add(IfElse([(f"{truth} is None", [Emit(code.constant(note), f"({terms})")])]))
    code.add(Return(truth))
    return code.function()


class InlineConjunction(NamedTuple):
    """A conjunction as statements, which skip if it does not hold, and the globals they use."""

    statements: list[CodeNode]
    names: dict[str, object]


def inline_conjunction(expressions: Sequence[Expression], arguments: Mapping[Parameter, str], tag: str) -> InlineConjunction | None:
    """The test of `conjunction` as statements for the body of another function.

    Only at most two comparisons of a parameter with a constant are inlined; None for any other.
    `arguments` has the source text of each parameter; `tag` is part of all new names, so that one
    function can have several conjunctions. `?v > 3` of the second attribute of `v`, with tag `a`:

    >>> from dotr.evaluation.codegen.printer import printed_lines
    >>> test = Call(">", (Var("v"), Const('"3"^^<http://www.w3.org/2001/XMLSchema#integer>')))
    >>> print("\\n".join(printed_lines(inline_conjunction([test], {Var("v"): "v[1]"}, "a").statements, "", "continue")))
    if (xa3 := v[1]) is None or len(xa3) < 51:
        xa5 = V[xa3]
    elif xa3[-45:] == INTEGER and (xa4 := xa3[1:-45]).isdigit() and len(xa4) < 19 and xa3.isascii():
        xa5 = int(xa4)
    else:
        xa5 = V[xa3] if len(xa3) < 53 else LONG(xa3)
    xa6 = type(xa5)
    xa8 = xa5 > Ka2 if xa6 is int or xa6 is Decimal else xa5 > Ka7 if xa6 is float else Ka1(xa5, Ka2)
    if xa8 is not True: continue
    """
    compared = [conjunct for expression in expressions for conjunct in conjuncts(expression)]
    if len(compared) > _INLINED or not all(_compares_with_constant(each) for each in compared):
        return None
    code = _ExpressionWriter(tuple(arguments), tag, tuple(arguments.values()))
    for each in compared:
        code.add(SkipIf(f"{code.truth(each)} is not True"))
    return InlineConjunction(code._body, code._globals)


def _compares_with_constant(expression: Expression) -> bool:
    match expression:
        case Call(function, (Var() | Attribute(), Const()) | (Const(), Var() | Attribute())):
            return function in _COMPARISONS
        case _:
            return False


_INLINED: Final = 2
"""Maximal number of comparisons of a conjunction that is inlined into another function."""


def evaluator(expression: Expression, parameters: Sequence[Parameter]) -> Callable[..., Term | None]:
    """Compiles an expression to a function from its parameters' terms (None: unbound) to its term.

    None is an error. The function raises `LimitExceeded` where the thread has computed more than
    `limits.text` bytes of terms. Raises `ValueError` for an attribute, time or EXISTS that is no
    parameter.

    >>> double = evaluator(Call("*", (Var("v"), Const('"2"^^<http://www.w3.org/2001/XMLSchema#integer>'))), [Var("v")])
    >>> double('"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'), double(None)
    ('"3"^^<http://www.w3.org/2001/XMLSchema#decimal>', None)
    """
    code = _ExpressionWriter(parameters)
    term = code.counted_term(expression)
    code.add(Return(term))
    return code.function()


TermOf: TypeAlias = Callable[[Parameter], Term | None]
"""The term of a variable, an attribute or a time in a binding; None: unbound."""


@lru_cache(maxsize=4096)
def _compiled(expression: Expression) -> tuple[tuple[Parameter, ...], Callable[..., Term | None]]:
    parameters = parameters_of([expression])
    return parameters, evaluator(expression, parameters)


def term_in(expression: Expression, term_of: TermOf) -> Term | None:
    """The term of an expression in a binding; None: unbound, or an error."""
    parameters, evaluate = _compiled(expression)
    return evaluate(*map(term_of, parameters))


def has_terms(attributes: Mapping[Variable, Term | None], where: Iterable[tuple[Variable, Term]]) -> bool:
    """True if attributes equal requested terms, by SPARQL's `=`; one that is unbound equals none.

    >>> has_terms({"v": '"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'}, [("v", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>')])
    True
    """
    values: dict[Parameter, Term | None] = {Var(name): term for name, term in attributes.items()}
    return all(term_in(Call("=", (Var(name), Const(term))), values.get) == TRUE for name, term in where)


def first_error(expression: Expression, term_of: TermOf) -> Expression | None:
    """The innermost part of an expression that errs while its own parts do not; None: none errs.

    >>> difference = Call("-", (Var("a"), Var("b")))
    >>> first_error(Call(">", (difference, Var("a"))), {Var("a"): '"x"', Var("b"): '"y"'}.get) == difference
    True
    """
    match expression:
        case Const():
            return None
        case Var() | Attribute() | TimeOf() | Exists():
            return expression if term_of(expression) is None else None
        case Call(function, arguments):
            if term_in(expression, term_of) is not None:
                return None
            if function not in ("IF", "COALESCE", "BOUND"):
                for argument in arguments:
                    if (found := first_error(argument, term_of)) is not None:
                        return found
            return expression
        case _:
            assert_never(expression)


def with_lengths(expression: Expression) -> Expression:
    """The expression with comparisons that also order durations without months (ep-sparql.md, 2.2).

    A comparison with a constant that is no duration is left unchanged.

    >>> with_lengths(Call("<", (Var("a"), Var("b")))), with_lengths(Call("<", (Var("a"), Const('"1"'))))
    (Call(function='length <', arguments=(Var(name='a'), Var(name='b'))), Call(function='<', arguments=(Var(name='a'), Const(term='"1"'))))
    """
    return transform(expression, _by_length)


def without_lengths(expression: Expression) -> Expression:
    """The expression of the text: the inverse of `with_lengths`.

    >>> without_lengths(Call("length <", (Var("a"), Var("b"))))
    Call(function='<', arguments=(Var(name='a'), Var(name='b')))
    """
    return transform(expression, _as_written)


def query_with_lengths(query: Select) -> Select:
    """The query with `with_lengths` applied to all its expressions."""
    changed = with_changed_expressions(query, _by_length)
    assert isinstance(changed, Select)
    return changed


def query_without_lengths(query: Select) -> Select:
    """The query of the text: the inverse of `query_with_lengths`."""
    changed = with_changed_expressions(query, _as_written)
    assert isinstance(changed, Select)
    return changed


def _by_length(part: Expression) -> Expression:
    match part:
        case Call(("<" | ">" | "<=" | ">=") as function, arguments) if not any(
            isinstance(each, Const) and not isinstance(read(each.term), Duration) for each in arguments
        ):
            return Call(f"length {function}", arguments)
        case _:
            return part


def _as_written(part: Expression) -> Expression:
    match part:
        case Call(function, arguments) if function.startswith("length "):
            return Call(function.removeprefix("length "), arguments)
        case _:
            return part


ROW: Final[Label] = "row"
"""`Attribute(ROW, "2")`: a constant of the program, in column 2 of a table of rules."""

_OF_PROGRAM: Final[dict[str, Callable[..., Any]]] = {"REGEX": regexes.regex_of_program, "REPLACE": regexes.replace_of_program}
"""The functions whose patterns, where they come with the stream, count against a limit."""


def _is_pattern_fixed(call: Call) -> bool:
    """True for a call of REGEX or REPLACE whose pattern and flags are the program's: constants, or
    the cells of a table of rules.
    """
    if call.function not in _OF_PROGRAM:
        return False
    read = (call.arguments[1], *call.arguments[2 if call.function == "REGEX" else 3 :])
    return all(isinstance(each, Const) or (isinstance(each, Attribute) and each.label == ROW) for each in read)


class _ExpressionWriter:
    """A writer of the body of one function.

    `term`, `value` and `truth` append the statements that compute an expression, in the form of
    their name, and return the Python name of the result.
    """

    def __init__(self, parameters: Sequence[Parameter], tag: str = "", sources: Sequence[str] = ()) -> None:
        self._tag = tag
        self._parameters = dict(zip(parameters, sources or [f"p{i}" for i in range(len(parameters))], strict=True))
        for parameter in parameters:
            if not isinstance(parameter, Var | Attribute | TimeOf | Exists):
                raise TypeError(f"{parameter!r} is no parameter: a variable is Var(name)")
        self._arguments = len(parameters)
        self._body: list[CodeNode] = []
        self._block = self._body  # the innermost block, to which statements are appended
        self._depth = 1  # nesting of blocks
        self._names = 0
        self._globals: dict[str, object] = {"V": VALUES, "W": write, "EBV": operators.truth, "SAME": SAME, "EXACT": EXACT_TYPES}
        self._globals |= {"int": int, "Decimal": Decimal, "float": float, "type": type, "NAN": _NAN, "TRUE": TRUE, "FALSE": FALSE}
        self._globals |= {"len": len, "INTEGER": INTEGER_END, "LONG": value_of}
        self._looked_up: list[dict[str, str]] = [{}]  # for each open block, names of values by parameter

    def add(self, statement: CodeNode) -> None:
        """Appends a statement to the innermost block."""
        self._block.append(statement)

    def set(self, name: str, text: str) -> None:
        """Appends an assignment to the innermost block."""
        self._block.append(Assign(name, text))

    def function(self) -> Callable[..., Any]:
        arguments = ", ".join(f"p{i}" for i in range(self._arguments))
        text = printed(GeneratedFunction("expression", arguments, self._body, leave="return False"))
        return define(text, "expression", "expression", {"__builtins__": {}, **self._globals})

    @contextmanager
    def block(self) -> Iterator[list[CodeNode]]:
        """A nested block; values looked up in it are out of scope behind it."""
        outer, self._block = self._block, []
        self._looked_up.append({})
        self._depth += 1
        yield self._block
        self._depth -= 1
        self._looked_up.pop()
        self._block = outer

    @contextmanager
    def guarded(self, condition: str) -> Iterator[None]:
        """A block that runs if the condition holds."""
        with self.block() as block:
            yield
        self.add(IfElse([(condition, block)]))

    def fresh_name(self) -> str:
        self._names += 1
        return f"x{self._tag}{self._names}"

    def constant(self, thing: object) -> str:
        self._names += 1
        name = f"K{self._tag}{self._names}"
        self._globals[name] = thing
        return name

    def assign(self, text: str) -> str:
        name = self.fresh_name()
        self.set(name, text)
        return name

    def _as_function(self, expression: Expression, form: str) -> str:
        """Compiles an expression to a separate function if blocks are nested too deep; else returns
        an empty name.
        """
        if self._depth < _DEEPEST or not isinstance(expression, Call):
            return ""
        code = _ExpressionWriter(tuple(self._parameters))
        name = getattr(code, form)(expression)
        code.add(Return(name))
        return self.assign(f"{self.constant(code.function())}({', '.join(self._parameters.values())})")

    def counted_term(self, expression: Expression) -> str:
        """The term of an expression, whose bytes are counted where it is computed and no argument.
        `CONCAT(?a, ?b)`, with the term x2 and `counted` as K3:

            x4 = K3(x2)
        """
        if name := self._as_function(expression, "counted_term"):
            return name
        match expression:
            case Call("IF", _):
                return self._if(expression, self.counted_term)
            case Call("COALESCE", _):
                return self._coalesce(expression, self.counted_term)
            case Call(function, _) if not self._gives_truth(function):
                count = counted if function in _TEXTS else counted_above_short
                name = self.term(expression)
                return self.assign(f"{self.constant(count)}({name})")
            case _:
                return self.term(expression)

    # --- the three forms ---

    def term(self, expression: Expression) -> str:
        if name := self._as_function(expression, "term"):
            return name
        match expression:
            case Const(term):
                return self.constant(term)
            case Var() | Attribute() | TimeOf() | Exists():
                return self._parameter(expression)
            case Call("IF", _):
                return self._if(expression, self.term)
            case Call("COALESCE", _):
                return self._coalesce(expression, self.term)
            case Call(function, _):
                if self._gives_truth(function):
                    name = self.truth(expression)
                    return self.assign(f"TRUE if {name} is True else FALSE if {name} is False else None")
                if function in FUNCTIONS and FUNCTIONS[function].result is ArgumentForm.TERM:
                    return self._apply(FUNCTIONS[function], expression)
                return self.assign(f"W({self.value(expression)})")
            case _:
                assert_never(expression)

    def value(self, expression: Expression) -> str:
        if name := self._as_function(expression, "value"):
            return name
        match expression:
            case Const(term):
                return self.constant(read(term))
            case Var() | Attribute() | TimeOf() | Exists():
                return self._value_of(self._parameter(expression))
            case Call("IF", _):
                return self._if(expression, self.value)
            case Call("COALESCE", _):
                return self._coalesce(expression, self.value)
            case Call(function, arguments):
                if self._gives_truth(function):
                    return self.truth(expression)
                if function in _ARITHMETIC:
                    names = ", ".join([self.value(a) for a in arguments])
                    return self.assign(f"{self.constant(_ARITHMETIC[function])}({names})")
                if is_chain(function):
                    return self._chain(function, arguments)
                if FUNCTIONS[function].result is ArgumentForm.TERM:
                    return self.assign(f"V[{self._apply(FUNCTIONS[function], expression)}]")
                return self._apply(FUNCTIONS[function], expression)
            case _:
                assert_never(expression)

    def truth(self, expression: Expression) -> str:
        if name := self._as_function(expression, "truth"):
            return name
        match expression:
            case Const(term):
                return repr(operators.truth(read(term)))
            case Call("!", (argument,)):
                name = self.truth(argument)
                return self.assign(f"None if {name} is None else not {name}")
            case Call("&&", _):
                return self._logical(expression, decided="False")
            case Call("||", _):
                return self._logical(expression, decided="True")
            case Call("BOUND", (argument,)):
                return self.assign(f"{self.term(argument)} is not None")
            case Call("IN", arguments):
                return self._in(arguments[0], arguments[1:])
            case Call("NOT IN", arguments):
                name = self._in(arguments[0], arguments[1:])
                return self.assign(f"None if {name} is None else not {name}")
            case Call(function, (left, right)) if function in _COMPARISONS:
                return self._compare(function, left, right)
            case Call("IF", _):
                return self._if(expression, self.truth)
            case Call(function, _) if self._gives_truth(function):
                return self._apply(FUNCTIONS[function], expression)
            case _:
                return self.assign(f"EBV({self.value(expression)})")

    # --- parts ---

    @staticmethod
    def _gives_truth(function: str) -> bool:
        return function in _TRUTHS or (function in FUNCTIONS and FUNCTIONS[function].result is ArgumentForm.TRUTH)

    def _parameter(self, expression: Parameter) -> str:
        """The Python name of a parameter; a variable that is no parameter is never bound."""
        if expression in self._parameters:
            return self._parameters[expression]
        if isinstance(expression, Var):
            return "None"
        raise ValueError(f"{expression} is no parameter of the expression")

    def _value_of(self, parameter: str) -> str:
        for known in self._looked_up:
            if parameter in known:
                return known[parameter]
        self._looked_up[-1][parameter] = name = self.assign(f"V[{parameter}]")
        return name

    def _number_of(self, parameter: str) -> str:
        """The value of a parameter that is compared with a number: a long integer is read in line,
        past the cache. `inline_conjunction` shows the code: xa4 are the digits 12345 of
        `"12345"^^xsd:integer`, a text of 51 characters."""
        if parameter == "None" or any(parameter in known for known in self._looked_up):
            return self._value_of(parameter)
        t, digits, name = self.fresh_name(), self.fresh_name(), self.fresh_name()
        is_integer = f"{t}[-45:] == INTEGER and ({digits} := {t}[1:-45]).isdigit() and len({digits}) < 19 and {t}.isascii()"
        cases = {f"({t} := {parameter}) is None or len({t}) < 51": f"V[{t}]", is_integer: f"int({digits})"}
        other = Assign(name, f"V[{t}] if len({t}) < 53 else LONG({t})")
        self.add(IfElse([(case, [Assign(name, text)]) for case, text in cases.items()], [other]))
        self._looked_up[-1][parameter] = name
        return name

    def _apply(self, function: Function, call: Call) -> str:
        """A call of a function, whose arguments are never None. `CONTAINS(?a, ?b)`, with values x1
        and x2 and the implementation K3:

            x4 = None if x1 is None or x2 is None else K3(x1, x2)
        """
        forms = (*function.parameters, *function.parameters[-1:] * (len(call.arguments) - len(function.parameters)))
        if not function.least <= len(call.arguments) <= function.most:
            raise ValueError(f"{call.function} does not take {len(call.arguments)} arguments")
        names = [self.term(a) if form is ArgumentForm.TERM else self.value(a) for a, form in zip(call.arguments, forms, strict=False)]
        run = _OF_PROGRAM[call.function] if _is_pattern_fixed(call) else function.run
        result = f"{self.constant(run)}({', '.join(names)})"
        missing = " or ".join(f"{n} is None" for n in names)
        return self.assign(f"None if {missing} else {result}" if names else result)

    def _chain(self, operators: str, arguments: Sequence[Expression]) -> str:
        """Arithmetic of many operands, left-associative. `?a + ?b - ?c`, with values x1, x3 and x5
        and the operators K4 and K6:

            x2 = x1
            x2 = K4(x2, x3)
            x2 = K6(x2, x5)
        """
        first, *others = arguments
        result = self.assign(self.value(first))
        for operator, operand in zip(operators, others, strict=True):
            value = self.value(operand)
            self.set(result, f"{self.constant(_ARITHMETIC[operator])}({result}, {value})")
        return result

    def _logical(self, call: Call, *, decided: str) -> str:
        """`&&` is decided by False, `||` by True, on any side; otherwise an error is the result.

        `?a || ?b`, with truth values x1 and x2:

        x3 = x1
        if x3 is not True:
            if x3 is False or x2 is True:
                x3 = x2
        """
        first, *others = operands(call, call.function)
        result = self.assign(self.truth(first))
        other = "True" if decided == "False" else "False"
        for operand in others:
            with self.guarded(f"{result} is not {decided}"):
                name = self.truth(operand)
                with self.guarded(f"{result} is {other} or {name} is {decided}"):
                    self.set(result, name)
        return result

    # IF(?a, ?b, ?c):       x2 = None
    #                       if x1 is True:
    #                           x2 = p1
    #                       elif x1 is False:
    #                           x2 = p2
    def _if(self, call: Call, form: Callable[[Expression], str]) -> str:
        test, then, otherwise = call.arguments
        name = self.truth(test)
        result = self.assign("None")
        with self.block() as first:
            self.set(result, form(then))
        with self.block() as second:
            self.set(result, form(otherwise))
        self.add(IfElse([(f"{name} is True", first), (f"{name} is False", second)]))
        return result

    # COALESCE(?a, ?b):     x1 = p0
    #                       if x1 is None:
    #                           x1 = p1
    def _coalesce(self, call: Call, form: Callable[[Expression], str]) -> str:
        result = self.assign(form(call.arguments[0]) if call.arguments else "None")
        for argument in call.arguments[1:]:
            with self.guarded(f"{result} is None"):
                self.set(result, form(argument))
        return result

    def _in(self, tested: Expression, members: tuple[Expression, ...]) -> str:
        """`x IN (a, b)` is `x = a || x = b`; constants are looked up. An error on the left is an
        error, even for an empty list. In the code of `?x IN (1, 2, ?y)` the set of 1 and 2 is K2,
        and x3 is `?x = ?y`:

            x1 = False
            x1 = K2[p0]
            if x1 is not True:
                if x3 is not False:
                    x1 = x3
        """
        if not members:
            return self.assign(f"None if {self.term(tested)} is None else False")
        constants = [m.term for m in members if isinstance(m, Const)]
        result = self.assign("False")
        if constants:
            self.set(result, f"{self.constant(ConstantSet(constants))}[{self.term(tested)}]")
        for member in members:
            if not isinstance(member, Const):
                with self.guarded(f"{result} is not True"):
                    name = self._compare("=", tested, member)
                    with self.guarded(f"{name} is not False"):
                        self.set(result, name)
        return result

    def _compare(self, function: str, left: Expression, right: Expression) -> str:
        """A comparison; its operator K1 is called only where Python's differs. `?a = ?b`:

            if p0 is None or p1 is None:
                x2 = None
            elif p0 == p1:
                x2 = p0 >= '<=' or (p0 not in NAN if p0[0] == '"' else K1(V[p0], V[p1]))
            elif p0 >= '<=' or p1 >= '<=':
                x2 = False
            else:
                x2 = K1(V[p0], V[p1])

        The code of `<` and of computed operands is that of the module's docstring.
        """
        if isinstance(left, Const) and not isinstance(right, Const):
            return self._compare(_MIRRORED[function], right, left)
        if isinstance(right, Const):
            return self._compare_constant(function, left, right.term)
        slow, python = self.constant(_COMPARISONS[function]), _PYTHON[function]
        result = self.fresh_name()
        simple = isinstance(left, Var | Attribute) and isinstance(right, Var | Attribute)
        if simple and function in ("=", "!="):
            # Terms at or above '<=' are IRIs and blank nodes (triple terms start with '<<'), each
            # equal only to itself. Every other term equals itself too, except NaN.
            a, b = self._parameter(left), self._parameter(right)  # type: ignore[arg-type]
            if "None" in (a, b):
                return "None"
            same = f"{a} >= '<=' or ({a} not in NAN" if function == "=" else f"{a} < '<=' and ({a} in NAN"
            results = {
                f"{a} is None or {b} is None": "None",
                f"{a} == {b}": f"{same} if {a}[0] == '\"' else {slow}(V[{a}], V[{b}]))",
                f"{a} >= '<=' or {b} >= '<='": repr(function == "!="),
            }
            cases = [(condition, [Assign(result, text)]) for condition, text in results.items()]
            self.add(IfElse(cases, [Assign(result, f"{slow}(V[{a}], V[{b}])")]))
            return result
        a, b = self.value(left), self.value(right)
        ta, tb = self.assign(f"type({a})"), self.assign(f"type({b})")
        fast = f"({ta} is {tb} and {ta} in SAME) or ({ta} in EXACT and {tb} in EXACT)"
        self.set(result, f"{a} {python} {b} if {fast} else {slow}({a}, {b})")
        return result

    def _compare_constant(self, function: str, left: Expression, term: Term) -> str:
        """A comparison with a constant, as `inline_conjunction` shows it."""
        slow, python = self.constant(_COMPARISONS[function]), _PYTHON[function]
        if not is_literal(term) and not is_triple(term):
            name = self.term(left)
            if function in ("=", "!="):
                return self.assign(f"None if {name} is None else {name} {python} {self.constant(term)}")
            return "None"
        constant = read(term)
        k = self.constant(constant)
        if type(constant) not in NUMERIC:
            return self.assign(f"{slow}({self.value(left)}, {k})")
        a = self._number_of(self._parameter(left)) if isinstance(left, Var | Attribute) else self.value(left)
        kind = self.assign(f"type({a})")
        as_double = self.constant(to_double(constant))  # type: ignore[arg-type]
        exact = f"{a} {python} {k} if {kind} is int or {kind} is Decimal else " if type(constant) in EXACT_TYPES else ""
        return self.assign(f"{exact}{a} {python} {as_double} if {kind} is float else {slow}({a}, {k})")
