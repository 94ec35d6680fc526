"""Partition keys of continuous queries.

Idea: a query is keyed by the subject of its triple patterns if each solution follows from triples
of one subject, and if no operator of a report (DISTINCT, LIMIT, an aggregate) compares or counts
solutions of several subjects.
Source: continuous.md, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.languages.continuous.model import AskForm, ConstructForm, ContinuousQuery, EntailmentLevel, RelationToStream
from dotr.model.algebra import (
    Bgp,
    Exists,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    MatchPattern,
    Minus,
    PathPattern,
    Pattern,
    Select,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    is_hidden,
)
from dotr.model.terms import Variable
from dotr.model.traverse import walk
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import ReadSpread


def query_key(query: ContinuousQuery) -> UnitKey:
    """The variable that keys a query; or None, and the reason why there is none.

    >>> from dotr.model.algebra import Bgp, Const
    >>> from dotr.languages.continuous.model import ContinuousWindow, NowExtent, SelectForm
    >>> from dotr.model.places import Document, Span
    >>> nowhere = Span(Document("", ""), 0, 0)
    >>> window = ContinuousWindow("<w>", "s", NowExtent(), EntailmentLevel.NONE, None, nowhere, nowhere)
    >>> where = WindowBlock("<w>", Bgp((TriplePattern(Var("x"), Const("<p>"), Var("y")),)))
    >>> form = SelectForm(Select(("x",), where))
    >>> query_key(ContinuousQuery("q", "q", RelationToStream.ISTREAM, form, (window,), (), nowhere, nowhere))
    UnitKey(variable='x', reason='')
    """
    reason = _reason(query)
    return UnitKey(None, reason) if reason else UnitKey(_subject(query.query), "")


def _reason(query: ContinuousQuery) -> str:
    """The first reason against a key; empty if there is none."""
    select = query.query
    nodes = [node for node in walk(select) if node is not select]
    if isinstance(query.form, AskForm):
        return "ASK has one answer for all subjects"
    if query.matches or any(isinstance(node, MatchPattern) for node in nodes):
        return "MATCH relates elements of several subjects"
    if select.limit is not None or select.offset:
        return "LIMIT and OFFSET count the solutions of all subjects"
    if any(isinstance(node, Minus | Exists | Select) for node in nodes):
        return "MINUS, EXISTS and sub-queries may look at other subjects"
    if any(isinstance(node, PathPattern | TermPattern) for node in nodes):
        return "a property path or a triple term leads to other subjects"
    blocks = [node for node in nodes if isinstance(node, WindowBlock)]
    inner = _core(select.pattern)
    if len(blocks) > 1 or (blocks and not isinstance(inner, WindowBlock)) or len(query.windows) > 1:
        return "its pattern is not one WINDOW block"
    (window,) = query.windows
    if window.block_level not in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT):
        return "conclusions from several elements may join subjects: ENTAILMENT SNAPSHOT or NONE is closed element by element"
    subject = _subject(select)
    if subject is None:
        return "its triple patterns do not all have one variable as subject"
    # The left side of OPTIONAL joins with other subjects unless its own subject is bound.
    sides = [select.pattern, *(node.left for node in nodes if isinstance(node, LeftJoin))]
    if not all(map(_binds, sides)):
        return f"some solutions of a part of its pattern need no triple of ?{subject}"
    groups = [node for node in nodes if isinstance(node, Group)]
    if any(subject not in [key.name for _, key in group.keys if isinstance(key, Var)] for group in groups):
        return f"its aggregates are not grouped by ?{subject}"
    if (
        not isinstance(query.form, ConstructForm)
        and subject not in select.projection
        and (select.distinct or query.relation is not RelationToStream.RSTREAM)
    ):
        return f"DISTINCT, ISTREAM and DSTREAM compare solutions, and ?{subject} is not projected"
    return ""


def _core(pattern: Pattern) -> Pattern:
    """The WHERE group below solution modifiers, FILTER, BIND and VALUES."""
    while True:
        match pattern:
            case Filter(inner, _) | Extend(inner, _, _) | Group(inner, _, _) | Join(inner, Values()) | Join(Values(), inner):
                pattern = inner
            case _:
                return pattern


def _subject(select: Select) -> Variable | None:
    """The variable that is the subject of all triple patterns; None without one."""
    subjects = {node.subject for node in walk(select) if isinstance(node, TriplePattern)}
    if len(subjects) != 1:
        return None
    (subject,) = subjects
    return subject.name if isinstance(subject, Var) and not is_hidden(subject.name) else None


def _binds(pattern: Pattern) -> bool:
    """True if triple patterns bind the subject in every solution."""
    match pattern:
        case Bgp(patterns):
            return bool(patterns)
        case Join(left, right):
            return _binds(left) or _binds(right)
        case Union(left, right):
            return _binds(left) and _binds(right)
        case LeftJoin(inner) | Filter(inner) | Extend(inner) | Group(inner) | WindowBlock(_, inner):
            return _binds(inner)
        case _:
            return False


def key_column(query: ContinuousQuery) -> Variable | None:
    """The variable of the key in solutions of the WHERE group and its aggregates: the subject, or
    its name in GROUP BY. None for a query without a key.
    """
    subject = query_key(query).variable
    groups = [node for node in walk(query.query) if isinstance(node, Group)]
    if subject is None or not groups:
        return subject
    (group,) = groups
    return next(name for name, key in group.keys if isinstance(key, Var) and key.name == subject)


# Spreading of continuous queries by the subjects of their triple patterns (continuous.md, section
# 9).
#
# Idea: at the level NONE a bucket receives, of the elements of each time, the triples of its
# subjects, and the numbers of all elements and of all their triples, since policies and counts are
# those of the whole window. At SNAPSHOT a bucket receives all elements, closes the items, and keeps
# the entailed triples of its subjects. The background is in all buckets; a solution belongs to the
# bucket of its subject.
# Example: of two elements of one time, `:a :v 1 . :b :v 2` and `:b :v 3`, the bucket of :b gets the
# row `2 3 :b :v 2 :b :v 3`: two elements with three triples, of which two are its own.


def query_spreads(query: ContinuousQuery) -> Sequence[ReadSpread] | None:
    """The spread of the only read of a query; None: it has one partition."""
    if query_key(query).variable is None:
        return None
    (window,) = query.windows
    is_divided = window.block_level is EntailmentLevel.NONE
    return [ReadSpread((), not is_divided, is_divided=is_divided)]
