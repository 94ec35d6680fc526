"""Candidates of a clause and the tests that reject them, as source.

Idea: a clause reads one index. Its equalities with labels bound before are the key of the index,
its constraints that name no other event are the filter. Comparisons with the rules' constants split
the index into a run per table row (`rule_search`); a single threshold instead filters the active
rows at each candidate. All other constraints are tested on each candidate inside the window. For
the clause at place 2, with the window from `low2` to `high2`:

    s2_0 = v0[1]                                          the value that the key equals
    c2 = l2.get((s2_0 if s2_0 >= '<=' else key(s2_0)))    the run of the key
    q2 = (s2_0 < '<=')                                    a literal: needs an equality test as well
    for i in range(len(c2) - 1, -1, -1): …                the candidates of `last`

Cost: the candidates inside the window up to the first match for `last`, `first` and `not`; all of
them for `each`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dotr.errors.fallbacks import ExpectedError
from dotr.evaluation.expressions.values.terms import NUMERIC
from dotr.evaluation.limits import Limits
from dotr.model.algebra import Attribute, Call, Expression, TimeOf, Var, fold_balanced
from dotr.model.event_order import equated_pair
from dotr.model.rules import Mode
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock
from dotr.model.traverse import parameters_of, transform
from dotr.temporal.matching.event_store import IndexSpec, Measure
from dotr.temporal.matching.matcher.emitter import MatcherEmitter, RowComparison, cell_of, searchable_constraints, table_comparison
from dotr.temporal.matching.rule_search import ConstantTable, TableRow
from dotr.temporal.matching.rule_templates import (
    ROW,
    PositionalBetween,
    PositionalClause,
    PositionalNegation,
    PositionalRole,
    PositionalSelection,
    PositionalWindow,
    RuleGroup,
    RuleTemplate,
    may_branch,
)


class AnchorLimitExceeded(ExpectedError):
    """An anchor exceeds a limit at the clause of this place, or (0) may exceed one."""

    def __init__(self, place: int = 0) -> None:
        super().__init__(place)
        self.place = place


class ClassifiedConstraints(NamedTuple):
    """A role's constraints by evaluation: index key, index filter, or test of each candidate.

    `per_rule` tests name a rule's own constant. If the index has a run per table row, `table_cell`
    is the cell of the row's number.
    """

    equal: tuple[tuple[Variable, Attribute], ...]
    own: tuple[Expression, ...]
    tests: tuple[Expression, ...]
    per_rule: tuple[Expression, ...]
    table_cell: int | None


class CandidateEmitter(MatcherEmitter):
    """Emitter of the candidates of clauses.

    `active_rows` is the name of the rows still active, None inside a single row; `index_specs` are
    the indexes that the clauses read.

    Limits: unless `exact`, upper bounds are checked. The candidates of `each` are branches, at most
    as many as matches are allowed (`_matches`, at most half of all candidates). One half of the
    other candidates belongs to clauses evaluated once per anchor, whose runs are at most
    `_run_limit` long; the other half, `most`, is counted as `work` by clauses evaluated for several
    branches, if there are any (`counts_work`). `is_always_exact`: the bounds allow nothing, so that
    every anchor is counted exactly.
    """

    def __init__(self, group: RuleGroup, rows: tuple[TableRow, ...], clock: Clock, limits: Limits, *, exact: bool) -> None:
        template = group.template
        self.exact = exact
        self.limits = limits
        self.steps = len(template.clauses) + (template.condition is not None)
        places = template.places
        first = next((place for place in places if may_branch(template.clauses[place - 1])), places.stop - 1)
        self._repeated_places = frozenset(range(first + 1, places.stop))
        self.counts_work = any(_scans_candidates(template.clauses[place - 1], rows) for place in self._repeated_places)
        number = sum(may_branch(step) for step in template.own_clauses)
        self._matches = min(limits.matches, limits.probes // max(1, 2 * number))
        remaining = limits.probes - self._matches * number
        self.most = remaining // 2
        self._run_limit = remaining // 2 // max(1, first - places.start + 1)
        self.is_always_exact = bool(template.own_clauses) and self._run_limit < 1
        self._factor, self._product = 1, ""
        self.active_rows: str | None = "rows" if len(rows) > 1 else None
        self.index_specs: list[IndexSpec] = []
        self._constants: dict[int, ConstantTable] = {}
        self._table_cells: dict[int, int] = {}
        searched: dict[int, Sequence[Expression]] = {}
        for place, part in enumerate(group.template.roles if len(rows) > 1 else ()):
            conditions = searchable_constraints(part, rows[0])
            if not conditions or (
                len(conditions) == 1 and _is_exact(conditions[0], rows[0]) and (not place or _is_shared(group.template, place))
            ):
                continue
            searched[place] = conditions
            if place:
                constants, numbers = _numbered_constants(conditions, rows)
                self._constants[place] = constants
                self._table_cells[place] = len(rows[0])
                rows = tuple([(*row, number) for row, number in zip(rows, numbers, strict=True)])
        self.searched = searched
        super().__init__(group, rows, clock, searched)

    def classify(self, place: int, role: PositionalRole) -> ClassifiedConstraints:
        """The classification of a role's constraints."""
        equal: dict[Variable, Attribute] = {}
        own: list[Expression] = []
        tests: list[Expression] = []
        per_rule: list[Expression] = []
        for each in role.constraints:
            pair = equated_pair(each)
            if each in self.searched.get(place, ()):
                continue
            if names_row(each):
                (tests if self.active_rows is None else per_rule).append(each)
            elif pair is not None and pair[0] not in equal:
                equal[pair[0]] = pair[1]
            elif all(isinstance(p, Var) or (isinstance(p, TimeOf) and p.label == str(place)) for p in parameters_of([each])):
                own.append(_place_independent(each))
            else:
                tests.append(each)
        keys = tuple(sorted(equal.items(), key=lambda item: item[0]))
        return ClassifiedConstraints(keys, tuple(own), tuple(tests), tuple(per_rule), self._table_cells.get(place))

    def loop_over_runs(self, place: int, constraints: ClassifiedConstraints) -> None:
        """Opens a loop over the runs of the active rows; `r<place>` is one of the rows of a run.

        Three active rows with the table rows 0, 1, 0 are two turns: `runs1 = {0: [row, row], 1:
        [row]}`.
        """
        cell = constraints.table_cell
        if cell is None or self.active_rows is None:
            return
        if len(self._constants[place].table) == len(self.rows):
            self.line(f"for r{place} in {self.active_rows}:")
            self.indent += 1
            self.line(f"rows{place} = (r{place},)")
        else:
            self.line(f"runs{place} = {{}}")
            self.line(f"for row in {self.active_rows}: runs{place}.setdefault(row[{cell}], []).append(row)")
            self.line(f"for rows{place} in runs{place}.values():")
            self.indent += 1
            self.line(f"r{place} = rows{place}[0]")
        self.active_rows = f"rows{place}"

    def limit_branches(self, place: int, size: str, most: int | None) -> None:
        """Appends the limit on branches, of which the clause opens `size`, at most `most`."""
        limit = self.limits.matches if self.exact else self._matches
        if self.exact:
            product = f"{self._product} * {size}" if self._product else size
            self.line(f"n{place} = {product}")
            with self.block(f"if n{place} > {limit}:"):
                self.line(f"exceeded.add({place})")
                self.line("continue")
            self._product = f"n{place}"
        elif most is not None:
            self._factor *= most
            if not self._product and self._factor > limit:
                self.line(f"if {size} * {self._factor // most} > {limit}: raise Exceeded")
            elif self._product:
                self.line(f"if {self._product} * {self._factor} > {limit}: raise Exceeded")
        else:
            product = f"{self._product} * {size}" if self._product else size
            if any(may_branch(step) for step in self.template.clauses[place:]):
                self.line(f"n{place} = {product}")
                product = self._product = f"n{place}"
            self.line(f"if {product} > {limit // self._factor}: raise Exceeded")

    def count_candidates(self, place: int, mode: Mode, threshold: RowComparison | None = None) -> None:
        """Appends the limit on the candidates that a loop has tried."""
        if self.exact:
            self.line(f"if tried > {self.limits.probes}: raise Exceeded({place})")
        elif place in self._repeated_places:
            number = "tried" if threshold is not None else f"s{place} - i + 1" if mode is Mode.LAST else f"i - s{place} + 1"
            self.line(f"work += {number}")
            self.line(f"if work > {self.most}: raise Exceeded")
        else:
            self.line(f"if len(c{place}) > {self._run_limit}: raise Exceeded")

    def request_index(
        self, place: int, constraints: ClassifiedConstraints, measure: Measure | None = None, measured: Variable | None = None
    ) -> None:
        """Adds the index that the clause reads."""
        names = self.template.roles[place].attributes
        positions = tuple([names.index(name) for name, _ in constraints.equal])
        position = None if measured is None else names.index(measured)
        self.index_specs.append(IndexSpec(positions, constraints.own, measure, position, self._constants.get(place)))

    def look_up_run(self, place: int, constraints: ClassifiedConstraints, required: bool) -> None:
        """Assigns `c<place>`, the run of the clause's key, or None; a `required` run that is
        missing leaves the branch."""
        keys, sides = [], []
        for number, (_, other) in enumerate(constraints.equal):
            side = f"s{place}_{number}"
            self.line(f"{side} = {self.argument(other, None)}")
            sides.append(side)
            keys.append(f"({side} if {side} >= '<=' else key({side}))")
        if constraints.table_cell is not None:
            keys.append(f"{'row' if self.active_rows is None else f'r{place}'}[{constraints.table_cell}]")
        key = "None" if not keys else keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
        unbound = " or ".join(f"{side} is None" for side in sides)
        if required and unbound:
            self.line(f"if {unbound}: continue")
        self.line(f"c{place} = {f'None if {unbound} else ' if unbound and not required else ''}l{place}.get({key})")
        if required:
            self.line(f"if c{place} is None: continue")
        if sides:
            literal = " or ".join(f"{side} < '<='" for side in sides)  # or a triple term
            self.line(f"q{place} = {f'c{place} is not None and ' if not required else ''}({literal})")

    def bounds(self, place: int, scope: PositionalWindow | PositionalBetween) -> None:
        """Assigns `low<place>` and `high<place>`, the closed bounds of the window."""
        match scope:
            case PositionalWindow(near, far, reference):
                self.line(f"low{place} = {self.match_time(reference)} - {far}")
                self.line(f"high{place} = {self.match_time(reference)} - {near}")
            case PositionalBetween(first, second):
                a, b = self.match_time(first), self.match_time(second)
                self.line(f"low{place} = ({a} if {a} < {b} else {b}) + 1")
                self.line(f"high{place} = ({a} if {a} > {b} else {b}) - 1")

    def equality_tests(self, place: int, constraints: ClassifiedConstraints) -> list[str]:
        """The sources of the tests that equal keys are equal terms, which only literals need."""
        tests = []
        for number, (name, _) in enumerate(constraints.equal):
            mine, side = self.argument(Var(name), place), f"s{place}_{number}"
            tests.append(f"(not q{place} or ({mine} == {side} and {mine} not in NAN) or equal({mine}, {side}))")
        return tests

    def skip_rejected(self, place: int, clause: PositionalClause | None, constraints: ClassifiedConstraints, *, tried: bool = True) -> None:
        """Skips a candidate that is consumed, is bound to another positive role of the match, or
        fails the constraints.

        With `tried`, candidates count towards the limit unless they fail a constraint that names no
        other event: the index of a rule compiled by itself excludes those.
        """
        further = constraints.tests
        if self.exact:
            own = [test for test in further if names_row(test) and names_no_other(test, place)]
            further = tuple([test for test in further if test not in own])
            if own:
                self.line(f"if not {self.holds(own, place)}: continue")
            if tried:
                self.line("tried += 1")
        if place in self.template.consuming:
            self.line(f"if (t{place}, o{place}) in used{place}: continue")
        if clause is not None:
            for other in self.possible_duplicates(place, clause):
                self.line(f"if o{place} == o{other} and t{place} == t{other}: continue")
        tests = self.equality_tests(place, constraints)
        if further and clause is not None:
            if tests:
                self.line(f"if not ({' and '.join(tests)}): continue")
            self.line(f"holds = {self.truth(further, place)}")
            with self.block("if not holds:"):
                self.line(f"if holds is None: erring{place}.append((t{place}, o{place}, v{place}))")
                self.line("continue")
            return
        if further:
            tests.append(self.holds(further, place))
        if tests:
            self.line(f"if not ({' and '.join(tests)}): continue")

    def expect_errors(self, place: int, constraints: ClassifiedConstraints) -> bool:
        """Assigns `erring<place>`, the candidates whose constraints err, where any can; returns
        whether one can. Constraints that name no other event are the filter of the index."""
        errs = bool(constraints.tests) or any(not names_no_other(each, place) for each in constraints.per_rule)
        if errs:
            self.line(f"erring{place} = []")
        return errs

    def count_errors(self, place: int, constraints: ClassifiedConstraints, rows: str | None) -> None:
        """Appends the count of a branch that ends at a clause while the constraints of a candidate
        err. For `?v > A.?v + column 0`, with the rows that no candidate satisfies:

        for e1 in erring1:
            t1, o1, v1 = e1
            for row in left1:
                if f(v1[0], v0[0], row[2]) is None:
                    failed1.setdefault(row[0], (v1[0], v0[0], row[2]))
        for rule, terms in failed1.items(): counter.fail(rule, 1, e0, condition, terms)
        """
        of_row = [each for each in constraints.per_rule if not names_no_other(each, place)]
        own = [each for each in constraints.per_rule if each not in of_row]
        tests = [*constraints.tests, *of_row]
        with self.block(f"if erring{place}:"):
            self.line("failed = {}")
            with self.block(f"for e in erring{place}:"):
                self.line(f"t{place}, o{place}, v{place} = e")
                with self.block(f"for row in {rows or '(row,)'}:"):
                    if own:
                        self.line(f"if not {self.holds(own, place)}: continue")
                    terms = self.arguments(tests, place)
                    self.line(f"if {self.truth(tests, place)} is None: failed.setdefault(row[0], ({terms},))")
            condition = self.bind_global(_together(tests), "condition")
            self.line(f"for rule, terms in failed.items(): counter.fail(rule, {place}, e0, {condition}, terms)")

    def possible_duplicates(self, place: int, clause: PositionalClause) -> list[int]:
        """The positive places before this one whose event a candidate could be, but may not."""
        if isinstance(clause.operation, PositionalSelection) and clause.operation.also:
            return []
        return [
            other
            for other in range(place)
            if self.template.is_positive(other)
            and self.template.roles[other].first_of_source == clause.role.first_of_source
            and not (
                isinstance(clause.scope, PositionalWindow)
                and clause.scope.reference == other
                and clause.scope.near > self.template.roles[other].delay  # the greatest one, of a delay by value
            )
        ]

    def latest(self, place: int, scope: PositionalWindow | PositionalBetween) -> str:
        """The source of the position of the latest candidate in its run, -1 if there is none."""
        if self.ends_now(place, scope):
            return f"len(c{place}) - 1"
        return f"len(c{place}) - 1 if c{place}[-1][0] <= high{place} else bisect(c{place}, (high{place} + 1,)) - 1"

    def ends_now(self, place: int, scope: PositionalWindow | PositionalBetween) -> bool:
        """True if the window ends at the present, so that the store has no later event."""
        if not self.is_up_to_now(place):
            return False
        return isinstance(scope, PositionalWindow) and scope.reference == 0 and scope.near == 0

    def is_up_to_now(self, place: int) -> bool:
        """True if the store of a clause has no event later than the present.

        Replicated events are stored once per bucket for the whole batch, while the pages of the
        bucket are processed one after the other: such a store may be ahead of the present.
        """
        return self.template.stage is None or place not in self.template.stage.replicated

    def threshold(self, constraints: ClassifiedConstraints) -> RowComparison | None:
        """The first comparison of a candidate's attribute with the rows' own constants."""
        return next((c for c in map(self.row_comparison, constraints.per_rule) if c is not None and isinstance(c.left, Var)), None)

    def skip_measure(self, role: PositionalRole, constraints: ClassifiedConstraints) -> tuple[Measure | None, Variable | None]:
        """The measure and attribute by which the index skips candidates that no row accepts."""
        threshold = self.threshold(constraints)
        if threshold is None or not isinstance(threshold.left, Var):
            return None, None
        return Measure.ABOVE if threshold.operator in (">", ">=") else Measure.BELOW, threshold.left.name

    def weakest_bound(self, threshold: RowComparison, rows: str) -> str:
        """The source of the weakest constant among the active rows."""
        above, cell = threshold.operator in (">", ">="), threshold.cell + 2
        if self.ordered_cell == threshold.cell:
            return f"{rows}[{0 if above else -1}][{cell}]"
        return f"{'min' if above else 'max'}([row[{cell}] for row in {rows}])"

    def search(self, place: int, clause: PositionalClause, mode: Mode, threshold: RowComparison | None = None, rows: str = "") -> None:
        """Opens a loop over the candidates `e`, from the latest or the first on.

        With a threshold, after 16 misses the loop skips to the next candidate that a row of
        `rows` may accept:

            i = i - 1 if misses < 16 else c1.last_before(i, left[0][4])
        """
        counted = place in self._repeated_places and not self.exact
        if mode is Mode.LAST:
            outside = f"t{place} < low{place}"
            start = self.latest(place, clause.scope)
            each = f"for i in range({f's{place}' if counted else start}, -1, -1):"
            steps = [f"i = ({start}) + 1", "i = i - 1 if misses < 16 else c{p}.last_before(i, {b})", "if i < 0: break"]
        else:
            outside = f"t{place} > high{place}"
            start = f"bisect(c{place}, (low{place},))"
            each = f"for i in range({f's{place}' if counted else start}, len(c{place})):"
            steps = [f"i = {start} - 1", "i = i + 1 if misses < 16 else c{p}.first_from(i + 1, {b})", "if i >= len(c{p}): break"]
        if threshold is None:
            if counted:
                self.line(f"i = s{place} = {start}")
            self.line(each)
            self.indent += 1
        else:
            self.line(steps[0])
            self.line("misses = 0")
            self.line("for tried in every:" if counted else "while True:")
            self.indent += 1
            self.line(steps[1].format(p=place, b=self.weakest_bound(threshold, rows)))
            self.line(steps[2].format(p=place))
        self.line(f"t{place}, o{place}, v{place} = e = c{place}[i]")
        self.line(f"if {outside}: break")

    def loop_over_rows(self) -> None:
        """Opens a loop over the active rows: the following code is for one row."""
        self.line(f"for row in {self.active_rows}:")
        self.indent += 1
        self.active_rows = None

    def keep_rows(self, conditions: Sequence[Expression], own: int | None, number: int) -> None:
        """Keeps the rows that satisfy the conditions; without any, the branch ends."""
        assert self.active_rows is not None
        self.filter_rows(f"rows{number}", self.active_rows, conditions, own)
        self.active_rows = f"rows{number}"
        self.line(f"if not {self.active_rows}: continue")

    def note_row_errors(self, place: int, constraints: ClassifiedConstraints) -> None:
        """Appends a candidate to `erring<place>` where constraints of single rows may err."""
        if any(not names_no_other(each, place) for each in constraints.per_rule):
            self.line(f"erring{place}.append(e)")

    def count_row_errors(self, place: int, constraints: ClassifiedConstraints) -> None:
        """Appends the count of the errors of the rows that no candidate satisfies."""
        with self.block(f"if erring{place}:"):
            self.line(f"hit_rules = {{row[0] for _, hit in picked{place} for row in hit}}")
            self.count_errors(place, constraints, f"[row for row in {self.active_rows} if row[0] not in hit_rules]")

    def count_condition_errors(self, condition: Expression) -> None:
        """Appends the count, for each active row, of a binding at which `if` is an error."""
        terms = "".join([f"{self.argument(each, None)}, " for each in parameters_of([condition])])
        fail = f"counter.fail(row[0], {self.steps}, e0, {self.bind_global(condition, 'condition')}, ({terms}))"
        if self.active_rows is None or not names_row(condition):
            self.line(fail if self.active_rows is None else f"for row in {self.active_rows}: {fail}")
            return
        with self.block(f"for row in {self.active_rows}:"):
            self.line(f"if {self.truth([condition], None)} is None: {fail}")

    def count_errors_of_rows(self, conditions: Sequence[Expression]) -> None:
        """Appends the count of the rows at which conditions with rows' constants are an error. Where
        all of them compare a value with a number, only a value that is none can err."""
        condition = _together(conditions)
        compared = [self.row_comparison(each) for each in conditions]
        if all(compared):
            kinds = " or ".join([f"type(V[{self.argument(each.left, None)}]) not in NUMERIC" for each in compared if each is not None])
            self.globals["NUMERIC"] = NUMERIC
            with self.block(f"if {kinds}:"):
                self.count_condition_errors(condition)
        else:
            self.count_condition_errors(condition)

    def keep_hit_rows(self, place: int, constraints: ClassifiedConstraints) -> None:
        """Assigns `hit`, the rows of `left` that accept the candidate; without any, the loop
        continues."""
        self.filter_rows("hit", "left", constraints.per_rule, place)
        self.line("if not hit:")
        self.line("    misses += 1")
        self.line("    continue")

    def remove_hit_rows(self, constraints: ClassifiedConstraints) -> None:
        """Removes the rows of `hit` from `left`."""
        threshold = self.threshold(constraints)
        if len(constraints.per_rule) == 1 and threshold is not None and threshold.cell == self.ordered_cell:
            self.line("left = " + ("left[len(hit):]" if threshold.operator in (">", ">=") else "left[:len(left) - len(hit)]"))
        else:
            self.line("hit_rules = {row[0] for row in hit}")
            self.line("left = [row for row in left if row[0] not in hit_rules]")


def _together(conditions: Sequence[Expression]) -> Expression:
    """The conjunction of conditions as one."""
    return fold_balanced(conditions, lambda a, b: Call("&&", (a, b)))


def _is_exact(condition: Expression, row: TableRow) -> bool:
    """True for an ordering comparison with integers and decimals."""
    compared = table_comparison(condition)
    return compared is not None and compared.operator != "=" and row[cell_of(compared) + 2] is not None


def _is_shared(template: RuleTemplate, place: int) -> bool:
    """True if all rows share one scan of a clause's candidates."""
    operation = template.clauses[place - 1].operation
    return not template.consuming and (
        isinstance(operation, PositionalNegation) or (isinstance(operation, PositionalSelection) and operation.count == 1)
    )


def _numbered_constants(conditions: Sequence[Expression], rows: Sequence[TableRow]) -> tuple[ConstantTable, list[int]]:
    """The distinct constants of some conditions, and for each row the number of its own."""
    compared = [each for each in map(table_comparison, conditions) if each is not None]
    numbers: dict[tuple[Term, ...], int] = {}
    of_rows = [numbers.setdefault(tuple([row[cell_of(each)] for each in compared]), len(numbers)) for row in rows]  # type: ignore[misc]
    renamed = [Call(each.operator, (Var(each.attribute), Attribute(ROW, str(n)))) for n, each in enumerate(compared)]
    return ConstantTable(tuple(renamed), tuple(numbers)), of_rows


def names_row(expression: Expression) -> bool:
    """True if an expression names a rule's own constant."""
    return any(isinstance(p, Attribute) and p.label == ROW for p in parameters_of([expression]))


def _scans_candidates(clause: PositionalClause, rows: Sequence[TableRow]) -> bool:
    """True if a clause may scan candidates that open no branch."""
    return not (isinstance(clause.operation, PositionalSelection) and clause.operation.mode is Mode.EACH and len(rows) == 1)


def names_no_other(test: Expression, place: int) -> bool:
    """True if a test reads only its own event and the rules' constants."""
    return all(
        isinstance(p, Var) or (isinstance(p, TimeOf) and p.label == str(place)) or (isinstance(p, Attribute) and p.label == ROW)
        for p in parameters_of([test])
    )


def _place_independent(expression: Expression) -> Expression:
    """A constraint that names no other event, in a form independent of its place."""
    return transform(expression, lambda part: TimeOf("") if isinstance(part, TimeOf) else part)
