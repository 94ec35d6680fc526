"""Matchers of rules: Python functions, generated for a group of rules of one template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from dotr.evaluation.limits import LIMITS, Limits
from dotr.model.time import Clock
from dotr.temporal.matching.matcher.compile import LoneSearch, Matcher, RuleMatcherEmitter
from dotr.temporal.matching.matcher.emitter import rows_of
from dotr.temporal.matching.rule_templates import RuleGroup


def compile_matcher(group: RuleGroup, consumed: Sequence[int], clock: Clock, limits: Limits = LIMITS, *, counted: bool = False) -> Matcher:
    """Generates the matcher of a group; `consumed` has for each rule the number of its first
    consumed set. `counted`: the matcher of a single rule counts the bindings left after each step.
    """
    assert not counted or len(group.numbers) == 1, "bindings are counted for a single rule"
    rows = rows_of(group, consumed)
    if group.template.stage is not None:
        from dotr.temporal.matching.matcher.stages import compile_stage_matcher  # where a rule is cut

        assert not counted, "bindings are counted in process, where no rule is cut"
        return compile_stage_matcher(group, rows, clock, limits)
    matcher = RuleMatcherEmitter(group, rows, clock, limits, counted=counted).matcher(
        cache(lambda: RuleMatcherEmitter(group, rows, clock, limits, exact=True, counted=counted).exact_function())
    )
    if counted:
        return matcher

    def lone() -> LoneSearch | None:
        from dotr.temporal.matching.matcher.lone_search import LoneFactEmitter  # where lone facts are many

        return LoneFactEmitter(group, rows, clock, limits).lone_search()

    return replace(matcher, lone=lone)
