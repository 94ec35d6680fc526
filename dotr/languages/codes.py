"""Codes of errors and warnings of the rule language, and of units of several languages; a code is
never reused.
"""

from __future__ import annotations

from enum import StrEnum


class RuleCode(StrEnum):
    """Code of one error or warning; docs/errors.md explains each."""

    # Syntax.
    UNEXPECTED = "D101"
    UNCLOSED_BRACKET = "D102"
    UNCLOSED_STRING = "D103"

    # Names.
    RULE_NAME_TWICE = "D201"
    QUERY_LABEL_TWICE = "D202"
    UNBOUND_LABEL = "D203"
    LABEL_TWICE = "D204"
    UNKNOWN_EVENT = "D205"
    QUERY_AND_EVENT = "D206"
    UNKNOWN_ATTRIBUTE = "D207"
    PLAIN_VARIABLE = "D208"
    UNBOUND_IN_TEMPLATE = "D209"
    ASSIGNED_TWICE = "D210"
    WRONG_ASSIGNED_LABEL = "D211"
    NOT_ONE_EVENT = "D212"
    WRONG_AGGREGATED_LABEL = "D213"
    AGGREGATE_TWICE = "D214"
    PREFIX_TWICE = "D215"
    RELATIVE_PREFIX = "D216"
    UNUSED_ASSIGNMENT = "D217"  # warning
    HIDDEN_SHARED_LABEL = "D218"  # warning
    NEVER_BOUND = "D219"  # warning
    UNUSED_QUERY = "D220"  # warning
    UNUSED_AGGREGATE = "D221"  # warning
    NO_PAUSE = "D226"
    UNKNOWN_KEY = "D227"
    NO_DELAY = "D228"
    NO_STANDING_EVENT = "D230"
    CAPITAL_BEFORE = "D231"  # warning
    ELAPSED_ARGUMENTS = "D235"
    NO_FRACTION = "D236"
    NOT_ALL_INTERNAL = "D240"

    # Windows and clauses.
    NO_WINDOW = "D301"
    UNKNOWN_UNIT = "D302"
    EMPTY_INTERVAL = "D303"
    NO_DURATION = "D304"
    NOTHING_SELECTED = "D305"
    UNKNOWN_AGGREGATE = "D306"
    AGGREGATE_OF_EVERYTHING = "D307"
    NEGATED_CONSUMED = "D308"
    EXISTS_IN_CONSTRAINT = "D309"
    LONG_WINDOW = "D310"  # warning
    ANCHOR_CONSUMED = "D311"  # warning
    NO_TIMER = "D312"
    NEVER_HOLDS = "D313"  # warning
    NEVER_COMPARABLE = "D314"  # warning
    ANCHOR_NEGATED = "D315"  # warning
    ALWAYS_HOLDS = "D316"  # warning
    CAN_ONLY_ERR = "D317"  # warning
    NOTHING_BETWEEN = "D318"  # warning
    CROSS_PRODUCT = "D319"  # warning
    NEVER_AS_TYPED = "D320"  # warning of `dotr check`, which reads the data
    UNTIED = "D321"  # warning
    FIRES_TWICE = "D322"  # warning
    NOT_ALSO = "D324"  # warning
    EVERY_EVENT_KEPT = "D325"  # warning
    LENGTH_AS_NUMBER = "D326"  # warning
    ALWAYS_BY_WINDOWS = "D327"  # warning
    UNKNOWN_ZONE = "D367"
    NO_TIME_OF_DAY = "D368"
    UNREAD_INTERNAL = "D331"  # warning of programs with their outputs

    # Events over rules.
    SAME_INSTANT_CYCLE = "D401"
    SAME_INSTANT_RECURSION = "D402"
    UNFOUNDED = "D403"  # warning

    # Reported by the engine.
    BACKGROUND_ALONE = "D501"  # warning
    ONE_PARTITION = "D502"  # warning
    NEVER_TICKS = "D503"  # warning
    TOO_MUCH_OF_THE_BACKGROUND = "D504"
    EVERY_EVENT_EVERYWHERE = "D510"  # warning


class UnitCode(StrEnum):
    """Code of one error or warning of labels, streams and cycles; docs/errors.md explains each."""

    LABEL_OF_UNIT = "D222"
    UNREADABLE_LABEL = "D223"  # warning
    UNKNOWN_STREAM = "D224"
    NO_GRAPHS = "D225"
    CYCLE_OF_UNITS = "D404"
