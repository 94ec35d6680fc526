"""Codes of errors and warnings of EP-SPARQL; a code is never reused."""

from __future__ import annotations

from enum import StrEnum


class TemporalCode(StrEnum):
    """Code of one error or warning; docs/errors.md explains each."""

    # The text.
    UNEXPECTED = "E101"
    NO_LABEL = "E102"
    NO_UNIT = "E103"
    WRONG_FORM = "E104"
    NO_SET = "E105"
    UNKNOWN_POLICY = "E106"
    WRONG_ORDER = "E107"
    NO_DURATION = "E108"
    BESIDE_OPERATORS = "E109"
    INSIDE_PLAIN = "E110"
    SEQOPTIONAL = "E111"
    NO_INTERVAL = "E112"
    NO_GRAPH = "E113"
    FRESH_NAME = "E114"

    # Bounds, variables and labels.
    NO_BOUND = "E201"
    EMPTY_BOUND = "E202"
    UNBOUND_VARIABLE = "E203"
    VISIBLE_ALREADY = "E204"
    UNKNOWN_LABEL = "E205"
    UNKNOWN_ATTRIBUTE = "E206"
    ATTRIBUTES_IN_ONE = "E207"
    LATER_TRIPLE = "E208"

    # Warnings.
    OF_THE_BACKGROUND = "E401"
    NOT_BASIC = "E402"
    NO_COMMON_VARIABLE = "E403"
    ONE_PARTITION_KEY = "E404"
    POLICY_ALONE = "E405"
    LONG_BOUND = "E406"
    LENGTH_AS_NUMBER = "E407"
