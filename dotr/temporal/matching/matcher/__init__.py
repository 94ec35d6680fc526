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

    "A, and last B of the room within 30 s":

    >>> from inspect import getsource
    >>> from dotr.languages.rules import compile_rules
    >>> from dotr.model.places import Document
    >>> from dotr.temporal.layout.layers import lay_out
    >>> from dotr.temporal.matching.rule_templates import group_rules
    >>> text = '''rule R define C = [ [] <e:in> ?r ]
    ... from A = [ SELECT ?r { ?x <e:a> ?r } ]
    ... and last B = [ SELECT ?r { ?x <e:b> ?r FILTER(?r = A.?r) } ] within 30 s from A
    ... with C.?r = A.?r'''
    >>> (layer,) = lay_out(compile_rules([Document("a.dotr", text)], {}).rules).layers
    >>> (group,) = group_rules([(0, placed.rule, placed.ports, ("r",)) for placed in layer.rules])
    >>> print(getsource(compile_matcher(group, [0], Clock()).find))
    def find(anchors, indexes, consumed, found, base, counter):
        l1 = indexes[0]
        row = rows[0]
        for e0 in anchors:
            t0, o0, v0 = e0
            counter.anchors += 1
            s1_0 = v0[0]
            if s1_0 is None: continue
            c1 = l1.get((s1_0 if s1_0 >= '<=' else key(s1_0)))
            if c1 is None: continue
            q1 = (s1_0 < '<=')
            low1 = t0 - 30000000
            high1 = t0 - 1
            e1 = None
            for i in range(len(c1) - 1 if c1[-1][0] <= high1 else bisect(c1, (high1 + 1,)) - 1, -1, -1):
                t1, o1, v1 = e = c1[i]
                if t1 < low1: break
                if not ((not q1 or (v1[0] == s1_0 and v1[0] not in NAN) or equal(v1[0], s1_0))): continue
                e1 = e
                break
            if len(c1) > 10000000: raise Exceeded
            if e1 is None: continue
            found.append((row[0], base + len(found), (e0, e1,), (v0[0],)))
    <BLANKLINE>
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
        from dotr.temporal.matching.lone_facts import LoneFactEmitter  # where lone facts are many

        return LoneFactEmitter(group, rows, clock, limits).lone_search()

    return replace(matcher, lone=lone)
