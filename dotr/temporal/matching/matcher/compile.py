"""Compilation of matchers: the bindings of rules from their anchors (semantics.md, section 4;
TESLA).

Idea: each rule template becomes one generated function: a loop over the anchors of the instant, and
in it the code of each clause in the order written. `last` and `first` leave their loop at the first
candidate that satisfies the constraints; `each` opens a loop around the following clauses.
Candidates come from an index by the clause's equalities, cut to the window by bisection. If many
rules share the template, a list of active rows is carried through the clauses; a clause with a
rule's own constant filters or splits the list, and every other clause is evaluated once.
Limits: they apply to one rule at one anchor (semantics.md, section 8) and are exact. The function
for all rows checks upper bounds instead: the events in a window and the lengths of the runs
scanned. At an anchor that passes a bound, the function raises `AnchorLimitExceeded`, and a second
function, compiled on demand, finds the matches of one rule at a time and counts exactly.
Invariant: when a rule is evaluated at t, the stores hold every event of its ports with time at most
t.
Cost: for each anchor, the candidates of its own keys inside the windows: for `last` and `first` up
to the one selected, for `not` up to the first that matches; an aggregate costs a query of
`key_index` or `sums` if its constraints are equalities and filters, otherwise its candidates.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions import equality_key, write
from dotr.evaluation.limits import Limits
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Expression, TimeOf
from dotr.model.rules import Mode
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.model.traverse import conjuncts, parameters_of
from dotr.temporal.matching.event_store import IndexSpec, KeyIndex
from dotr.temporal.matching.events import EnteringBinding, Match, SearchStart, StoredEvent
from dotr.temporal.matching.matcher.aggregates import EQUAL, NAN, AggregateEmitter
from dotr.temporal.matching.matcher.candidates import (
    AnchorLimitExceeded,
    ClassifiedConstraints,
    names_row,
)
from dotr.temporal.matching.matcher.emitter import row_finder
from dotr.temporal.matching.rule_counts import GroupCounter
from dotr.temporal.matching.rule_search import TableRow
from dotr.temporal.matching.rule_templates import (
    PositionalAggregate,
    PositionalClause,
    PositionalNegation,
    PositionalOnce,
    PositionalRole,
    PositionalSelection,
    RuleGroup,
)

ConsumedEvents: TypeAlias = set[tuple[Micros, int]]
"""The (time, ordinal) of the consumed events of one label of a rule."""

FindMatches: TypeAlias = Callable[
    [Iterable[SearchStart], Sequence[KeyIndex], Sequence[ConsumedEvents], list[Match], int, GroupCounter], None
]
"""`find(anchors, indexes, consumed, found, base, counter)` appends the matches to `found`; a
match's ordinal is `base` plus its position. The counter is changed. In a stage of rules, the search
may start from bindings instead of anchors, and may find bindings for the next stage."""

DecodeBindings: TypeAlias = Callable[[Iterable[StoredEvent]], list[EnteringBinding]]
"""Decodes the arrivals at a port of bindings to those of a group's rules; bindings with equal
anchors are adjacent."""

FindExactMatches: TypeAlias = Callable[
    [SearchStart, TableRow, Sequence[KeyIndex], Sequence[ConsumedEvents], list[Match], int, set[int], GroupCounter], None
]
"""`exact(anchor, row, indexes, consumed, found, base, exceeded, counter)` appends the matches of
one rule at one anchor, which it does not count again as an anchor.

The places of clauses whose branches exceed the limit are added to `exceeded`. Raises
`AnchorLimitExceeded` if the anchor tries too many candidates: then the caller discards its matches.
"""

_GROUP_MATCHES: Final = 200_000
"""The number of matches of a group at one anchor above which each rule is evaluated by itself."""


class LoneSearch(NamedTuple):
    """The body of `find` for the anchor `event` alone, as lines that are indented once, and the
    names that it reads."""

    lines: Sequence[str]
    names: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Matcher:
    """The compiled rules of one template.

    `index_specs` has the index of each clause. `find` raises `AnchorLimitExceeded` at an anchor
    where a rule may exceed a limit; then `compile_exact` compiles the function for single `rows`. A
    rule has several matches of one anchor only if the template `may_branch`. A rule has `steps`
    clauses, its `if` included. `prefix`: the active rows of an anchor are the first rows (False:
    the last); None: any rows may be active. `counted`: the bindings left after each step are
    counted.

    For a stage of rules: `decode` decodes the bindings that enter it (None: anchors enter), `sends`
    is true if bindings leave it, and `passed` is the number of clauses of the stages before. `lone`
    compiles the search for a lone-fact function; None, or a result of None, if there is none.
    """

    find: FindMatches
    index_specs: tuple[IndexSpec, ...]
    source: str
    compile_exact: Callable[[], FindExactMatches]
    rows: tuple[TableRow, ...]
    may_branch: bool
    steps: int
    prefix: bool | None
    counted: bool
    decode: DecodeBindings | None = None
    sends: bool = False
    passed: int = 0
    lone: Callable[[], LoneSearch | None] | None = None

    def counter(self) -> GroupCounter:
        """A new counter of the group's anchors."""
        rules: list[int] = [row[0] for row in self.rows]  # type: ignore[misc]
        return GroupCounter(rules, self.steps, prefix=self.prefix, counted=self.counted, passed=self.passed)

    def unbuffered_anchors(self, many: int) -> int:
        """The number of anchors that have at most `many` matches together, at least 1."""
        return 1 if self.may_branch else max(1, many // len(self.rows))


class RuleMatcherEmitter(AggregateEmitter):
    """Emitter of one matcher.

    `start` is the Python name of the anchor or binding from which a search starts. `sizes_travel`:
    bindings hold the numbers of events that clauses choose. `is_complete`: the matches are already
    appended.
    """

    def __init__(
        self, group: RuleGroup, rows: tuple[TableRow, ...], clock: Clock, limits: Limits, *, exact: bool = False, counted: bool = False
    ) -> None:
        super().__init__(group, rows, clock, limits, exact=exact)
        self.counted = counted
        self.numbers = group.numbers
        self.sizes_travel = False
        self.is_complete = False
        self.start = "e0"
        self.prefix = self.active_prefix()
        self.globals |= {
            "bisect": bisect_left,
            "key": equality_key,
            "never": -LAST_MICRO << 1,
            "equal": EQUAL,
            "every": range(1, sys.maxsize),
            "Exceeded": AnchorLimitExceeded,
            "NAN": NAN,
            "rows": self.rows,
            "count": count,
            "number": itemgetter(0),
            "repeat": repeat,
            "write": write,
        }

    def matcher(self, exact: Callable[[], FindExactMatches]) -> Matcher:
        """The function for all rows, with the factory `exact` of the function for single rows."""
        template = self.template
        lines = self.lines
        if self.is_always_exact:
            active = self.active_rows
            with self.block(f"for {self.start} in anchors:"):
                self.anchor_event()
                self.line("raise Exceeded")
            self.active_rows, self.lines = active, []
            self.body()  # for its side effect on index_specs
        else:
            self.loop_over_anchors("anchors")
        source = "def find(anchors, indexes, consumed, found, base, counter):\n" + "\n".join(lines) + "\n"
        find: FindMatches = self.define(source, "find")
        if self.counted:
            find = _count_whole_anchors(find)
        specs = tuple(self.index_specs)
        return Matcher(find, specs, source, exact, self.rows, template.may_branch, self.steps, self.prefix, self.counted)

    def loop_over_anchors(self, anchors: str) -> None:
        """Appends the bindings before the loop, and the loop over `anchors`."""
        template = self.template
        self.bind_indexes()
        self.bind_counts()
        if self.active_rows is None:
            self.line("row = rows[0]")
            self.bind_consumed()
            self.bind_once()
        with self.block(f"for {self.start} in {anchors}:"):
            if template.consuming:
                self.line("consumed_now = []")
            if self.fires_later:
                self.line("fired_now, held_now = {}, []")
            level = self.indent
            if template.may_branch and self.active_rows is not None:
                self.line(f"most = len(found) + {_GROUP_MATCHES}")
            if self.counts_work:
                self.line("work = 0")
            self.body()
            self.indent = level
            if template.consuming:
                self.line("for used, events in consumed_now: used.update(events)")
            self.note_firings()

    def exact_function(self) -> FindExactMatches:
        """The function that finds the matches of one anchor for one row, with exact limits."""
        self.active_rows = None
        self.bind_indexes()
        self.bind_counts()
        self.bind_consumed()
        self.bind_once()
        self.line("tried = 0")
        if self.template.consuming:
            self.line("consumed_now = []")
        if self.fires_later:
            self.line("fired_now, held_now = {}, []")
        with self.block("for once in (None,):"):
            self.body()
        self.indent = 1
        if self.template.consuming:
            with self.block("if not exceeded:"):
                self.line("for used, events in consumed_now: used.update(events)")
        self.note_firings()
        exact: FindExactMatches = self.define(
            f"def exact({self.start}, row, indexes, consumed, found, base, exceeded, counter):\n" + "\n".join(self.lines) + "\n", "exact"
        )
        return exact

    def define(self, source: str, name: str) -> Any:
        """Compiles the function `name` with the globals bound so far."""
        return define(source, "matcher", name, self.globals)

    def bind_indexes(self) -> None:
        """Assigns `l<place>`, the index of each clause."""
        for number, place in enumerate(self.template.places):
            self.line(f"l{place} = indexes[{number}]")

    @property
    def takes_rows_singly(self) -> bool:
        """True if a firing of one row may change what another firing of the row does."""
        return bool(self.template.consuming) or self.template.once is not None

    def bind_once(self) -> None:
        """Assigns `firings`, those of the row that hold others back. Behind the indexes of the
        clauses `indexes` has those of the rules, in their order."""
        if self.template.once is not None:
            first = len(self.template.places)
            place = self.bind_global({number: first + n for n, number in enumerate(self.numbers)})
            self.line(f"firings = indexes[{place}[row[0]]]")
            if not self.fires_later:
                self.line("note = firings.note")

    def bind_counts(self) -> None:
        """Assigns `m<place>`, the rows of which no binding has passed the clause yet; or `after`,
        the bindings left after each clause."""
        if self.counted:
            self.line("after = counter.after")
            return
        if self.steps > 1:
            names = [f"m{place}" for place in range(1, self.steps)]
            self.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = counter.unreached")
            self.line("reach = counter.reach")

    def count_step(self, place: int) -> None:
        """Appends the count of the bindings that satisfy the clause at this place."""
        if self.counted:
            self.line(f"after[{place - 1}] += 1")
        elif place < self.steps:
            self.line(f"if m{place}: reach({place}, {'(row,)' if self.active_rows is None else self.active_rows})")

    def active_prefix(self) -> bool | None:
        """True or False if the rows active at an anchor are the first or the last rows, because
        one ordered constant selects them; None if they may be any."""
        per_rule = [each for each in self.template.anchor.constraints if names_row(each)]
        compared = self.row_comparison(per_rule[0]) if len(per_rule) == 1 and not self.searched.get(0) else None
        if compared is None or compared.cell != self.ordered_cell or self.exact:
            return None
        return compared.operator in (">", ">=")

    def count_anchor(self) -> None:
        """Appends the count of the anchor for the active rows."""
        if self.exact:
            return
        if self.active_rows in (None, "rows"):
            self.line("counter.anchors += 1")
        elif self.prefix is not None:
            self.line(f"counter.lengths[len({self.active_rows})] += 1")
        else:
            self.line(f"for row in {self.active_rows}: counter.by_rule[row[0]] += 1")

    def anchor_event(self) -> None:
        """Appends the assignment of the anchor's parts, its constraints, and its count."""
        self.line("t0, o0, v0 = e0")
        self.assign_now()
        self.anchor(self.template.anchor)
        self.count_anchor()

    def body(self) -> None:
        """Appends the code for one anchor."""
        template = self.template
        self.anchor_event()
        if self.takes_rows_singly and self.active_rows is not None:
            self.loop_over_rows()
            self.bind_consumed()
            self.bind_once()
        for place in template.places:
            self.clause(place, template.clauses[place - 1])
            self.count_step(place)
        if not self.is_complete:
            self.emit_match()

    def bind_consumed(self) -> None:
        """Assigns `used<place>`, the consumed set of each consumed label."""
        for number, place in enumerate(self.template.consuming):
            self.line(f"used{place} = consumed[row[1] + {number}]")

    def anchor(self, role: PositionalRole) -> None:
        """Appends the anchor's constraints; a search finds the rows whose constants the event
        satisfies."""
        if self.exact:
            if role.constraints:
                self.line(f"if not {self.holds(role.constraints, 0)}: continue")
            return
        shared = [c for c in role.constraints if not names_row(c)]
        per_rule = [c for c in role.constraints if names_row(c)]
        if shared:
            self.require_of_anchor(shared)
        searched = self.searched.get(0, ())
        if searched:
            order = None if self.ordered_cell is None else self.ordered_cell + 1
            self.line(f"rows0 = {self.bind_global(row_finder(searched, self.rows, role.attributes, order))}(v0)")
            self.line("if not rows0: continue")
            self.active_rows = "rows0"
            per_rule = [c for c in per_rule if c not in searched]
        if per_rule:
            self.keep_rows(per_rule, 0, 0)

    def require_of_anchor(self, conditions: Sequence[Expression]) -> None:
        """Skips an anchor that fails constraints of all rows."""
        self.line(f"if not {self.holds(conditions, 0)}: continue")

    # --- clauses ---

    def clause(self, place: int, clause: PositionalClause) -> None:
        """Appends the code of a clause."""
        constraints = self.classify(place, clause.role)
        self.loop_over_runs(place, constraints)
        match clause.operation:
            case PositionalSelection(mode, number, _):
                if constraints.per_rule and mode is not Mode.EACH and number > 1:
                    self.loop_over_rows()
                    constraints = self.classify(place, clause.role)
                self.request_index(place, constraints, *self.skip_measure(clause.role, constraints))
                self.look_up_run(place, constraints, required=True)
                self.bounds(place, clause.scope)
                if mode is Mode.EACH:
                    self.select_each(place, clause, constraints)
                elif constraints.per_rule:
                    self.select_per_row(place, clause, mode, constraints)
                elif number > 1:
                    self.select_several(place, clause, mode, number, constraints)
                else:
                    self.select_one(place, clause, mode, constraints)
            case PositionalNegation():
                self.request_index(place, constraints, *self.skip_measure(clause.role, constraints))
                self.look_up_run(place, constraints, required=False)
                self.bounds(place, clause.scope)
                self.negation(place, clause, constraints)
            case PositionalAggregate() as aggregate:
                if constraints.per_rule:
                    self.loop_over_rows()
                    constraints = self.classify(place, clause.role)
                self.aggregate(place, clause, aggregate, constraints)

    def select_one(self, place: int, clause: PositionalClause, mode: Mode, constraints: ClassifiedConstraints) -> None:
        """`last E`, `first E`."""
        self.line(f"e{place} = None")
        errs = self.expect_errors(place, constraints)
        level = self.indent
        self.search(place, clause, mode)
        self.skip_rejected(place, clause, constraints)
        self.line(f"e{place} = e")
        self.line("break")
        self.indent = level
        self.count_candidates(place, mode)
        self.end_branch(place, constraints, f"e{place} is None", errs=errs)

    def end_branch(self, place: int, constraints: ClassifiedConstraints, ended: str, *, errs: bool) -> None:
        """Appends the end of a branch at a clause without an event, and the count of errors."""
        if not errs:
            self.line(f"if {ended}: continue")
            return
        with self.block(f"if {ended}:"):
            self.count_errors(place, constraints, self.active_rows)
            self.line("continue")

    def select_several(self, place: int, clause: PositionalClause, mode: Mode, count: int, constraints: ClassifiedConstraints) -> None:
        """`last n E`, `first n E`: a branch for each event."""
        self.line(f"picked{place} = []")
        errs = self.expect_errors(place, constraints)
        level = self.indent
        self.search(place, clause, mode)
        self.skip_rejected(place, clause, constraints)
        self.line(f"picked{place}.append(e)")
        self.line(f"if len(picked{place}) == {count}: break")
        self.indent = level
        self.count_candidates(place, mode)
        if errs:
            self.end_branch(place, constraints, f"not picked{place}", errs=errs)
        self.limit_branches(place, f"len(picked{place})", count)
        self.note_size(place)
        if self.template.once is not None and mode is Mode.LAST:
            self.line(f"picked{place}.reverse()")  # branches ascend: an earlier one holds back a later one
        self.line(f"for e{place} in picked{place}:")
        self.indent += 1
        self.line(f"t{place}, o{place}, v{place} = e{place}")

    def note_size(self, place: int, *, per_rule: bool = False) -> None:
        """Notes the number of events that a clause has chosen, if bindings hold it."""

    def select_per_row(self, place: int, clause: PositionalClause, mode: Mode, constraints: ClassifiedConstraints) -> None:
        """`last E`, `first E` for many rows: each candidate is selected by the rows that accept it
        first.

        With rows `?v > 10` and `?v > 20` and the candidates 15, 25, latest first: `picked1` is
        `[(15, [row 10]), (25, [row 20])]`.
        """
        self.line(f"left = {self.active_rows}")
        self.line("misses = 0")
        self.line(f"picked{place} = []")
        level = self.indent
        errs = self.expect_errors(place, constraints)
        self.search(place, clause, mode, self.threshold(constraints), "left")
        self.skip_rejected(place, clause, constraints)
        self.note_row_errors(place, constraints)
        self.keep_hit_rows(place, constraints)
        self.line(f"picked{place}.append((e, hit))")
        self.line("if len(hit) == len(left): break")
        self.remove_hit_rows(constraints)
        self.indent = level
        self.count_candidates(place, mode, self.threshold(constraints))
        if errs:
            self.count_row_errors(place, constraints)
        self.line(f"for e{place}, rows{place} in picked{place}:")
        self.indent += 1
        self.line(f"t{place}, o{place}, v{place} = e{place}")
        self.active_rows = f"rows{place}"

    def select_each(self, place: int, clause: PositionalClause, constraints: ClassifiedConstraints) -> None:
        """`each E`: a branch for every candidate, with the rows that accept it."""
        if not constraints.per_rule:
            last = ""
            if not self.ends_now(place, clause.scope):
                last = f"None if c{place}[-1][0] <= high{place} else bisect(c{place}, (high{place} + 1,))"
            self.line(f"s{place} = c{place}[bisect(c{place}, (low{place},)):{last}]")
            picks, errs = self.exact or self.sizes_travel or bool(constraints.tests), False
            if not self.exact:
                self.limit_branches(place, f"len(s{place})", None)
            if picks:
                self.line(f"picked{place} = []")
                errs = self.expect_errors(place, constraints)
                with self.block(f"for e{place} in s{place}:"):
                    self.line(f"t{place}, o{place}, v{place} = e{place}")
                    self.skip_rejected(place, clause, constraints)
                    self.line(f"picked{place}.append(e{place})")
            if self.exact:
                self.count_candidates(place, Mode.FIRST)
                self.limit_branches(place, f"len(picked{place})", None)
            if errs:
                self.end_branch(place, constraints, f"not picked{place}", errs=errs)
            self.note_size(place)
            if self.takes_all(place, clause, constraints):
                self.emit_all_matches(place, constraints)
                if self.is_complete:
                    return
            self.line(f"for e{place} in {f'picked{place}' if picks else f's{place}'}:")
            self.indent += 1
            self.line(f"t{place}, o{place}, v{place} = e{place}")
            if not picks:
                self.skip_rejected(place, clause, constraints)
            return
        self.line(f"left = {self.active_rows}")
        self.line("misses = 0")
        self.line(f"picked{place} = []")
        level = self.indent
        errs = self.expect_errors(place, constraints)
        self.search(place, clause, Mode.FIRST, self.threshold(constraints), "left")
        self.skip_rejected(place, clause, constraints)
        self.note_row_errors(place, constraints)
        self.keep_hit_rows(place, constraints)
        self.line(f"picked{place}.append((e, hit))")
        self.indent = level
        self.count_candidates(place, Mode.FIRST, self.threshold(constraints))
        if errs:
            self.count_row_errors(place, constraints)
        self.limit_branches(place, f"len(picked{place})", None)
        self.note_size(place, per_rule=True)
        self.line(f"for e{place}, rows{place} in picked{place}:")
        self.indent += 1
        self.line(f"t{place}, o{place}, v{place} = e{place}")
        self.active_rows = f"rows{place}"

    def takes_all(self, place: int, clause: PositionalClause, constraints: ClassifiedConstraints) -> bool:
        """True if the last clause is an `each` without further tests, of a single rule whose
        matches differ only in its events: then all events of the window match, except for those
        with an equal key that is another term."""
        template = self.template
        if self.exact or self.counted or len(self.rows) > 1 or template.stage is not None or place < len(template.clauses):
            return False
        if template.condition is not None or self.takes_rows_singly or constraints.tests or self.possible_duplicates(place, clause):
            return False
        read = parameters_of([value for value in template.values if value is not None])
        return not any(isinstance(each, Attribute | TimeOf) and each.label == str(place) for each in read)

    def emit_all_matches(self, place: int, constraints: ClassifiedConstraints) -> None:
        """Appends the matches with each event of `s<place>`, which share their values:

        values = (v0[1],)
        for e1 in s1: found.append((row[0], base + len(found), (e0, e1), values))
        """
        bound = "".join([f"e{other}, " for other in range(place + 1) if self.template.is_positive(other)])
        level = self.indent
        if constraints.equal:
            self.line(f"if not q{place}:")
            self.indent += 1
        self.line(f"values = {self.values_of_match()}")
        self.line(f"for e{place} in s{place}: found.append((row[0], base + len(found), ({bound}), values))")
        if constraints.equal:
            self.line("continue")
        self.indent = level
        self.is_complete = not constraints.equal

    def negation(self, place: int, clause: PositionalClause, constraints: ClassifiedConstraints) -> None:
        """`not E`: ends the branch, or removes the rows that accept a candidate."""
        per_rule = bool(constraints.per_rule)
        if per_rule:
            self.line(f"left = {self.active_rows}")
            self.line("misses = 0")
        with self.block(f"if c{place} is not None:"):
            self.line(f"exists{place} = False")
            level = self.indent
            self.search(place, clause, Mode.FIRST, self.threshold(constraints), "left")
            self.skip_rejected(place, None, constraints)
            if per_rule:
                self.keep_hit_rows(place, constraints)
                self.remove_hit_rows(constraints)
                self.line("if not left: break")
            else:
                self.line(f"exists{place} = True")
                self.line("break")
            self.indent = level
            self.count_candidates(place, Mode.FIRST, self.threshold(constraints))
            if not per_rule:
                self.line(f"if exists{place}: continue")
        if per_rule:
            self.line(f"rows{place} = left")
            self.line(f"if not rows{place}: continue")
            self.active_rows = f"rows{place}"

    # --- the end of a branch ---

    def emit_match(self) -> None:
        """Appends `if`, then `with`, then the match."""
        template = self.template
        if template.condition is not None:
            per_rule = [c for c in conjuncts(template.condition) if self.active_rows is not None and names_row(c)]
            shared = [c for c in conjuncts(template.condition) if c not in per_rule]
            if shared:
                self.line(f"holds = {self.truth(shared, None)}")
                with self.block("if not holds:"):
                    with self.block("if holds is None:"):
                        self.count_condition_errors(template.condition)
                    self.line("continue")
            if per_rule:
                self.count_errors_of_rows(per_rule)
                self.keep_rows(per_rule, None, len(template.clauses) + 1)
            if self.counted:
                self.count_step(self.steps)
        events = [f"e{place}" for place in range(len(template.roles)) if template.is_positive(place)]
        bound, own = f"({', '.join(events)},)", any(names_row(value) for value in template.values if value is not None)
        values = self.values_of_match()
        if template.once is not None:
            self.hold_back(template.once, values)
            values = "values"
        if self.active_rows is None:
            self.line(f"found.append((row[0], base + len(found), {bound}, {values}))")
            self.limit_group()
            for place in template.consuming:
                events_of = f"[e{place}[:2]]" if template.is_positive(place) else f"[e[:2] for e in all{place}]"
                self.line(f"consumed_now.append((used{place}, {events_of}))")
            return
        self.line(f"bound = {bound}")
        if own:
            with self.block(f"for row in {self.active_rows}:"):
                self.line(f"found.append((row[0], base + len(found), bound, {values}))")
            self.limit_group()
        else:
            self.line(f"values = {values}")
            self.line(f"found += zip(map(number, {self.active_rows}), count(base + len(found)), repeat(bound), repeat(values))")
            self.limit_group()

    @property
    def fires_later(self) -> bool:
        """True if firings are noted once an anchor is finished, since it may still fail: where it
        may have several."""
        return self.template.once is not None and (self.exact or self.template.may_branch or len(self.rows) > 1)

    def hold_back(self, once: PositionalOnce, values: str) -> None:
        """Appends the end of a branch that `once` holds back, and the note of any other firing.

        For `once in 60 s per ?r`, with ?r as the first attribute, where an anchor fires once:

            values = (v0[0],)
            keys = values[0]
            if keys is None: counter.unbound_keys[row[0]] += 1
            if firings.get(keys, never) > t0 - 60000000:
                counter.held_back[row[0]] += 1
                continue
            firings[keys] = t0
            note((t0, 0, (keys,)))
        """
        self.line(f"values = {values}")
        is_single, is_whole = len(once.keys) == 1, once.keys == tuple(range(len(self.template.values)))
        several = "values" if is_whole else f"({''.join([f'values[{key}], ' for key in once.keys])})"
        self.line(f"keys = {f'values[{once.keys[0]}]' if is_single else several}")
        later, row, at = self.fires_later, "row[0]", self.match_time(0)
        if once.keys:
            count = f"held_now.append((counter.unbound_keys, {row}))" if later else f"counter.unbound_keys[{row}] += 1"
            self.line(f"if {'keys is None' if is_single else 'None in keys'}: {count}")
        is_held = f"firings.get(keys, never) > {at} - {max(once.pause, 1)}"
        with self.block(f"if {f'({row}, keys) in fired_now or {is_held}' if later else is_held}:"):
            self.line(f"held_now.append((counter.held_back, {row}))" if later else f"counter.held_back[{row}] += 1")
            self.line("continue")
        if later:
            self.line(f"fired_now[{row}, keys] = firings")
        else:
            self.note_firing("note", is_single=is_single)

    def note_firing(self, note: str, *, is_single: bool) -> None:
        """Appends the note of a firing in the index and the log of its store."""
        at = self.match_time(0)
        self.line(f"firings[keys] = {at}")
        self.line(f"{note}(({at}, 0, {'(keys,)' if is_single else 'keys'}))")

    def note_firings(self) -> None:
        """Appends the notes of an anchor's firings, and of those held back."""
        once = self.template.once
        if once is not None and self.fires_later:
            with self.block("for (_, keys), firings in fired_now.items():"):
                self.note_firing("firings.note", is_single=len(once.keys) == 1)
            self.line("for counts, number in held_now: counts[number] += 1")

    def values_of_match(self) -> str:
        """The source of the attributes of the composite event."""
        return f"({', '.join(map(self.value, self.template.values))}{',' if self.template.values else ''})"

    def limit_group(self) -> None:
        """Appends the limit on the matches that a group finds of one anchor."""
        if self.template.may_branch and len(self.rows) > 1 and not self.exact:
            self.line("if len(found) > most: raise Exceeded")


def _count_whole_anchors(find: FindMatches) -> FindMatches:
    """The matcher without the counts of an anchor at which it fails: that anchor is retried."""

    def counted(
        anchors: Iterable[SearchStart],
        indexes: Sequence[KeyIndex],
        consumed: Sequence[ConsumedEvents],
        found: list[Match],
        base: int,
        counter: GroupCounter,
    ) -> None:
        for anchor in anchors:
            before = counter.bindings
            try:
                find((anchor,), indexes, consumed, found, base, counter)
            except BaseException:
                counter.bindings = before
                raise

    return counted
