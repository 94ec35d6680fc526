"""The codes of the rule language's errors and warnings. A code is never reused: people search for it."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    # Syntax.
    UNEXPECTED = "D101"
    UNCLOSED_BRACKET = "D102"
    UNCLOSED_STRING = "D103"
    NOT_A_FILTER = "D104"
    GRAPH_PATTERN = "D105"

    # Names.
    RULE_NAME_TWICE = "D201"
    QUERY_LABEL_TWICE = "D202"
    UNBOUND_LABEL = "D203"
    LABEL_TWICE = "D204"
    UNKNOWN_EVENT = "D205"
    QUERY_AND_EVENT = "D206"
    UNKNOWN_ATTRIBUTE = "D207"
    MISPLACED_REFERENCE = "D208"
    UNKNOWN_PREFIX = "D209"
    PREFIX_TWICE = "D210"
    PLAIN_VARIABLE = "D211"
    UNBOUND_IN_TEMPLATE = "D212"
    ASSIGNED_TWICE = "D213"
    WRONG_ASSIGNED_LABEL = "D214"
    NOT_PROJECTED = "D215"
    NOT_ONE_EVENT = "D216"
    WRONG_AGGREGATED_LABEL = "D217"
    AGGREGATE_TWICE = "D218"
    UNUSED_ASSIGNMENT = "D219"  # warning
    HIDDEN_SHARED_LABEL = "D220"  # warning
    NEVER_BOUND = "D221"  # warning

    # Windows and clauses.
    NO_WINDOW = "D301"
    UNKNOWN_UNIT = "D302"
    EMPTY_INTERVAL = "D303"
    NO_DURATION = "D304"
    NOTHING_SELECTED = "D305"
    UNKNOWN_AGGREGATE = "D306"
    AGGREGATE_OF_EVERYTHING = "D307"
    NEGATED_CONSUMED = "D308"
    LONG_WINDOW = "D309"  # warning
    ANCHOR_CONSUMED = "D310"  # warning

    # Events over rules.
    SAME_INSTANT_CYCLE = "D401"
    SAME_INSTANT_RECURSION = "D402"

    # What only the engine can see.
    BACKGROUND_ALONE = "D501"  # warning
    ONE_PARTITION = "D502"  # warning

    NOT_EVALUATED = "D901"
