"""Queries of a rule without their filters, so that explanations can show rejected facts.

A filter in the query of a label (`[ SELECT … FILTER(?v > 60) ]`) has the same effect as one after
the label of a shared query, which is a constraint. For explanations both are conditions on
candidates: the query is evaluated without the filter, which becomes a constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dotr.model.algebra import Expression, Filter, Group
from dotr.model.rules import FactSource, Rule
from dotr.model.traverse import free_variables, has_exists, in_scope
from dotr.temporal.layout.retention import roles


@dataclass(frozen=True, slots=True)
class UnfilteredSource:
    """A source whose query has no filters.

    Attributes:
        source: the source; its attributes are those of the original, and the variables of the
            removed filters.
        filters: the removed filters, as conjuncts over these attributes.
    """

    source: FactSource
    filters: tuple[Expression, ...]


def unfiltered(source: FactSource) -> UnfilteredSource | None:
    """The source without the filters of its query; None if no filter can be removed.

    Filters are kept if the query is grouped, sliced or ordered, if they have EXISTS, and with
    DISTINCT if they read variables that are not projected.
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
    changed = replace(source, query=replace(query, projection=attributes, pattern=pattern), attributes=attributes)
    return UnfilteredSource(changed, filters)


def unfiltered_sources(rule: Rule) -> Mapping[FactSource, UnfilteredSource]:
    """The unfiltered sources of a rule, by source; sources without removable filters are left
    out."""
    sources = [role.source for role in roles(rule) if isinstance(role.source, FactSource)]
    return {source: found for source in dict.fromkeys(sources) if (found := unfiltered(source)) is not None}
