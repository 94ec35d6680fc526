"""Search of the matches of one anchor, inlined in a lone-fact function."""

from __future__ import annotations

from collections.abc import Sequence

from dotr.evaluation.codegen.printer import printed_lines
from dotr.evaluation.expressions import inline_conjunction
from dotr.model.algebra import Expression
from dotr.model.traverse import parameters_of
from dotr.temporal.matching.matcher.compile import LoneSearch, RuleMatcherEmitter


class LoneFactEmitter(RuleMatcherEmitter):
    """Emitter of the body of `find` for one anchor, with simple constraints inlined."""

    def lone_search(self) -> LoneSearch | None:
        """The search; None if each anchor is counted exactly."""
        if self.is_always_exact:
            return None
        self.loop_over_anchors("(event,)")
        return LoneSearch(self.lines, self.globals)

    def require_of_anchor(self, conditions: Sequence[Expression]) -> None:
        """Skips an anchor that fails constraints of all rows."""
        inline = inline_conjunction(conditions, {each: self.argument(each, 0) for each in parameters_of(conditions)}, "a")
        if inline is None:
            super().require_of_anchor(conditions)
            return
        self.lines += printed_lines(inline.statements, "    " * self.indent, "continue")
        self.globals |= {name: value for name, value in inline.names.items() if name not in self.globals}
