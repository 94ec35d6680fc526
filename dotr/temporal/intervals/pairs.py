"""Generated functions that combine the new solutions of one side, x, with solutions of the other,
y.

Idea: every operator is a look-up: for each x the run of its key, from the newest y back to the
first that ended before the horizon. The relation of the intervals, the common variables outside the
key and the pushed-down tests are conditions in the loop, so that rejected combinations are not
built.
Invariant: all x end now. The runs are in the order of ends.
Cost: for each x the solutions y of its key inside the bound. If there are more than `UNCOUNTED`,
they count against the limit of probes; combinations count against the limit of rows.
Source: ep-sparql.md, sections 2 and 7 (Anicic et al., section 5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions import equality_key
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.model.time import Micros
from dotr.temporal.intervals.conditions import IntervalExpressions
from dotr.temporal.intervals.patterns import UsePolicy
from dotr.temporal.intervals.solutions import IntervalSolution, Pairing
from dotr.temporal.intervals.store import SolutionIndex

UNCOUNTED: Final = 64
"""The length of a run up to which a look-up does not count against the limit of probes."""

FindCombinations: TypeAlias = Callable[[Sequence[IntervalSolution], SolutionIndex, Micros, list[IntervalSolution]], None]
"""`find(xs, index, now, found)` appends combinations, and uncombined solutions x if y is optional.
Raises `LimitExceeded`.
"""

ChooseCombinations: TypeAlias = Callable[
    [Sequence[IntervalSolution], SolutionIndex, Micros, list[IntervalSolution], list["Taken"], list[IntervalSolution]], None
]
"""`choose(xs, index, now, found, taken, left)` does the same under a policy: it removes each used y
from its run, appends it to `taken`, and appends each uncombined x to `left`.
"""

Taken: TypeAlias = tuple[list[IntervalSolution], int, IntervalSolution]
"""A solution that was used: its run, its former position there, and itself."""


class Relation(Enum):
    """Relation of the intervals of x and y. In each of them y has ended by now.

    - AFTER: y ends before x starts.
    - ANY: no condition.
    - SAME: equal intervals. The index holds one moment, and its keys begin with the start.
    """

    AFTER = "after"
    ANY = "any"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class PairedSearch:
    """A search of combinations, to be compiled.

    - `bound`: the maximal duration of a combination in µs; None: unbounded.
    - `tests`: conditions on the combination.
    - `is_optional`: an x without a partner is a solution by itself.
    - `is_x_left`: x is the operator's left operand, whose parts come first.
    - `traced`: solutions hold the leaf solutions that they combine.
    """

    pairing: Pairing
    relation: Relation
    bound: Micros | None
    tests: IntervalExpressions
    is_optional: bool
    is_x_left: bool
    limits: Limits
    policy: UsePolicy = UsePolicy.UNRESTRICTED
    traced: bool = False

    def compile_find(self) -> FindCombinations:
        """The function without a policy. For `{ ?c :p ?x } SEQ { ?c :q ?y }` within 9 s:

        >>> from inspect import getsource
        >>> from dotr.model.time import Clock
        >>> from dotr.temporal.intervals.solutions import Shape
        >>> pairing = Pairing(Shape(("c", "x"), frozenset("cx")), Shape(("c", "y"), frozenset("cy")))
        >>> search = PairedSearch(pairing, Relation.AFTER, 9_000_000, IntervalExpressions((), Clock()), False, False, Limits())
        >>> print(getsource(search.compile_find()))
        def find(xs, index, now, found):
            low = now - 9000000
            tried = 0
            for x in xs:
                _, sx, vx, px = x
                run = index.get(vx[0])
                if run is not None:
                    for y in reversed(run):
                        ey, sy, vy, py = y
                        if ey < low: break
                        if ey >= sx or sy < low: continue
                        found.append((now, sy, (vx[0], vx[1], vy[1],), ()))
                    if len(run) > 64:
                        tried += len(run) - bisect_left(run, (low,))
                        if tried > 20000000:
                            raise LimitExceeded(20000000, 'solutions looked at')
                if len(found) > 1000000:
                    raise LimitExceeded(1000000, 'combinations')
        <BLANKLINE>
        """
        lines = [
            *self._opening(),
            *self._indented(2, ["alone = True"] if self.is_optional else []),
            "        if run is not None:",
            "            for y in reversed(run):",
            *self._indented(4, self._conditions(ends="break")),
            f"                found.append({self._combination()})",
            *self._indented(4, ["alone = False"] if self.is_optional else []),
            f"            if len(run) > {UNCOUNTED}:",
            *self._indented(4, self._counted("len(run)" if self.bound is None else "len(run) - bisect_left(run, (low,))")),
            *self._indented(2, ["if alone:", f"    found.append((now, sx, {self.pairing.alone()}, px))"] if self.is_optional else []),
            f"        if len(found) > {self.limits.rows}:",
            f"            raise LimitExceeded({self.limits.rows}, 'combinations')",
        ]
        find: FindCombinations = self._define("find", "xs, index, now, found", lines)
        return find

    def compile_choose(self) -> ChooseCombinations:
        """The function under a policy: the first y from the newest back (RECENT), or from the
        oldest inside the bound on (CHRONOLOGICAL), that can be combined. For `{A} SEQ {B}` under
        RECENT, with one run:

            for x in xs:
                _, sx, vx, px = x
                run = index.get(None)
                chosen = False
                if run:
                    for i in range(len(run) - 1, -1, -1):
                        y = run[i]
                        ey, sy, vy, py = y
                        if ey < low: break
                        if ey >= sx or sy < low: continue
                        chosen = True
                        break
                if chosen:
                    found.append((now, sy, (…), ()))
                    taken.append((run, i, y))
                    del run[i]
                else:
                    left.append(x)
        """
        recent = self.policy is UsePolicy.RECENT
        begin = "0" if self.bound is None else "0 if run[0][0] >= low else bisect_left(run, (low,))"
        alone = ["left.append(x)"]
        if self.is_optional:
            alone.append(f"found.append((now, sx, {self.pairing.alone()}, px))")
        lines = [
            *self._opening(),
            "        chosen = False",
            "        if run:",
            "            i = len(run)" if recent else f"            i = begin = {begin}",
            f"            for i in {'range(len(run) - 1, -1, -1)' if recent else 'range(begin, len(run))'}:",
            "                y = run[i]",
            *self._indented(4, self._conditions(ends="break" if recent else "")),
            "                chosen = True",
            "                break",
            f"            if len(run) > {UNCOUNTED}:",
            *self._indented(4, self._counted(f"len(run) - max(i, ({begin}))" if recent else "i - begin + 1")),
            "        if chosen:",
            f"            found.append({self._combination()})",
            "            taken.append((run, i, y))",
            "            del run[i]",
            "        else:",
            *self._indented(3, alone),
        ]
        choose: ChooseCombinations = self._define("choose", "xs, index, now, found, taken, left", lines)
        return choose

    # --- parts of the text ---

    def _opening(self) -> list[str]:
        lines = [] if self.bound is None else [f"    low = now - {self.bound}"]
        key = self.pairing.key("x", *(["sx"] if self.relation is Relation.SAME else []))
        return [*lines, "    tried = 0", "    for x in xs:", "        _, sx, vx, px = x", f"        run = index.get({key})"]

    def _conditions(self, ends: str) -> list[str]:
        """The lines that skip a candidate. `ends`: the statement at a candidate that ended before
        the bound (`break` in a loop to older ones); empty: no such test.
        """
        lines = ["ey, sy, vy, py = y"]
        if self.bound is not None and ends and self.relation is not Relation.SAME:
            lines.append(f"if ey < low: {ends}")
        elif self.relation is Relation.AFTER and self.policy is UsePolicy.CHRONOLOGICAL:
            lines.append("if ey >= sx: break")
        passed = ["ey >= sx"] if self.relation is Relation.AFTER else []
        if self.bound is not None:
            passed.append("sy < low")
            if self.relation is not Relation.AFTER:
                passed.append("sx < low")
        if passed:
            lines.append(f"if {' or '.join(passed)}: continue")
        lines += [f"if {each}: continue" for each in self.pairing.conflicts()]
        if not self.tests.is_empty:
            lines.append(f"if not {self.tests.call(self.pairing.term, self._start(), 'now')}: continue")
        return lines

    def _start(self) -> str:
        match self.relation:
            case Relation.AFTER:
                return "sy"
            case Relation.SAME:
                return "sx"
            case Relation.ANY:
                return "(sx if sx < sy else sy)"

    def _combination(self) -> str:
        parts = "()" if not self.traced else "px + py" if self.is_x_left else "py + px"
        return f"(now, {self._start()}, {self.pairing.values()}, {parts})"

    def _counted(self, count: str) -> list[str]:
        """The lines that add a count to the probes of the look-up and check their limit."""
        most = self.limits.probes
        return [f"tried += {count}", f"if tried > {most}:", f"    raise LimitExceeded({most}, 'solutions looked at')"]

    @staticmethod
    def _indented(levels: int, lines: Sequence[str]) -> list[str]:
        return ["    " * levels + line for line in lines]

    def _define(self, name: str, parameters: str, lines: Sequence[str]) -> Any:
        text = f"def {name}({parameters}):\n" + "\n".join(lines) + "\n"
        known: dict[str, object] = {"bisect_left": bisect_left, "equality_key": equality_key, "LimitExceeded": LimitExceeded}
        if not self.tests.is_empty:
            known |= self.tests.as_conditions()
        return define(text, "interval operator", name, known)
