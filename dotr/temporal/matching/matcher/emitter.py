"""Emitter of a matcher's source: lines, names of bound values, and expressions as Python.

Idea: the event at place 2 is `e2`, its time, ordinal and values are `t2`, `o2`, `v2`; the aggregate
at place 3 is `g3`. `row` is a row of the template's table: cell 0 is the rule's number, cell 1 the
number of its first consumed set, then follow three cells per column: the constant's term and, where
all of the column are exact numbers, its exact value and its double.

    rule 7, consumed set 0, constant "10"^^xsd:integer:  (7, 0, '"10"^^<…#integer>', 10, 10.0)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from operator import itemgetter
from typing import Final, NamedTuple, TypeGuard

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions import VALUES, Parameter, conjunction, evaluator, truth_of
from dotr.evaluation.expressions.operators import to_double, to_single
from dotr.evaluation.expressions.ordered_domains import domain_of
from dotr.evaluation.expressions.values.datetimes import Duration
from dotr.evaluation.expressions.values.terms import EXACT_TYPES, Single
from dotr.evaluation.expressions.values.times import time_term
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import conjuncts, parameters_of
from dotr.temporal.layout.retention import AnchorDelay
from dotr.temporal.matching.event_store import EventCondition, EventTest
from dotr.temporal.matching.events import DelayOf, ReadTerms
from dotr.temporal.matching.rule_search import MIRRORED, Comparison, ConstantTable, RowBound, RowFinder, TableCell, TableRow, comparison
from dotr.temporal.matching.rule_templates import RESULT, ROW, PositionalRole, RuleGroup


def rows_of(group: RuleGroup, consumed: Sequence[int]) -> tuple[TableRow, ...]:
    """The rows of a group's table; `consumed` has for each rule the number of its first consumed
    set."""
    columns: list[tuple[TableCell, ...]] = []
    for column in zip(*group.table, strict=True):
        numbers = [VALUES[term] for term in column]
        exact = tuple(n for n in numbers if type(n) in EXACT_TYPES)
        is_exact = len(exact) == len(numbers)
        columns.append(column)
        columns.append(exact if is_exact else (None,) * len(column))  # type: ignore[arg-type]
        columns.append(tuple(to_double(n) for n in exact) if is_exact else (None,) * len(column))  # type: ignore[arg-type]
    return tuple(zip(group.numbers, consumed, *columns, strict=True))


_ORDERED: Final = frozenset(("<", ">", "<=", ">="))


class RowComparison(NamedTuple):
    """`left operator row[cell]`."""

    left: Var | Attribute
    operator: str
    cell: int


class MatcherEmitter:
    """The lines of a function under construction.

    `rows` are sorted by the first column compared with a number, whose first cell is
    `ordered_cell`. `searched` are the constraints, by place, whose rows a `RowFinder` finds.
    """

    def __init__(self, group: RuleGroup, rows: tuple[TableRow, ...], clock: Clock, searched: Mapping[int, Sequence[Expression]]) -> None:
        self.template = group.template
        self.clock = clock
        self.rows = rows
        self.ordered_cell: int | None = None
        first = next(filter(None, map(self.row_comparison, self._conditions(searched))), None)
        if first is not None:
            self.ordered_cell = first.cell
            self.rows = tuple(sorted(rows, key=itemgetter(first.cell + 1)))
        self.indent = 1
        self.lines: list[str] = []
        self.globals: dict[str, object] = {
            "V": VALUES,
            "Decimal": Decimal,
            "bisect_left": bisect_left,
            "bisect_right": bisect_right,
            "Single": Single,
        }

        def time_of(micros: Micros) -> Term:
            return time_term(micros, clock)

        self.globals["time_of"] = time_of

    def _conditions(self, searched: Mapping[int, Sequence[Expression]]) -> Iterator[Expression]:
        """The conditions outside `searched`, in the order of evaluation."""
        for place, part in enumerate(self.template.roles):
            yield from (each for each in part.constraints if each not in searched.get(place, ()))
        if self.template.condition is not None:
            yield from conjuncts(self.template.condition)

    def line(self, text: str) -> None:
        """Appends a line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Appends a compound statement's head and indents the lines of its body."""
        self.line(head)
        self.indent += 1
        yield
        self.indent -= 1

    def bind_global(self, value: object, kind: str = "f") -> str:
        """A new global name for a value."""
        name = f"{kind}_{len(self.globals)}"
        self.globals[name] = value
        return name

    def match_time(self, place: int) -> str:
        """The source of the time at which a bound event counts: its own, or the present for a
        delayed anchor."""
        return "now" if not place and self.template.anchor.delay else f"t{place}"

    def assign_now(self) -> None:
        """Appends the assignment of the time at which a delayed anchor stands."""
        anchor = self.template.anchor
        if anchor.delayed_by is not None:
            delay_of = compile_delay(AnchorDelay(anchor.delay, anchor.delayed_by), anchor.attributes, self.clock)
            self.line(f"now = t0 + {self.bind_global(delay_of, 'delay')}(t0, v0)")
        elif anchor.delay:
            self.line(f"now = t0 + {anchor.delay}")

    def argument(self, parameter: Parameter, own: int | None) -> str:
        """The source of a value that an expression reads; plain variables are attributes of the
        candidate at place `own`."""
        match parameter:
            case Var(name):
                assert own is not None, "a plain variable belongs to a candidate"
                return f"v{own}[{self.template.roles[own].attributes.index(name)}]"
            case Attribute(label, name) if label == ROW:
                return f"row[{2 + 3 * int(name)}]"
            case Attribute(label, name) if name == RESULT and not self.template.is_positive(int(label)):
                return f"g{label}"
            case Attribute(label, name):
                return f"v{label}[{self.template.roles[int(label)].attributes.index(name)}]"
            case TimeOf(label):
                return f"time_of(t{label})"
            case Exists():
                raise AssertionError("EXISTS belongs to stage one")

    def holds(self, conditions: Sequence[Expression], own: int | None) -> str:
        """The source of the conjunction of conditions."""
        used = parameters_of(conditions)
        arguments = ", ".join(self.argument(parameter, own) for parameter in used)
        return f"{self.bind_global(conjunction(conditions, used))}({arguments})"

    def arguments(self, conditions: Sequence[Expression], own: int | None) -> str:
        """The source of the values that conditions read."""
        return ", ".join([self.argument(parameter, own) for parameter in parameters_of(conditions)])

    def truth(self, conditions: Sequence[Expression], own: int | None) -> str:
        """The source of the truth of a conjunction, None where it is an error."""
        used = parameters_of(conditions)
        return f"{self.bind_global(truth_of(conditions, used))}({self.arguments(conditions, own)})"

    def value(self, expression: Expression | None) -> str:
        """The source of an assignment's term."""
        match expression:
            case None:
                return "None"
            case Const(term):
                return self.bind_global(term, "k")
            case Attribute() | TimeOf():
                return self.argument(expression, None)
            case _:
                used = parameters_of([expression])
                arguments = ", ".join(self.argument(parameter, None) for parameter in used)
                return f"{self.bind_global(evaluator(expression, used))}({arguments})"

    def filter_rows(self, target: str, source: str, conditions: Sequence[Expression], own: int | None) -> None:
        """Appends the assignment of `target`: the rows of `source` for which all conditions hold.

        Rows sorted by their constant are cut by bisection. For `?v > column 0`:

            x = V[v0[0]]
            k = type(x)
            if k is int or k is Decimal: rows1 = rows[:bisect_left(rows, x, key=cell3)]
            …
        """
        for condition in conditions:
            compared = self.row_comparison(condition)
            if compared is None:
                condition_holds = self.holds([condition], own)
                cells = self._repeated_cells(condition) if source == "rows" else ()
                if cells:
                    some = self.bind_global({tuple([row[cell] for cell in cells]): row for row in self.rows}, "some")
                    of_row = f"({''.join(f'row[{cell}], ' for cell in cells)})"
                    self.line(f"k = {{c for c, row in {some}.items() if {condition_holds}}}")
                    self.line(f"{target} = [row for row in rows if {of_row} in k] if k else []")
                else:
                    self.line(f"{target} = [row for row in {source} if {condition_holds}]")
            else:
                cell = compared.cell
                self.line(f"x = V[{self.argument(compared.left, own)}]")
                self.line("k = type(x)")
                self.line(f"if k is int or k is Decimal: {target} = {self._passing_rows(source, compared.operator, cell + 1)}")
                self.line(f"elif k is float: {target} = {self._passing_rows(source, compared.operator, cell + 2)} if x == x else []")
                self.line(f"elif k is Single: {target} = {self._passing_rows_single(source, condition, compared, own)} if x == x else []")
                self.line(f"else: {target} = []")
            source = target

    def _repeated_cells(self, condition: Expression) -> tuple[int, ...]:
        """The cells of a condition's constants if at least half of the rows repeat them: then
        the condition is evaluated once per distinct tuple."""
        columns = [int(p.name) for p in parameters_of([condition]) if isinstance(p, Attribute) and p.label == ROW]
        cells = tuple([2 + 3 * column for column in columns])
        return cells if 2 * len({tuple([row[cell] for cell in cells]) for row in self.rows}) <= len(self.rows) else ()

    def _passing_rows(self, source: str, operator: str, cell: int) -> str:
        """The rows of `source` whose constant the number `x` passes: a prefix or suffix if the
        rows are sorted by it."""
        if self.ordered_cell is None or cell not in (self.ordered_cell + 1, self.ordered_cell + 2):
            return f"[row for row in {source} if x {operator} row[{cell}]]"
        self.globals[f"cell{cell}"] = itemgetter(cell)
        return self._bisected_rows(source, operator, f"cell{cell}")

    def _passing_rows_single(self, source: str, condition: Expression, compared: RowComparison, own: int | None) -> str:
        if self.ordered_cell != compared.cell:
            return f"[row for row in {source} if {self.holds([condition], own)}]"
        cell = compared.cell + 1
        self.globals[f"single{cell}"] = lambda row: to_single(row[cell])
        return self._bisected_rows(source, compared.operator, f"single{cell}")

    @staticmethod
    def _bisected_rows(source: str, operator: str, key: str) -> str:
        side = "bisect_left" if operator in (">", "<=") else "bisect_right"
        place = f"{side}({source}, x, key={key})"
        return f"{source}[:{place}]" if operator in (">", ">=") else f"{source}[{place}:]"

    def row_comparison(self, condition: Expression) -> RowComparison | None:
        """A condition as an ordering of an attribute and a column of exact numbers; None for any
        other condition."""
        match condition:
            case Call(operator, (left, Attribute(label, name))) if operator in _ORDERED and label == ROW and _is_event_value(left):
                pass
            case Call(operator, (Attribute(label, name), left)) if operator in _ORDERED and label == ROW and _is_event_value(left):
                operator = MIRRORED[operator]
            case _:
                return None
        cell = 2 + 3 * int(name)
        return None if self.rows[0][cell + 2] is None else RowComparison(left, operator, cell)


def compile_delay(delay: AnchorDelay, attributes: Sequence[Variable], clock: Clock) -> DelayOf:
    """Compiles the delay of an event. Its value is a number of seconds or a duration without months,
    rounded half-even to a microsecond; one below 0 or above `delay.most` is no delay.

    >>> delay_of = compile_delay(AnchorDelay(60_000_000, Var("limit")), ["limit"], Clock())
    >>> delay_of(0, ('"2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>',)), delay_of(0, ('"61"',)), delay_of(0, (None,))
    (2500000, None, None)
    """
    if delay.value is None:
        most = delay.most
        return lambda time, values: most
    used = parameters_of([delay.value])
    arguments = ", ".join(f"values[{attributes.index(p.name)}]" if isinstance(p, Var) else "time_of(time)" for p in used)
    space = {
        "value": evaluator(delay.value, used),
        "time_of": lambda micros: time_term(micros, clock),
        "micros": delay_micros,
        "most": delay.most,
    }
    delay_of: DelayOf = define(f"def delay(time, values):\n    return micros(value({arguments}), most)\n", "delay", "delay", space)
    return delay_of


def terms_reader(expressions: Sequence[Expression], attributes: Sequence[Variable], clock: Clock) -> ReadTerms:
    """Compiles the terms that expressions over an event read, in the order of their parameters."""
    used = parameters_of(expressions)
    terms = "".join([f"values[{attributes.index(p.name)}], " if isinstance(p, Var) else "time_of(time), " for p in used])
    space = {"time_of": lambda micros: time_term(micros, clock)}
    read: ReadTerms = define(f"def terms(time, values):\n    return ({terms})\n", "terms of an event", "terms", space)
    return read


def delay_micros(term: Term | None, most: Micros) -> Micros | None:
    """The delay (µs) that a term says, from 0 to `most`; None: it says none."""
    value: object = None if term is None else VALUES[term]
    if isinstance(value, Duration) and not value.months:
        value = value.seconds
    if not isinstance(value, int | Decimal | float) or isinstance(value, bool):
        return None
    if isinstance(value, float) and not isfinite(value):
        return None
    micros = round(Fraction(value) * 1_000_000)  # half-even
    return micros if value >= 0 and micros <= most else None


def event_test(own: Sequence[Expression], attributes: Sequence[Variable], clock: Clock) -> EventTest:
    """Compiles the test of an event against the constraints of an index's filter.

    >>> from inspect import getsource
    >>> print(getsource(event_test([Call("BOUND", (Var("v"),))], ["room", "v"], Clock())))
    def test(time, values):
        return holds(values[1])
    <BLANKLINE>
    """
    used = parameters_of(own)
    arguments = ", ".join(f"values[{attributes.index(p.name)}]" if isinstance(p, Var) else "time_of(time)" for p in used)
    space = {"holds": conjunction(own, used), "time_of": lambda micros: time_term(micros, clock)}
    return define(f"def test(time, values):\n    return holds({arguments})\n", "event test", "test", space)


def event_condition(own: Sequence[Expression], attributes: Sequence[Variable], clock: Clock) -> EventCondition:
    """The constraints of an index's filter as a condition of its insertion.

    Constraints on attributes alone are called with these, without a function between: `?v > 3` on
    the second attribute is `test0(v[1])`.
    """
    used = parameters_of(own)
    positions = [attributes.index(each.name) for each in used if isinstance(each, Var)]
    if len(positions) == len(used):
        return EventCondition(conjunction(own, used), ", ".join(f"v[{position}]" for position in positions))
    return EventCondition(event_test(own, attributes, clock), "t, v")


def table_comparison(condition: Expression) -> Comparison | None:
    """A condition as a comparison of the event's own attribute with a column; None for any other
    condition."""
    compared = comparison(condition)
    return compared if compared is not None and isinstance(compared.constant, Attribute) and compared.constant.label == ROW else None


def cell_of(compared: Comparison) -> int:
    """The first cell of a comparison's column."""
    assert isinstance(compared.constant, Attribute)
    return 2 + 3 * int(compared.constant.name)


def searchable_constraints(part: PositionalRole, row: TableRow) -> list[Expression]:
    """The constraints of a role that a `RowFinder` searches; `row` is any row of the table."""
    found = []
    for each in part.constraints:
        compared = table_comparison(each)
        if compared is not None and (compared.operator == "=" or domain_of(row[cell_of(compared)]) is not None):  # type: ignore[arg-type]
            found.append(each)
    return found


def row_finder(
    conditions: Sequence[Expression], rows: Sequence[TableRow], attributes: Sequence[Variable], order: int | None = None
) -> RowFinder:
    """The finder of the rows for which all conditions on an event hold."""
    bounds = [RowBound(attributes.index(c.attribute), c.operator, cell_of(c)) for c in filter(None, map(table_comparison, conditions))]
    used = parameters_of(conditions)
    arguments = ", ".join(f"values[{attributes.index(p.name)}]" if isinstance(p, Var) else f"row[{2 + 3 * int(_column(p))}]" for p in used)
    test = define(f"def test(values, row):\n    return holds({arguments})\n", "row test", "test", {"holds": conjunction(conditions, used)})
    return RowFinder(rows, bounds, test, order)


def _column(parameter: Parameter) -> str:
    assert isinstance(parameter, Attribute)
    return parameter.name


def table_finder(constants: ConstantTable, attributes: Sequence[Variable]) -> RowFinder:
    """The finder of the numbers (in cell 0) of the table rows that an event satisfies."""
    rows = [(number, 0, *(cell for term in terms for cell in (term, None, None))) for number, terms in enumerate(constants.table)]
    return row_finder(constants.conditions, rows, attributes)


def _is_event_value(expression: Expression) -> TypeGuard[Var | Attribute]:
    return isinstance(expression, Var) or (isinstance(expression, Attribute) and expression.label != ROW)
