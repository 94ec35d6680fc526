"""Written names of continuous queries in digests, independent of the names in the code.

They are those of `written_forms` for parts that rules do not have; strings here never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from dotr.model import continuous, intervals
from dotr.state.written_forms import OMITTED, Unless, WrittenForm, _form

UNIT_FORMS: Final[Mapping[type, WrittenForm]] = dict(
    [
        _form(
            continuous.ContinuousQuery,
            "Query",
            name="name",
            label="label",
            relation="relation",
            form="form",
            windows="windows",
            matches="matches",
            span=OMITTED,
            label_span=OMITTED,
        ),
        _form(
            continuous.ContinuousWindow,
            "QueryWindow",
            name="name",
            stream=OMITTED,
            extent="extent",
            level="level",
            policies="policies",
            span=OMITTED,
            stream_span=OMITTED,
        ),
        _form(continuous.RangeExtent, "Range", width="width", step="step", lag=Unless("lag", 0), start=Unless("start", None)),
        _form(continuous.LandmarkExtent, "Landmark", step="step", restart="restart", limit="limit", start=Unless("start", None)),
        _form(continuous.ElementsExtent, "Elements", count="count", step="step"),
        _form(continuous.TriplesExtent, "Triples", count="count", step="step"),
        _form(continuous.NowExtent, "Now"),
        _form(
            continuous.ReportPolicies,
            "Policies",
            window_close="window_close",
            content_change="content_change",
            non_empty="non_empty",
            period="period",
        ),
        _form(continuous.StreamLevel, "Stream", within="within"),
        _form(continuous.SelectForm, "SELECT", query="query"),
        _form(continuous.ConstructForm, "CONSTRUCT", template="template", query="query"),
        _form(continuous.AskForm, "ASK", query="query"),
        _form(intervals.PlainGroup, "Plain", window="window", pattern="pattern", time="time", span=OMITTED),
        _form(intervals.Outermost, "Outermost", edge="edge", events="events"),
        _form(intervals.Ordered, "Ordered", left="left", right="right", policy="policy"),
        _form(intervals.MatchBlock, "Match", events="events", consuming="consuming", variables="variables", span=OMITTED),
    ]
)
"""The forms of all classes of a continuous query that rules have not. The stream of a window is
written as what its name means."""

UNIT_MEMBERS: Final[Mapping[Enum, str]] = {
    continuous.RelationToStream.RSTREAM: "RSTREAM",
    continuous.RelationToStream.ISTREAM: "ISTREAM",
    continuous.RelationToStream.DSTREAM: "DSTREAM",
    continuous.EntailmentLevel.NONE: "NONE",
    continuous.EntailmentLevel.SNAPSHOT: "SNAPSHOT",
    continuous.EntailmentLevel.GRAPH: "GRAPH",
    continuous.EntailmentLevel.WINDOW: "WINDOW",
    intervals.Edge.FIRST: "FIRST",
    intervals.Edge.LAST: "LAST",
    intervals.SequencePolicy.UNRESTRICTED: "ANY",
    intervals.SequencePolicy.NAIVE: "NAIVE",
    intervals.SequencePolicy.CHRONOLOGICAL: "CHRONOLOGICAL",
    intervals.SequencePolicy.RECENT: "RECENT",
}
