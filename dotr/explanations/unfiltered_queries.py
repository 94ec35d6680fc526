"""Queries of a rule without their own filters, whose facts show what the filters turn away.

A filter in the query of a label (`[ SELECT … FILTER(?v > 60) ]`) makes the same difference as one
after the label of a shared query, which is a constraint. For explanations both are conditions on
candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dotr.layout.retention import roles
from dotr.model.algebra import Expression, Filter, Group
from dotr.model.rules import FactSource, Rule
from dotr.model.traverse import free_variables, has_exists, in_scope


@dataclass(frozen=True, slots=True)
class UnfilteredSource:
    """A source without filters of its query.

    Attributes:
        source: the source; its attributes are those of the original, and the variables of the
            filters.
        filters: the filters, conjuncts over these attributes.
    """

    source: FactSource
    filters: tuple[Expression, ...]


def unfiltered(source: FactSource) -> UnfilteredSource | None:
    """The source without the filters of its query; None: it has none that can be taken out.

    Filters stay where the query is grouped, sliced or ordered, and with DISTINCT where they need
    variables that are not projected.
    """
    query = source.query
    if source.period is not None or not isinstance(query.pattern, Filter) or query.order or query.offset or query.limit is not None:
        return None
    inner, conditions = query.pattern.pattern, query.pattern.conditions
    if isinstance(inner, Group):
        return None
    bound = set(query.projection) if query.distinct else set(in_scope(inner))
    filters = tuple([each for each in conditions if not has_exists(each) and set(free_variables(each)) <= bound])
    if not filters:
        return None
    kept = tuple([each for each in conditions if each not in filters])
    needed = {name for each in filters for name in free_variables(each)}
    attributes = tuple(sorted({*source.attributes, *needed}))
    pattern = Filter(inner, kept) if kept else inner
    wide = replace(source, query=replace(query, projection=attributes, pattern=pattern), attributes=attributes)
    return UnfilteredSource(wide, filters)


def unfiltered_sources(rule: Rule) -> Mapping[FactSource, UnfilteredSource]:
    """The unfiltered sources of a rule, by source."""
    sources = [role.source for role in roles(rule) if isinstance(role.source, FactSource)]
    return {source: wide for source in dict.fromkeys(sources) if (wide := unfiltered(source)) is not None}
