"""Written names of continuous queries, LARS files and EP-SPARQL units in digests, independent of
the names in the code.

They extend `dotr.engine.state.forms` by the classes that rules do not have. Strings here never
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from dotr.engine.state.forms import OMITTED, FurtherForms, Unless, WrittenForm, _form
from dotr.engine.state.schema import plain_data
from dotr.languages.continuous import model as continuous
from dotr.languages.lars import model as lars
from dotr.model.datalog import RelationAtom
from dotr.temporal.intervals import patterns as intervals

_FORMS: Final[Mapping[type, WrittenForm]] = dict(
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
        # EP-SPARQL
        _form(
            intervals.InstantGroup,
            "Group",
            pattern="pattern",
            visible="visible",
            certain=OMITTED,
            triples=OMITTED,
            span=OMITTED,
        ),
        _form(
            intervals.EventRead,
            "Event",
            label="label",
            attributes="attributes",
            span=OMITTED,
            label_span=OMITTED,
            certain=OMITTED,
        ),
        _form(
            intervals.Combination,
            "Combination",
            operator="operator",
            left="left",
            right="right",
            condition="condition",
            within="within",
            bound="bound",
            span=OMITTED,
        ),
        _form(intervals.Alternatives, "Alternatives", branches="branches"),
        _form(intervals.Chain, "Chain", pattern="pattern", bindings="bindings", filters="filters", within="within", span=OMITTED),
        _form(intervals.SelectedSolutions, "Selected", where="where", columns="columns", distinct="distinct"),
        _form(intervals.ConstructedGraphs, "Constructed", where="where", template="template"),
        _form(intervals.InstantAnswers, "Answers", query="query"),
        _form(
            intervals.TemporalQuery,
            "Temporal",
            label="label",
            documentation=OMITTED,
            form="form",
            policy="policy",
            span=OMITTED,
            label_span=OMITTED,
        ),
        # LARS
        _form(RelationAtom, "Relation", relation="relation", slots="slots"),
        _form(lars.EventAtom, "EventAtom", label="label", attributes="attributes"),
        _form(lars.TimeWindow, "Time", interval="interval"),
        _form(lars.TupleWindow, "Tuples", count="count", counted="counted", per="per"),
        _form(lars.Sometime, "Sometime", window="window"),
        _form(lars.Always, "Always", window="window"),
        _form(lars.At, "At", time="time", window="window"),
        _form(lars.Since, "Since", other="other", other_span=OMITTED, window="window"),
        _form(lars.LarsLiteral, "Literal", atom="atom", reach="reach", span=OMITTED, atom_span=OMITTED, window_span=OMITTED),
        _form(lars.LarsNot, "NotAll", literals="literals", span=OMITTED),
        _form(lars.LarsHead, "Head", atom="atom", at="at", span=OMITTED),
        _form(lars.LarsRule, "LarsRule", name=OMITTED, heads="heads", body="body", span=OMITTED),
        _form(lars.LarsFact, "Fact", atom="atom", span=OMITTED),
        _form(lars.LarsReport, "Report", kind="kind", atom="atom", label="label", span=OMITTED, label_span=OMITTED),
        _form(
            lars.LarsFile,
            "Lars",
            name="name",
            resolution="resolution",
            asserted="asserted",
            background="background",
            facts="facts",
            rules="rules",
            reports="reports",
            span=OMITTED,
        ),
    ]
)
"""The forms of all classes of units that rules do not have. The stream of a window is omitted: its
meaning is digested beside the query (`engine.state.schema`)."""

_MEMBERS: Final[Mapping[Enum, str]] = {
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
    intervals.TemporalOperator.SEQ: "SEQ",
    intervals.TemporalOperator.EQUALS: "EQUALS",
    intervals.TemporalOperator.AND: "AND",
    intervals.TemporalOperator.OPTIONALSEQ: "OPTIONALSEQ",
    intervals.TemporalOperator.EQUALSOPTIONAL: "EQUALSOPTIONAL",
    intervals.UsePolicy.UNRESTRICTED: "UNRESTRICTED",
    intervals.UsePolicy.CHRONOLOGICAL: "CHRONOLOGICAL",
    intervals.UsePolicy.RECENT: "RECENT",
    lars.Counted.ALL: "ALL",
    lars.Counted.MATCHING: "MATCHING",
    lars.Counted.PER: "PER",
    lars.ReportKind.NEW: "NEW",
    lars.ReportKind.ENDED: "ENDED",
    lars.ReportKind.ALL: "ALL",
}


def written(value: object) -> object:
    """A part of a unit, or a rule, as plain data under written names."""
    return plain_data(value, FurtherForms(_FORMS, _MEMBERS))
