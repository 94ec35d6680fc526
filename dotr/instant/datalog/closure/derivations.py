"""Generated functions that derive the conclusions of a rule, over any background, from bound
variables.

    derive = derivation(rule, stratum, bound, skip)
    derive(background, delta, push, alarms, *terms)

Conclusions are passed to `push`, known ones, too; contradictions are appended to `alarms` as (rule,
triples). Delta rules (`dotr.instant.datalog.closure.delta_rules`) do the same faster for one
position over a fixed background. NOT and AGGREGATE are evaluated in `delta.models[stratum]`.

Cost: about 50 µs to generate; rules of one shape share the compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from dotr.evaluation.codegen.tree import Emit, IfElse, Return
from dotr.evaluation.expressions.identity import is_datatype, is_different, is_of_datatype
from dotr.evaluation.joins.choices import ChoosingWriter
from dotr.evaluation.triples.generalised import LITERAL_TYPE, OF, READ, property_of_literals
from dotr.evaluation.triples.index import HIDDEN, TripleIndex
from dotr.instant.datalog.closure.lower_strata import LowerModel, exists, groups
from dotr.instant.datalog.entailment.rule_sets import is_of_literals
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.datalog import DatalogRule, GroupAggregate, Not
from dotr.model.terms import OWL, Term, Triple, Variable, can_be_subject, iri, is_iri
from dotr.model.traverse import free_variables

TURNING_ROWS: Final = frozenset(("prp-symp", "prp-inv1", "prp-inv2"))
TYPING_ROWS: Final = frozenset(("prp-rng", "cls-avf", "cls-oo"))
SAME_AS: Final = Const(iri(OWL + "sameAs"))

ConstraintViolation: TypeAlias = tuple[str, tuple[Triple, ...]]
Push: TypeAlias = Callable[[Triple], None]
Derivation: TypeAlias = Callable[..., None]


def may_be_false(rule: DatalogRule) -> bool:
    """True for a rule of which a match may be a contradiction: without a head, or a row that may
    make two values the same.
    """
    makes_same = rule.of_rule_set and any(head.predicate == SAME_AS for head in rule.head)
    return not rule.head or (makes_same and not rule.name.startswith("eq-"))


class StratumDelta(TripleIndex):
    """Delta of a closure by strata; `models[n]` is the model that NOT and AGGREGATE of stratum n
    read.
    """

    __slots__ = ("models",)

    def __init__(self, models: Sequence[LowerModel], triples: Iterable[Triple] = ()) -> None:
        super().__init__(triples)
        self.models = models


class RuleWriter(ChoosingWriter):
    """Generator of a rule's body; variable predicates match hidden ones in a rule set."""

    def __init__(self, name: str, rule: DatalogRule, stratum: int, *, index: TripleIndex | None = None) -> None:
        super().__init__(name, leave="return", index=index, hidden=rule.of_rule_set)
        self._stratum = stratum

    def lower_stratum_item(self, item: Not | GroupAggregate) -> None:
        """Emits a look-up in the lower strata.

        `NOT [?s, <broken>, ?w]` and `AGGREGATE … ON ?room BIND COUNT(?x) AS ?n`:

            if a0(delta.models[1], v_s): continue
            for v_n, in g1(delta.models[1], v_room):
        """
        bound = tuple(name for name in free_variables(item) if name in self.names)
        arguments = ", ".join([f"delta.models[{self._stratum}]", *map(self.read, bound)])
        match item:
            case Not():
                self.skip_if(f"{self.parameter('a', exists(item, bound))}({arguments})")
            case GroupAggregate(_, keys, results):
                slots = [*(key for key in keys if key not in bound), *(name for name, _ in results)]
                targets, checks = [], []
                for slot in slots:
                    if slot in self.names:
                        targets.append(self.temporary())
                        checks.append(f"{targets[-1]} != {self.names[slot]}")
                    else:
                        targets.append(self.bind(slot))
                self.loop(", ".join(targets) + ",", f"{self.parameter('g', groups(item, bound))}({arguments})")
                for check in checks:
                    self.skip_if(check)

    def conclude(self, rule: DatalogRule) -> None:
        """Emits the heads, or the contradiction of a rule without a head."""
        for head in rule.head:
            self._push(rule, head)
        if not rule.head:
            self.add(self.contradiction(rule.name, rule))

    def _push(self, rule: DatalogRule, head: TriplePattern) -> None:
        """Emits a head; terms that would not be RDF derive nothing (a literal or triple term as
        subject, a predicate that is no IRI).

        `[?o, <of>, ?s]`, with `?o` bound only as an object:

            if v_o >= '<=':
                push((v_o, k0, v_s))

        The rows of a rule set conclude blank predicates, too. Where a row turns a triple round, a
        literal `v_o` is the subject of a hidden predicate, and has a hidden type where the
        background reads the class; where it makes two literals of different values the same (`v_o`
        and `v_s`), that is a contradiction:

            elif v_o[0] == '"':
                push((v_o, k1, v_s))
                push((k0, k2, k1))
            elif v_o < v_s and f3(v_o, v_s):
                alarms.append((k4, (…)))
        """
        subject, predicate, object = (self.name_of(slot) for slot in (head.subject, head.predicate, head.object))
        if rule.of_rule_set and (is_of_literals(head.predicate) or (self.known_term(head.predicate) or "").startswith(HIDDEN)):
            self.add(self.conclusion(f"({subject}, {predicate}, {object})"))
            return
        subjects, predicates = set[Variable](), set[Variable]()
        for item in rule.body:
            if isinstance(item, TriplePattern):
                if isinstance(item.subject, Var) and not is_of_literals(item.predicate):
                    subjects.add(item.subject.name)
                if isinstance(item.predicate, Var):
                    predicates.add(item.predicate.name)
        checks = []
        for slot, known_valid, is_valid, check in (
            (head.subject, subjects | predicates, can_be_subject, "{0} >= '<='"),
            (head.predicate, predicates, *((can_be_subject, "{0} >= '<='") if rule.of_rule_set else (is_iri, "{0}[0] == '<' != {0}[1]"))),
        ):
            term = self.known_term(slot)
            if term is not None:
                if not is_valid(term):
                    return
            elif isinstance(slot, Var) and slot.name not in known_valid:
                checks.append(check.format(self.name_of(slot)))
        push = self.conclusion(f"({subject}, {predicate}, {object})")
        cases: list[tuple[str, list[Emit]]] = [(" and ".join(checks), [push])]
        if rule.of_rule_set and rule.name in TURNING_ROWS:
            known = self.known_term(head.predicate)
            of = self.constant(property_of_literals(known)) if known else f"{self.parameter('f', property_of_literals)}({predicate})"
            of_literals = [self.conclusion(f"({subject}, {of}, {object})"), self.conclusion(f"({predicate}, {self.constant(OF)}, {of})")]
            cases.append((f"""{subject}[0] == '"'""", of_literals))
        elif rule.of_rule_set and rule.name in TYPING_ROWS and self.index is not None and READ in self.index.by_subject:
            known, read = self.known_term(head.object), self.index.by_subject[READ]
            if known is None or known in read:
                test = "" if known is not None else f" and {object} in {self.parameter('r', read)}"
                if known is None or is_datatype(known):  # dt-type2 has the literals that are of the datatype
                    test += f" and not {self.parameter('f', is_of_datatype)}({subject}, {object})"
                of_literal = self.conclusion(f"({subject}, {self.constant(LITERAL_TYPE)}, {object})")
                cases.append((f"""{subject}[0] == '"'{test}""", [of_literal]))
        elif may_be_false(rule):
            test = f"{subject} < {object} and {self.parameter('f', is_different)}({subject}, {object})"
            cases.append((test, [self.contradiction("dt-diff", rule)]))
        self.add(IfElse(cases) if checks else push)

    def conclusion(self, triple: str) -> Emit:
        """The statement that concludes a triple."""
        return Emit("push", triple)

    def contradiction(self, row: str, rule: DatalogRule) -> Emit:
        """The statement that concludes `false` from the premises of a rule, under the name of a
        row."""
        premises = "".join(f"{self._triple(item)}, " for item in rule.body if isinstance(item, TriplePattern))
        return Emit("alarms.append", f"({self.parameter('c', row)}, ({premises}))")

    def _triple(self, pattern: TriplePattern) -> str:
        return f"({self.name_of(pattern.subject)}, {self.name_of(pattern.predicate)}, {self.name_of(pattern.object)})"


def derivation(
    rule: DatalogRule, stratum: int, bound: tuple[Variable, ...], skip: int | None = None, *, in_bulk: bool = False
) -> Derivation:
    """The function that derives the conclusions of a rule with some variables bound.

    `bound`: the variables whose terms are the last arguments of the function, in this order.
    `skip`: the index of a body item to leave out; None: none. `in_bulk`: all matches are wanted,
      over a background in which nothing is masked.

    >>> from dotr.model.algebra import Var
    >>> at = TriplePattern(Var("a"), Const("<at>"), Var("c"))
    >>> inside = TriplePattern(Var("c"), Const("<in>"), Var("b"))
    >>> rule = DatalogRule("r", (TriplePattern(Var("a"), Const("<in>"), Var("b")),), (at, inside))
    >>> found: list[Triple] = []
    >>> background = TripleIndex([("<c>", "<in>", "<b>")])
    >>> derive = derivation(rule, 0, ("a", "c"), 0)
    >>> derive(background, TripleIndex(), found.append, [], "<a>", "<c>")
    >>> found
    [('<a>', '<in>', '<b>')]
    >>> from inspect import getsource
    >>> print(getsource(derive))
        def derive(background, delta, push, alarms, v_a, v_c):
            b0 = background.by_subject.get(k0, NO_ENDS)
            d1 = delta.by_subject.get(k0)
            for v_b in (b0.get(v_c, NO_TERMS) if d1 is None else b0.get(v_c, NO_TERMS) + d1.get(v_c, NO_TERMS)):
                push((v_a, k0, v_b))
    <BLANKLINE>
    """
    writer = RuleWriter("derive", rule, stratum)
    writer.in_bulk = in_bulk
    writer.begin(["background", "delta", "push", "alarms", *map(writer.bind, bound)])
    rest = [item for number, item in enumerate(rule.body) if number != skip]
    writer.write_chosen(rest, lambda: writer.conclude(rule))
    writer.end()
    return writer.function()


def support(rule: DatalogRule, stratum: int, bound: tuple[Variable, ...]) -> Derivation:
    """The function that pushes True once if a rule has a match with these variables bound."""
    writer = RuleWriter("derive", rule, stratum)
    writer.begin(["background", "delta", "push", *map(writer.bind, bound)])

    def found() -> None:
        writer.emit("push", "True")
        writer.add(Return())

    writer.write_chosen(rule.body, found)
    writer.end()
    return writer.function()


def bindings_of(pattern: TriplePattern, triple: Triple) -> dict[Variable, Term] | None:
    """Bindings of a pattern's variables by a triple; None for a mismatch.

    >>> from dotr.model.algebra import Var
    >>> bindings_of(TriplePattern(Var("x"), Const("<p>"), Var("x")), ("<a>", "<p>", "<b>"))
    """
    terms: dict[Variable, Term] = {}
    for slot, term in zip((pattern.subject, pattern.predicate, pattern.object), triple, strict=True):
        if isinstance(slot, Const):
            if slot.term != term:
                return None
        elif terms.setdefault(slot.name, term) != term:
            return None
    return terms
