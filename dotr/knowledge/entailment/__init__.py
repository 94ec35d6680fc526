"""Entailment rule sets as data."""

from dotr.knowledge.entailment.rows import Entailment, rule_set

__all__ = ["Entailment", "rule_set"]
