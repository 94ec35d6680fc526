"""Golden files of generated code for representative inputs, in `tests/evaluation/codegen`.

A change of a generator is visible there line by line. After a deliberate change:

    python -m tests.evaluation.codegen.test_codegen_golden
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from dotr.evaluation.codegen import compiled
from dotr.evaluation.expressions import condition
from dotr.evaluation.joins import compile as joins
from dotr.evaluation.joins.compile import compile_join
from dotr.evaluation.joins.order import Side
from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.delta_rules import DeltaPosition, bind_schema, general_delta_rule, keyed_delta_rule, routed_delta_rule
from dotr.instant.queries import shared_joins as together
from dotr.instant.stage_one import StageOne
from dotr.languages.rules import compile_rules
from dotr.model.algebra import Call, Const, TriplePattern, Var
from dotr.model.datalog import DatalogRule, FilterItem
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource
from dotr.model.templates import Fresh, Template
from dotr.model.terms import RDF_TYPE, XSD, literal
from dotr.model.time import Clock
from dotr.syntax.sparql import parse_select
from dotr.temporal.layout.layers import lay_out
from dotr.temporal.matching.event_store import compile_insert
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import Matcher
from dotr.temporal.matching.matcher.emitter import event_condition
from dotr.temporal.matching.operator import Operator, numbered_rule, positional_stage
from dotr.temporal.matching.rule_templates import RuleGroup, group_rules
from dotr.temporal.templates import compile_template
from tests.support.paths import TESTS

FOLDER = TESTS / "evaluation" / "codegen"
TWO = Const(literal("2", XSD + "integer"))


def pattern(subject: str, predicate: str, object: str) -> TriplePattern:
    """`pattern("?x", "p", "?y")`."""
    slots = [Var(text[1:]) if text[0] == "?" else Const(f"<{text}>") for text in (subject, predicate, object)]
    return TriplePattern(*slots)


AT, IN = pattern("?a", "at", "?c"), pattern("?c", "in", "?b")
INSIDE = DatalogRule("inside", (pattern("?a", "in", "?b"),), (AT, IN))
MEMBER = TriplePattern(Var("x"), Const(RDF_TYPE), Var("c"))
SUBCLASS = DatalogRule("subclass", (TriplePattern(Var("x"), Const(RDF_TYPE), Var("d")),), (MEMBER, pattern("?c", "sub", "?d")))
INDEX = TripleIndex([("<hall>", "<in>", "<house>"), ("<A>", "<sub>", "<B>"), ("<A>", "<sub>", "<C>")])


def join() -> Callable[..., Any]:
    """`?a at ?c` of the new triples, `?c in ?b` of both indexes, and `?a != ?b`."""
    return compile_join([AT, IN, FilterItem(Call("!=", (Var("a"), Var("b"))))], [], [Side.DELTA, Side.BOTH], ["a", "b"])


def delta_rule() -> Callable[..., Any]:
    return routed_delta_rule(DeltaPosition(INSIDE, AT, 0, None), INDEX)


def delta_rule_of_a_class() -> Callable[..., Any]:
    """A keyed delta rule with two superclasses as constant rows."""
    position = DeltaPosition(SUBCLASS, MEMBER, 0, "c")
    return keyed_delta_rule(position, bind_schema(position, "<A>", INDEX), INDEX)


def bulk_delta_rule() -> Callable[..., Any]:
    return general_delta_rule(DeltaPosition(INSIDE, IN, 1, None), INDEX, bulk=True)


ROOMS = TripleIndex([("<http://e/hall>", f"<http://e/{predicate}>", "<http://e/house>") for predicate in ("in", "of", "near")])


def members() -> list[together.GroupMember]:
    """Three queries that begin with the same join."""
    bodies = [
        "?x :at ?c . ?c :in ?b",
        "?x :at ?c . ?c :in ?b . ?b :of ?o",
        "?y :at ?d . ?d :in ?e . ?e :near ?n FILTER(?n != ?y)",
    ]
    texts = [f"PREFIX : <http://e/> SELECT * {{ {body} }}" for body in bodies]
    selects = [parse_select(Span(Document("q", text), 0, len(text)), {}) for text in texts]
    names = [tuple(sorted(select.projection)) for select in selects]
    stage = StageOne(Knowledge.load(sorted(ROOMS.triples), ()), [FactSource(each, of, of) for each, of in zip(selects, names, strict=True)])
    return [together.GroupMember(number, False, (plan.delta_queries or ())[0]) for number, plan in enumerate(stage.plans)]


def shared_joins() -> Callable[..., Any]:
    """The form for small instants, without counting; without the triples in the instant it reads
    the background alone."""
    return together.compile_uncounted(members(), ROOMS)


def shared_joins_counted() -> Callable[..., Any]:
    return together.compile_counted(members(), ROOMS, LIMITS)


def deep_join() -> Callable[..., Any]:
    """More loops than Python nests in one function."""
    body = [pattern(f"?v{n}", "p", f"?v{n + 1}") for n in range(20)]
    return compile_join(body, [], [Side.DELTA] * len(body), ["v20"])


RULES = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
query Q = [ SELECT ?x ?v WHERE { ?x :r ?v } ]
rule R define C = [ dotr_id1 :v ?v ] from P as Now [ FILTER(?v > 3) ]
and each Q as Early [ FILTER(?x = Now.?x) ] within 1 min from Now
and last P as Before [ FILTER(?x = Now.?x && ?v > Now.?v) ] within 30 s from Early
and not Q as Missing [ FILTER(?v > 10) ] between Before and Now
and ?sum = sum(Part.?v) of P as Part [ FILTER(?x = Now.?x) ] within 5 min from Now
if ?sum > 7
with C.?v = ?sum
consuming Early
"""


def compiled_matcher() -> tuple[Matcher, RuleGroup]:
    """The matcher of a rule with `each`, `last`, `not`, an aggregate and consumption."""
    rules = compile_rules([Document("golden.dotr", RULES)], {}).rules
    assert rules
    (layer,) = lay_out(rules).layers
    (placed,) = layer.rules
    (group,) = group_rules([(0, placed.rule, placed.ports, ("v",))])
    return compile_matcher(group, [0], Clock()), group


def matcher() -> Callable[..., Any]:
    return compiled_matcher()[0].find


ALIKE = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
query Q = [ SELECT ?x ?v WHERE { ?x :r ?v } ]
rule R# define C = [ dotr_id1 :v ?v ] from P as Now [ FILTER(?v > #) ]
and last Q as Early [ FILTER(?x = Now.?x && ?v < #) ] within 1 min from Now
and not P as Missing [ FILTER(?x = Now.?x && ?v > 9) ] within 10 s from Early
and ?mean = avg(Part.?v) of Q as Part [ FILTER(?x = Now.?x) ] between Early and Now
if ?mean > #
with C.?v = Early.?v
consuming Early
"""
"""Rules that differ in constants alone: `#` is one of them."""

BOUNDS = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
query Q = [ SELECT ?x ?v ?w WHERE { ?x :r ?v OPTIONAL { ?x :s ?w } } ]
rule R define C = [ dotr_id1 :v ?v ; :n ?n ; :w ?w ] from P as Now
and first 2 Q as Early [ FILTER(?v >= Now.?v && ?v < 20) ] within (1 s, 1 min] from Now
and last Q as Late [ FILTER(?x IN (Now.?x, Early.?x)) ] within [0, 30 s) from Now
and not P as Missing within 5 s from Late
and ?n = count(distinct Part.?w) of Q as Part [ FILTER(?x = Now.?x && ?v > Early.?v) ] within 5 min from Now
and ?most = max(All.?v) of P as All within 1 h from Now
if ?n > 1 || ?most > Late.?w
with C.?v = ?most, C.?n = ?n, C.?w = Late.?w
"""

DELAYED = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
rule R define C = [ dotr_id1 :n ?n ] from P as Now delayed by 10 s
and not P as Next [ FILTER(?x = Now.?x) ] within [0, 10 s) from Now
and ?n = count(*) of P as All within 1 min from Now
with C.?n = ?n
"""


def grouped(text: str, *numbers: int) -> tuple[RuleGroup, list[int]]:
    """The only group of rules of a text, which is repeated for each number; and the first consumed set of each rule."""
    head, rule = text.split("rule", 1)
    rules = compile_rules([Document("grouped.dotr", head + "".join(f"rule{rule}".replace("#", str(n)) for n in numbers))], {}).rules
    assert rules
    (layer,) = lay_out(rules).layers
    (alike,) = group_rules([(number, placed.rule, placed.ports, ("n", "v", "w")) for number, placed in enumerate(layer.rules)])
    return alike, list(range(len(numbers)))


def matcher_of_rules_alike() -> Callable[..., Any]:
    """The matcher of three rules with a threshold each."""
    return compile_matcher(*grouped(ALIKE, 3, 4, 5), Clock()).find


def matcher_of_a_rule_that_counts() -> Matcher:
    """The same with the counts of `run --rules`, for one rule; `find` counts whole anchors."""
    return compile_matcher(*grouped(ALIKE, 3), Clock(), counted=True)


def exact_matcher() -> Callable[..., Any]:
    """The function with exact limits, for one anchor and one rule."""
    return compile_matcher(*grouped(ALIKE, 3, 4, 5), Clock()).compile_exact()


def matcher_with_bounds() -> Callable[..., Any]:
    """`first 2`, `IN`, `not`, `count(distinct …)` and `max`."""
    return compile_matcher(*grouped(BOUNDS, 1), Clock()).find


def matcher_of_a_delayed_anchor() -> Callable[..., Any]:
    return compile_matcher(*grouped(DELAYED, 1), Clock()).find


CUT = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
query Q = [ SELECT ?x ?v WHERE { ?x :r ?v } ]
rule R# define C = [ dotr_id1 :v ?v ] from P as Now [ FILTER(?v > #) ]
and each Q as Early [ FILTER(?x = Now.?x) ] within 1 min from Now
and last P as Before [ FILTER(?x = Early.?v) ] within 30 s from Early
and ?sum = sum(Part.?v) of P as Part within 5 min from Now
if ?sum > #
with C.?v = Before.?v
"""


def cut_matcher(stage: int) -> Matcher:
    """The matcher of a stage of three rules of one template: `each` by ?x; then `last` by ?v, and a replicated aggregate."""
    head, rule = CUT.split("rule", 1)
    rules = compile_rules([Document("cut.dotr", head + "".join(f"rule{rule}".replace("#", str(n)) for n in (3, 4, 5)))], {}).rules
    assert rules
    layer = lay_out(rules, cut=True).layers[stage]
    numbered = [numbered_rule(number, layer, ("v",)) for number in range(len(layer.rules))]
    stages = {number: each for number, placed in enumerate(layer.rules) if (each := positional_stage(placed, layer)) is not None}
    (group,) = group_rules(numbered, stages)
    return compile_matcher(group, [0] * 3, Clock())


def stage_that_sends() -> Callable[..., Any]:
    return cut_matcher(0).find


def stage_that_ends() -> Callable[..., Any]:
    return cut_matcher(1).find


def binding_decoder() -> Callable[..., Any]:
    decode = cut_matcher(1).decode
    assert decode is not None
    return decode


def event_store() -> Callable[..., Any]:
    """The indexes of `last P` and of `sum` of P."""
    made, group = compiled_matcher()
    parts = [step.role for step in group.template.clauses]
    specs = [look for look, part in zip(made.index_specs, parts, strict=True) if part.port == parts[1].port]
    tests = [event_condition(spec.own, parts[1].attributes, Clock()) if spec.own else None for spec in specs]
    return compile_insert(specs, tests, [None] * len(specs))


LONE = """PREFIX : <http://example.org/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
rule R define C = [ dotr_id1 :v ?v ] from P as Now [ FILTER(?v > 3) ]
and each P as Early [ FILTER(?v > 7 && ?x = Now.?x) ] within 1 min from Now
with C.?v = Now.?v
"""


def lone_fact() -> Callable[..., Any]:
    """The lone-fact function of a port whose facts are anchors and are stored."""
    rules = compile_rules([Document("lone.dotr", LONE)], {}).rules
    assert rules
    (layer,) = lay_out(rules).layers
    made = Operator(layer, {"C": ("v",)}, Clock())._lone_fact(0)
    assert made is not None
    return made


def expression() -> Callable[..., Any]:
    """`?a > 2 && (?a = ?b || ?c IN (2, ?a))`."""
    either = Call("||", (Call("=", (Var("a"), Var("b"))), Call("IN", (Var("c"), TWO, Var("a")))))
    return condition(Call("&&", (Call(">", (Var("a"), TWO)), either)), [Var("a"), Var("b"), Var("c")])


def template() -> Callable[..., Any]:
    of = Template(((Fresh("id1"), Const("<http://e/at>"), Var("room")), (Var("room"), Const("<http://e/is>"), Const('"on fire"'))))
    return compile_template(of, ["room"]).instantiate


CASES: list[Callable[[], Callable[..., Any] | Matcher]] = [
    join,
    deep_join,
    delta_rule,
    delta_rule_of_a_class,
    bulk_delta_rule,
    shared_joins,
    shared_joins_counted,
    matcher,
    matcher_of_rules_alike,
    matcher_of_a_rule_that_counts,
    exact_matcher,
    matcher_with_bounds,
    matcher_of_a_delayed_anchor,
    stage_that_sends,
    stage_that_ends,
    binding_decoder,
    event_store,
    lone_fact,
    expression,
    template,
]


def text_of(case: Callable[[], Callable[..., Any] | Matcher]) -> str:
    """The generated text of a case's function, or of its matcher."""
    compiled.cache_clear()
    joins._factory.cache_clear()
    made = case()
    return made.source if isinstance(made, Matcher) else "".join(linecache.getlines(made.__code__.co_filename))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_generated_code_equals_the_golden_file(case: Callable[[], Callable[..., Any] | Matcher]) -> None:
    assert text_of(case) == (FOLDER / f"{case.__name__}.txt").read_text(encoding="utf-8")


def test_every_golden_file_has_a_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(case.__name__ for case in CASES)


if __name__ == "__main__":
    for case in CASES:
        (FOLDER / f"{case.__name__}.txt").write_text(text_of(case), encoding="utf-8")
