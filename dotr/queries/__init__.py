"""SPARQL over a closed instant: plans that start from what the instant brought, and full evaluation."""

from dotr.queries.evaluate import evaluate
from dotr.queries.plan import Plan, plan
from dotr.queries.question import columns, question, same_question
from dotr.queries.together import Unit, units

__all__ = ["Plan", "Unit", "columns", "evaluate", "plan", "question", "same_question", "units"]
