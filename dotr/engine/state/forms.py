"""Written names of rule parts in digests, independent of the names in the code.

A checkpoint identifies the meaning of a rule by a digest over type and field names
(`dotr.engine.state.schema`): a changed name would change the digest and drop the rule's state. So
strings here never change; names outside quotation marks follow the code. A field without an entry
is refused when this module is imported; a class or enumeration member without an entry is refused
when a digest is computed.

A new field gets an entry with the value that it has in all earlier rules (`Unless`), so that no
digest changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dotr.model import algebra, calendars, dataclass, datalog, rules, templates
from dotr.model.time import Interval


@dataclass(frozen=True, slots=True)
class Unless:
    """A field that is left out of the digest where it has its default value."""

    written: str
    value: object


class Unwritten:
    """The type of `OMITTED`: a field without influence on the meaning."""


OMITTED: Final = Unwritten()

FormMember: TypeAlias = str | Unless | Unwritten


@dataclass(frozen=True, slots=True)
class WrittenForm:
    """The written name of a class and of its fields, in written order."""

    name: str
    fields: tuple[tuple[str, str | Unless], ...]


def _form(kind: type, name: str, /, **members: FormMember) -> tuple[type, WrittenForm]:
    """A class with its form. Raises TypeError where the fields and the names do not correspond."""
    own = {each.name for each in fields(kind)}
    if own != set(members):
        raise TypeError(
            f"{kind.__name__}: the fields {sorted(own ^ set(members))} have no written names, or are no fields (see {__name__})"
        )
    return kind, WrittenForm(name, tuple((field, member) for field, member in members.items() if not isinstance(member, Unwritten)))


FORMS: Final[Mapping[type, WrittenForm]] = dict(
    [
        # dotr.model.rules
        _form(
            rules.Rule,
            "Rule",
            name="name",
            documentation=OMITTED,
            event="event",
            template="template",
            anchor="anchor",
            clauses="clauses",
            condition="condition",
            assignments="assignments",
            consuming="consuming",
            span="span",
            internal=OMITTED,
            once=OMITTED,  # beside the digest: `RuleState.once`
        ),
        _form(
            rules.Role,
            "Role",
            label="label",
            origin="origin",
            source="source",
            constraints="constraints",
            span="span",
            delay=Unless("delay", 0),
            delayed_by=Unless("delayed_by", None),
        ),
        _form(rules.EventSource, "EventSource", event="event", attributes="attributes"),
        _form(rules.Window, "Window", interval="interval", reference="reference"),
        _form(rules.Between, "Between", first="first", second="second"),
        _form(rules.Choose, "Choose", role="role", mode="mode", window="window", count=Unless("count", None), also=Unless("also", False)),
        _form(rules.Absent, "Absent", role="role", scope="scope"),
        _form(
            rules.Aggregate,
            "Aggregate",
            variable="variable",
            function="function",
            distinct="distinct",
            attribute="attribute",
            role="role",
            scope="scope",
            fraction=Unless("fraction", None),
        ),
        _form(rules.Assignment, "Assignment", variable="variable", expression="expression"),
        _form(Interval, "Interval", low="low", high="high", low_closed="low_closed", high_closed="high_closed"),
        # dotr.model.algebra: expressions
        _form(algebra.Var, "Var", name="name"),
        _form(algebra.Const, "Const", term="term"),
        _form(algebra.Attribute, "Attribute", label="label", name="name"),
        _form(algebra.TimeOf, "TimeOf", label="label"),
        _form(algebra.Call, "Call", function="function", arguments="arguments"),
        _form(algebra.Exists, "Exists", pattern="pattern", negated="negated"),
        # triple patterns and paths
        _form(algebra.TriplePattern, "TriplePattern", subject="subject", predicate="predicate", object="object"),
        _form(algebra.TermPattern, "TermPattern", term="term", subject="subject", predicate="predicate", object="object"),
        _form(algebra.PathPattern, "PathPattern", subject="subject", path="path", object="object"),
        _form(algebra.Link, "Link", predicate="predicate"),
        _form(algebra.Inverse, "Inverse", path="path"),
        _form(algebra.Sequence, "Sequence", left="left", right="right"),
        _form(algebra.Alternative, "Alternative", left="left", right="right"),
        _form(algebra.Repeat, "Repeat", path="path", least="least", many="many"),
        _form(algebra.Negated, "Negated", forward="forward", backward="backward"),
        # graph patterns
        _form(algebra.Bgp, "Bgp", patterns="patterns"),
        _form(algebra.Join, "Join", left="left", right="right"),
        _form(algebra.LeftJoin, "LeftJoin", left="left", right="right", condition="condition"),
        _form(algebra.Union, "Union", left="left", right="right"),
        _form(algebra.Minus, "Minus", left="left", right="right"),
        _form(algebra.Filter, "Filter", pattern="pattern", conditions="conditions"),
        _form(algebra.Extend, "Extend", pattern="pattern", variable="variable", expression="expression"),
        _form(algebra.Values, "Values", variables="variables", rows="rows"),
        _form(algebra.Group, "Group", pattern="pattern", keys="keys", aggregates="aggregates"),
        _form(algebra.WindowBlock, "WindowBlock", window="window", pattern="pattern"),
        _form(algebra.MatchPattern, "MatchPattern", number="number", variables="variables"),
        _form(
            algebra.AggregateCall,
            "AggregateCall",
            function="function",
            distinct="distinct",
            argument="argument",
            separator=Unless("separator", None),
        ),
        _form(algebra.OrderKey, "OrderKey", expression="expression", direction="direction"),
        _form(
            algebra.Select,
            "Select",
            projection="projection",
            pattern="pattern",
            distinct=Unless("distinct", False),
            order=Unless("order", ()),
            offset=Unless("offset", 0),
            limit=Unless("limit", None),
        ),
        # dotr.model.templates
        _form(templates.Template, "Template", triples="triples"),
        _form(templates.TemplateTerm, "TemplateTerm", subject="subject", predicate="predicate", object="object"),
        _form(templates.Fresh, "Fresh", name="name"),
        _form(templates.Blank, "Blank", name="name"),
        _form(templates.Cell, "Cell", column="column", type=Unless("type", None), optional=Unless("optional", False)),
        _form(templates.CellIri, "CellIri", parts="parts"),
        _form(templates.CellLiteral, "CellLiteral", parts="parts", datatype="datatype", language="language"),
        # dotr.model.datalog
        _form(
            datalog.DatalogRule,
            "DatalogRule",
            name="name",
            head="head",
            body="body",
            span=Unless("span", None),
            of_rule_set=Unless("of_rule_set", False),
        ),
        _form(datalog.Not, "Not", body="body"),
        _form(datalog.FilterItem, "Test", condition="condition"),
        _form(datalog.Bind, "Bind", expression="expression", variable="variable"),
        _form(datalog.GroupAggregate, "Aggregate", body="body", keys="keys", results="results"),
        # dotr.model.calendars; a zone keeps its meaning when its changes become known
        _form(calendars.Calendar, "Calendar", unit="unit", minute="minute", zone="zone"),
        _form(calendars.Zone, "Zone", name="name", begins=OMITTED, offsets=OMITTED),
    ]
)
"""The forms of all classes but `Span`, which has no meaning, and `FactSource`."""

FACTS: Final = _form(rules.FactSource, "facts", query="query", attributes="attributes", projected="reported", period="period")[1]
"""The form of `FactSource`; `dotr.engine.state.schema` writes its values alone, in this order, and the query up
to names of variables."""

MEMBERS: Final[Mapping[Enum, str]] = {
    rules.Mode.EACH: "EACH",
    rules.Mode.LAST: "LAST",
    rules.Mode.FIRST: "FIRST",
    algebra.Direction.ASCENDING: "ASCENDING",
    algebra.Direction.DESCENDING: "DESCENDING",
    **{each: each.value for each in templates.CellType},  # the words of maps, which never change
}


class FurtherForms(NamedTuple):
    """The forms of classes that rules do not have, and the written names of members of their
    enumerations."""

    forms: Mapping[type, WrittenForm]
    members: Mapping[Enum, str]


NO_FURTHER: Final = FurtherForms({}, {})
