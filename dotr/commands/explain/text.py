"""`dotr explain`: execution plan of the rules of a rule file, a configuration or a rule test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dotr.commands.explain.drawing import mermaid, svg
from dotr.commands.explain.explanation import ClauseExplanation, Explanation, QueryExplanation, RuleExplanation, explanation
from dotr.commands.test.files import is_test, read_file
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused, refuse
from dotr.languages.programs import compile_program
from dotr.languages.registry import RuleLanguage
from dotr.runtimes.pipeline.config import read_config, read_document
from dotr.syntax.yaml import read_tree


def explain(path: str, form: str = "text") -> str:
    """Explanation of a file's program, cut as on Spark; `form` is `text`, `mermaid` or `svg`.

    Raises `Refused` with the program's problems."""
    alone = ", without the knowledge that a configuration names" if RuleLanguage.of(path) is not None else ""
    explained = explanation(path + alone, _program(path))
    match form:
        case "mermaid":
            return mermaid(explained)
        case "svg":
            return svg(explained)
        case _:
            return "\n".join(text(explained))


def _program(path: str) -> CompiledProgram:
    match Path(path).suffix:
        case _ if RuleLanguage.of(path) is not None:
            return compile_program(ProgramSpec(rules=(read_document(path),), cut=True))
        case ".yaml" | ".yml":
            if not is_test(read_tree(read_document(path)).data):
                config = read_config(path)
                return compile_program(replace(config.program(), cut=True), config.cache_policy())
            test, problems = read_file(path)
            if problems:
                raise Refused(problems)
            return compile_program(replace(test.spec, cut=True))
        case _:
            read_document(path)
            raise refuse(
                "C303",
                f"{path} is nothing that dotr explains",
                None,
                "It explains rule files (.dotr, .rspql, .lars, .epsparql) and configurations (.yaml).",
            )


def text(explained: Explanation) -> Iterator[str]:
    """Lines of an explanation."""
    yield explained.title
    yield f"Background: {explained.knowledge}."
    if explained.rules and not explained.stateful:
        yield "No state outlives an instant: on Spark the tasks that read the input run all rules, with no stateful operator."
    for query in explained.queries:
        yield ""
        yield from _query(query)
    if explained.unread:
        yield ""
        yield f"Read by no rule, evaluated in rule tests only: {', '.join(explained.unread)}"
    for unit in explained.units:
        yield ""
        yield from unit.lines()
    for rule in explained.rules:
        yield ""
        yield from _rule(rule)


def _query(query: QueryExplanation) -> Iterator[str]:
    shared = "" if len(query.rules) == 1 else ", evaluated once for all of them"
    yield f"Query {query.number}: {', '.join(query.labels)} of {', '.join(query.rules)}{shared}"
    yield f"  asked      {query.how}"
    if query.triggers:
        yield f"  wakes on   {', '.join(query.triggers)}"
    if query.datalog:
        yield f"  Datalog    {', '.join(query.datalog)}"
    if query.static:
        yield f"  static     {query.static}"


def _rule(rule: RuleExplanation) -> Iterator[str]:
    yield f"Rule {rule.name} -> {'internal ' if rule.internal else ''}{rule.event}" + (
        f': "{rule.documentation}"' if rule.documentation else ""
    )
    for step in rule.steps:
        yield f"  {step.written(_source(step))}"
        for constraint in step.constraints:
            yield f"    where    {constraint}"
        if step.answer:
            yield f"    {step.answer}"
    if rule.condition:
        yield f"  if         {rule.condition}"
    for assignment in rule.assignments:
        yield f"  with       {assignment}"
    for step in rule.steps:
        if step.consumed:
            yield f"  consuming  {step.label}: {step.consumed}"
    if rule.once:
        yield f"  {'once':<10} {rule.once.removeprefix('once ')}"
    if rule.stages:
        yield f"  partition  in {len(rule.stages)} stages, from each of which bindings go to the next"
        for number, stage in enumerate(rule.stages, 1):
            yield f"  stage {number:<4} {', '.join(stage.labels)} {stage.partition}"
            yield f"    layer    {stage.placement}"
    else:
        yield f"  partition  {rule.partition}"
        yield f"  layer      {rule.placement}"
    if rule.recursion:
        yield f"  recursion  {rule.recursion}"
    if rule.same_template:
        differ = "differs" if len(rule.same_template) == 1 else "differ"
        yield f"  runs       as one with {', '.join(rule.same_template)}, which {differ} in constants alone"
    stateful_steps = [step for step in rule.steps if step.state]
    for step in stateful_steps:
        yield f"  state      {step.label}: {step.state}"
    if rule.once:
        yield f"  state      {rule.event}: one time for each key, kept for {rule.once.removeprefix('once in ').partition(' per ')[0]}"
    elif not stateful_steps:
        yield "  state      none"


def _source(step: ClauseExplanation) -> str:
    match step.source:
        case None:
            return "(the clock)"
        case int():
            return f"(query {step.source})"
        case _:
            return f"(event {step.source})"
