"""Codes of errors and warnings of continuous queries; a code is never reused."""

from __future__ import annotations

from enum import StrEnum


class WindowCode(StrEnum):
    """Code of one error or warning; docs/errors.md explains each."""

    # The statement.
    UNEXPECTED = "W101"
    NO_LABEL = "W102"
    TWO_RELATIONS = "W103"
    UNBOUND_IN_TEMPLATE = "W105"

    # Streams, windows and patterns.
    NO_WINDOW = "W201"
    UNKNOWN_WINDOW = "W202"
    WINDOW_TWICE = "W203"
    WINDOW_IN_WINDOW = "W204"
    MISPLACED_MATCH = "W205"
    NO_TRIPLE_PATTERN = "W206"
    FOREIGN_VARIABLE = "W207"
    TIME_IN_PATTERN = "W208"
    FROM_A_GRAPH = "W209"
    OTHER_SYNTAX = "W210"
    TIMESTAMP = "W211"

    # Extents, reports and levels.
    NO_DURATION = "W301"
    EMPTY_EXTENT = "W302"
    WRONG_STREAM_LEVEL = "W303"
    WRONG_START = "W304"
    OPTION_TWICE = "W305"
    NON_EMPTY_ALONE = "W306"
    NOW_NEVER_CLOSES = "W307"
    REPORT_AND_COMPUTED = "W308"
    NO_NUMBER = "W309"
    NO_TIME = "W310"
    UNKNOWN_ZONE = "W346"
    NO_TIME_OF_DAY = "W347"
    CALENDAR_AND_PERIODIC = "W348"

    # Warnings.
    UNREAD_WINDOW = "W401"
    EMPTY_ANSWERS = "W402"
    LAST_ANSWERS_STAY = "W403"
    MANY_REPORTS = "W404"
    GAPS = "W438"

    # Warnings of the engine, which need the background.
    OF_THE_BACKGROUND = "W405"
    BACKGROUND_ANSWERS = "W406"
    ONE_PARTITION = "W407"
