"""Entailment rule sets as data."""

from dotr.instant.datalog.entailment.rule_sets import Entailment, rule_set

__all__ = ["Entailment", "rule_set"]
