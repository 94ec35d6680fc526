"""The bindings of a rule, found from its anchor (semantics.md, section 4; TESLA).

Each rule becomes one generated function: a loop over the anchors of the instant, and inside it one stretch of code a clause, in the order
written. `last` and `first` leave their loop with the first candidate that satisfies the clause's constraints; `each` opens a loop
around what follows. Candidates come from the index that the clause's equalities ask for, cut to the window by bisection.

Invariant: when a rule is run at t, the stores hold every event of its ports with time at most t. Cost: for each anchor, the candidates of
its own keys inside the windows, and for `last` and `first` no more of them than are passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from dotr.diagnostics import refuse
from dotr.expressions import Parameter, condition, conjunction, equality_key, evaluator
from dotr.expressions.times import time_term
from dotr.model.algebra import Attribute, Call, Exists, Expression, TimeOf, Var
from dotr.model.rules import Choose, Mode, Role, Rule, Window
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.store import Happened, KeyIndex
from dotr.patterns.ties import Values, equalities, equality


class Match(NamedTuple):
    """A complete binding: the bound events, the anchor first and the clauses' in the order written, and the composite event's values."""

    bound: tuple[Happened, ...]
    values: Values


Consumed: TypeAlias = set[tuple[Micros, int]]
"""The (time, ordinal) of the events of one label that a rule has used up."""

Find: TypeAlias = Callable[[Sequence[Happened], Sequence[KeyIndex], Sequence[Consumed]], list[Match]]


@dataclass(frozen=True, slots=True)
class Look:
    """What a clause needs of its port's store: an index on these attribute positions, over events this old."""

    positions: tuple[int, ...]
    retention: Micros


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled rule: `find(anchors, indexes, consumed)`, what each clause's index must offer, and which bound places are consumed,
    in the order of `consumed`."""

    find: Find
    looks: tuple[Look, ...]
    consuming: tuple[int, ...]
    source: str


def compile_matcher(rule: Rule, attributes: Sequence[Variable], clock: Clock) -> Matcher:
    """Generate a rule's matcher; `attributes` are those of its composite event, sorted (all the rules' that define the event).

    Raises `Refused` for a clause that is not evaluated yet (the language refuses it first, with its place).
    """
    chooses: list[Choose] = []
    for clause in rule.clauses:
        if not isinstance(clause, Choose) or clause.count not in (None, 1):
            raise refuse("D901", "this clause is not evaluated yet", rule.span)
        chooses.append(clause)
    return _Writer(rule, chooses, attributes, clock).matcher()


class _Writer:
    """Writes the source of one rule's matcher."""

    def __init__(self, rule: Rule, chooses: Sequence[Choose], attributes: Sequence[Variable], clock: Clock) -> None:
        self.rule = rule
        self.chooses = chooses
        self.attributes = attributes
        self.lines: list[str] = []
        self.indent = 1
        self.globals: dict[str, object] = {
            "bisect": bisect_left,
            "key": equality_key,
            "Match": Match,
            "time_term": lambda micros: time_term(micros, clock),
        }
        self.place: dict[Label, int] = {rule.anchor.label: 0}
        self.sources: dict[Label, tuple[Variable, ...]] = {rule.anchor.label: rule.anchor.source.attributes}
        self.reach: dict[Label, Micros] = {rule.anchor.label: 0}
        self.looks: list[Look] = []
        roles = [choose.role.label for choose in chooses]
        self.consumed = {label: number for number, label in enumerate(x for x in rule.consuming if x in roles)}

    def matcher(self) -> Matcher:
        for number in range(len(self.chooses)):
            self.line(f"index{number + 1} = indexes[{number}]")
        for label, number in self.consumed.items():
            self.line(f"used_{self._number(label)} = consumed[{number}]")
        self.line("found = []")
        self.line("for e0 in anchors:")
        self.indent += 1
        if self.consumed:
            self.line("mark = len(found)")
        anchor_level = self.indent
        self.line("t0, _, v0 = e0")
        self.guard(self.rule.anchor, self.rule.anchor.constraints, 0)
        for number, choose in enumerate(self.chooses, 1):
            self.choose(number, choose)
        self.finish()
        self.indent = anchor_level
        if self.consumed:
            self.line("for m in found[mark:]:")
            for label in self.consumed:
                self.line(f"    used_{self._number(label)}.add(m.bound[{self._number(label)}][:2])")
        self.indent = 1
        self.line("return found")
        source = "def find(anchors, indexes, consumed):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.globals)
        exec(compile(source, f"<rule {self.rule.name}>", "exec"), namespace)
        find: Find = namespace["find"]  # type: ignore[assignment]
        return Matcher(find, tuple(self.looks), tuple(self._number(label) for label in self.consumed), source)

    def _number(self, label: Label) -> int:
        """A clause label's place among the bound events, also before it is bound."""
        return 1 + next(n for n, choose in enumerate(self.chooses) if choose.role.label == label)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def named(self, value: object) -> str:
        name = f"f{len(self.globals)}"
        self.globals[name] = value
        return name

    def argument(self, parameter: Parameter, own: Role | None, number: int, names: Mapping[int, str]) -> str:
        """The source of an expression's argument: a bound event's attribute or time. `own` is the candidate's role, numbered `number`."""
        match parameter:
            case Var(name):
                assert own is not None, "aggregates come with the clauses that make them"
                return f"v{number}[{own.source.attributes.index(name)}]"
            case Attribute(label, name):
                return f"v{self.place[label]}[{self.sources[label].index(name)}]"
            case TimeOf(label):
                at = number if own is not None and own.label == label else self.place[label]
                return f"time_term(t{at})"
            case Exists():
                raise AssertionError("EXISTS belongs to stage one")

    def call(self, function: object, parameters: Sequence[Parameter], own: Role | None, number: int) -> str:
        arguments = ", ".join(self.argument(parameter, own, number, {}) for parameter in parameters)
        return f"{self.named(function)}({arguments})"

    def test(self, constraints: Sequence[Expression], own: Role, number: int) -> str:
        """The source of the constraints' conjunction; equal terms that are no literals need no evaluation to be equal."""
        tests: list[str] = []
        rest: list[Expression] = []
        for constraint in constraints:
            pair = equality(constraint)
            if pair is None:
                rest.append(constraint)
                continue
            left, right = (self.argument(p, own, number, {}) for p in (Var(pair[0]), pair[1]))
            parameters = (Var(pair[0]), pair[1])
            full = self.call(condition(Call("=", parameters), parameters), parameters, own, number)
            tests.append(f"(({left} == {right} and {left} is not None and {left}[0] != '\"') or {full})")
        if rest:
            used = parameters_of(rest)
            tests.append(self.call(conjunction(rest, used), used, own, number))
        return " and ".join(tests)

    def guard(self, role: Role, constraints: Sequence[Expression], number: int) -> None:
        if constraints:
            self.line(f"if not ({self.test(constraints, role, number)}): continue")

    def choose(self, number: int, clause: Choose) -> None:
        """The code that binds e<number>, and leaves the writer indented where what follows belongs."""
        role, window = clause.role, clause.window
        self.look(role, window)
        self.candidates(number, role)
        reference = self.place[window.reference]
        near, far = window.interval.bounds
        self.line(f"low{number} = t{reference} - {far}")
        self.line(f"high{number} = t{reference} - {near}")
        body = self.indent
        match clause.mode:
            case Mode.EACH:
                self.line(f"for e{number} in c{number}[bisect(c{number}, (low{number},)):bisect(c{number}, (high{number} + 1,))]:")
                self.indent += 1
                self.passed_over(number, role)
            case Mode.LAST | Mode.FIRST:
                self.line(f"e{number} = None")
                if clause.mode is Mode.LAST:
                    self.line(f"for k in range(bisect(c{number}, (high{number} + 1,)) - 1, -1, -1):")
                    outside = f"if e[0] < low{number}: break"
                else:
                    self.line(f"for k in range(bisect(c{number}, (low{number},)), len(c{number})):")
                    outside = f"if e[0] > high{number}: break"
                self.indent += 1
                self.line(f"e = c{number}[k]")
                self.line(outside)
                self.passed_over(number, role, candidate="e")
                self.line(f"e{number} = e")
                self.line("break")
                self.indent = body
                self.line(f"if e{number} is None: continue")
                self.line(f"t{number}, _, v{number} = e{number}")
        self.place[role.label] = number
        self.sources[role.label] = role.source.attributes
        self.reach[role.label] = self.reach[window.reference] + far

    def passed_over(self, number: int, role: Role, candidate: str = "") -> None:
        """Skip a candidate that is consumed, has a role already, or fails the clause's constraints."""
        event = candidate or f"e{number}"
        self.line(f"t{number}, o{number}, v{number} = {event}")
        if role.label in self.consumed:
            self.line(f"if (t{number}, o{number}) in used_{number}: continue")
        for other, place in self.place.items():
            mate = self.rule.anchor if place == 0 else self.chooses[place - 1].role
            if mate.origin == role.origin:
                self.line(f"if {event}[:2] == e{self.place[other]}[:2]: continue")
        self.guard(role, role.constraints, number)

    def look(self, role: Role, window: Window) -> None:
        names = role.source.attributes
        positions = tuple(names.index(name) for name, _ in equalities(role.constraints))
        self.looks.append(Look(positions, self.reach[window.reference] + max(0, window.interval.bounds[1])))

    def candidates(self, number: int, role: Role) -> None:
        """c<number>: the events of the clause's key; no key, no candidate."""
        sides = [self.argument(other, role, number, {}) for _, other in equalities(role.constraints)]
        for side in sides:
            self.line(f"if {side} is None: continue")
        keys = [f"key({side})" for side in sides]
        key = "None" if not keys else keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        self.line(f"c{number} = index{number}.get({key})")
        self.line(f"if c{number} is None: continue")

    def finish(self) -> None:
        """`if`, then `with`, then the match."""
        if self.rule.condition is not None:
            used = parameters_of([self.rule.condition])
            self.line(f"if not {self.call(condition(self.rule.condition, used), used, None, 0)}: continue")
        given = {assignment.variable: assignment.expression for assignment in self.rule.assignments}
        values = ["None" if name not in given else self.value(given[name]) for name in self.attributes]
        bound = ", ".join(f"e{number}" for number in range(len(self.chooses) + 1))
        self.line(f"found.append(Match(({bound},), ({', '.join(values)}{',' if values else ''})))")

    def value(self, expression: Expression) -> str:
        if isinstance(expression, Attribute):
            return self.argument(expression, None, 0, {})
        used = parameters_of([expression])
        return self.call(evaluator(expression, used), used, None, 0)


def parameters_of(expressions: Sequence[Expression]) -> tuple[Parameter, ...]:
    """What the expressions read, each once, in order of appearance."""
    found: dict[Parameter, None] = {}

    def walk(expression: Expression) -> None:
        match expression:
            case Var() | Attribute() | TimeOf() | Exists():
                found.setdefault(expression)
            case Call(_, arguments):
                for argument in arguments:
                    walk(argument)
            case _:
                pass

    for expression in expressions:
        walk(expression)
    return tuple(found)
