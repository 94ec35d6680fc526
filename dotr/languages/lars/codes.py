"""Codes of errors and warnings of LARS files; a code is never reused."""

from __future__ import annotations

from enum import StrEnum


class LarsCode(StrEnum):
    """Code of one error or warning; docs/errors.md explains each."""

    # Syntax.
    UNEXPECTED = "L101"
    NO_LABEL = "L102"
    NO_DURATION = "L103"
    STATEMENT_TWICE = "L104"
    NO_NUMBER = "L105"

    # Windows.
    NO_WINDOW = "L201"
    EMPTY_WINDOW = "L202"
    NO_RESOLUTION = "L203"
    NOTHING_COUNTED = "L204"
    COUNTED_CONCLUSIONS = "L205"
    COUNTED_EVENTS = "L206"
    PER_WHAT = "L207"
    SINCE_COUNTED = "L208"

    # Rules and facts.
    RECURSION_THROUGH_NOT = "L209"
    UNBOUND = "L210"
    BOUND_TWICE = "L211"
    TIME_OF_HEAD = "L212"
    INSIDE_NOT = "L213"
    NO_CONDITION = "L214"
    NO_HEAD = "L215"
    NO_RULE = "L216"
    NO_FACT = "L217"
    TWO_ARITIES = "L218"
    UNKNOWN_RELATION = "L219"
    ATTRIBUTE_TWICE = "L220"

    # Reports.
    NEVER_DERIVED = "L221"
    NO_REPORT_LABEL = "L222"
    LABEL_TWICE = "L223"

    # Warnings.
    NO_REPORT = "L401"
    EVERY_POINT = "L402"
    FORGOTTEN_CONCLUSIONS = "L403"
    LENGTH_AS_NUMBER = "L405"
    SHORT_WINDOW = "L436"

    # A warning of the engine, which needs the whole program.
    ONE_PARTITION = "L404"
