"""Compiler of the `map` of a JSON input to Python: an object to triples.

Idea: as for a row of CSV, each path is a variable of generated code. A term whose path has `[]`
repeats the smallest part of the template around it. Inside brackets that is the property list of
its triple, with the triple that has the list's node as object; outside of brackets it is its
triple. A repeated part is a loop, with new blank nodes in each turn.

    map: <{id}> a :Room ; :part [ :no {parts[].n} ] .

    triples.append((absolute_iri(text_of(c0)), a, :Room))
    for i0 in items_of(c1):
        c2 = i0.get('n') if i0.__class__ is dict else None
        b0 = f'_:{next(fresh)}'
        triples.append((absolute_iri(text_of(c0)), :part, b0))
        if c2 is not None:
            triples.append((b0, :no, cell_term(c2)))

Invariant: triples are in the order of the template, a part's items in that of the list; each triple
is there once.
Cost: about that of `json.loads` for an object of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from decimal import Decimal
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, TypeAlias

from dotr.errors.diagnostics import Diagnostic, DotrError, Refused
from dotr.evaluation.codegen.tree import Assign, Block, CodeNode, Emit, ForEach, IfElse, Return
from dotr.evaluation.codegen.triples import TermCode, TripleCode, compile_triples, return_triples
from dotr.model import dataclass
from dotr.model.algebra import Const
from dotr.model.places import Document
from dotr.model.templates import Blank, ParsedMap, Template, TemplateSlot, TemplateTerm, TemplateTriple, leaves
from dotr.model.terms import RDF_FIRST, XSD, Term, Triple, literal
from dotr.streams.formats.mapping.json_paths import JsonPath, Outer, Step, parse_path
from dotr.streams.formats.mapping.map_terms import JsonNumber, MapTerms, cell_term, columns_of, columns_of_slot, string_term
from dotr.streams.formats.mapping.maps import cell_problem, is_origin, origin_value, parsed_map
from dotr.streams.formats.mapping.typed_cells import NO_TEXT, PLAIN, CellSettings, typed_cells, typed_code, typed_variable
from dotr.streams.records import InputFile, Message
from dotr.syntax.turtle.graphs import number_blanks

MakeObject: TypeAlias = Callable[[Any, Sequence[Any], Message | None], tuple[tuple[Triple, ...], int]]
"""Function `make(item, outer, sent)`: triples of an object or an item of `each`, and the number of
triples omitted for a missing value (0 where a part is repeated).

`outer` are the JSON message around the item, and the item's own items of outer lists; `sent` is the
message of the transport, or the origin of a record of a file (None: the map has no cell of it).
Raises ValueError with the reason where a value cannot be used."""


class TypedText(str):
    """The lexical form of another value of a typed column; its class has the datatype's IRI."""

    __slots__ = ()
    datatype: ClassVar[str]


class JsonConstant(str):
    """NaN or an infinity, which is an error where it is read."""

    __slots__ = ()


class UnusableMap(DotrError):
    """A map whose repetition is impossible; `column` is the path that causes it."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column


def value_term(value: object) -> Term:
    """Term of a JSON value: a string is a plain literal, and a number an integer, a decimal (dot)
    or a double (exponent) of the same lexical form. Raises ValueError for an object or a list.

    >>> value_term("007"), value_term(True)
    ('"007"', '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>')
    >>> value_term(JsonNumber("7.40"))
    '"7.40"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if value.__class__ is str:
        return string_term(value)
    if value.__class__ is JsonNumber:
        return cell_term(value)
    if value.__class__ is bool:
        return literal("true" if value else "false", XSD + "boolean")
    if isinstance(value, JsonNumber | TypedText):
        return literal(value, value.datatype)
    raise ValueError(_no_value(value))


def value_text(value: object) -> str:
    """Text of a JSON value inside an IRI or a literal; raises ValueError for an object or a list.

    >>> value_text("hall"), value_text(JsonNumber("1.50")), value_text(False)
    ('hall', '1.50', 'false')
    """
    if isinstance(value, str) and value.__class__ is not JsonConstant:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError(_no_value(value))


def _no_value(value: object) -> str:
    if isinstance(value, JsonConstant):
        return f"{value} is no JSON"
    found = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "text that is not UTF-8"
    return f"{found} is found where the map needs a value"


def items_of(value: object) -> Sequence[Any]:
    """Items of a list; none where it is missing or null. Raises ValueError for another value.

    >>> items_of(None), items_of([1])
    ((), [1])
    """
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    raise ValueError(f"{'an object' if isinstance(value, dict) else 'a value'} is found where the map needs a list")


def typed_text(value: object) -> str | None:
    """The text of a value of a typed cell; None for null, and for an object or a list a text of no
    type.

    >>> typed_text("7,5"), typed_text(JsonNumber("1.50")), typed_text(True), typed_text(None), typed_text([])
    ('7,5', '1.50', 'true', None, '\\x00list')
    """
    if isinstance(value, JsonNumber) and value.__class__ is not JsonNumber and "e" in value:
        return f"{Decimal(value):f}"  # a float of a column has no spelling of its own: 1e-7 is 0.0000001
    if value is None or isinstance(value, str):
        return value
    return value_text(value) if isinstance(value, bool) else f"{NO_TEXT}{'object' if isinstance(value, dict) else 'list'}"


@lru_cache(256)
def compile_json_map(
    document: Document,
    parsed: ParsedMap,
    each: tuple[JsonPath, ...] = (),
    settings: CellSettings = PLAIN,
    columns: frozenset[str] = frozenset(),
) -> MakeObject:
    """Compile the map of a document; raises `Refused` with the errors of its paths (T107, T108).
    `settings`: those of the input by which typed cells are read.

    `each`: the lists whose items are made. A cell that is one of `columns` is the member of that
    name. Blank nodes are `_:0`, `_:1`, … in order of appearance.

    >>> from dotr.model.places import Span
    >>> from dotr.syntax.turtle.parser import parse_map
    >>> document = Document("map", "<x:s> <x:tag> {tags[]} ; <x:v> {v} .")
    >>> make = compile_json_map(document, parse_map(Span(document, 0, len(document.text)), {}))
    >>> for triple in make({"tags": ["a", "b"], "v": JsonNumber("1")}, (), None)[0]: print(triple)
    ('<x:s>', '<x:tag>', '"a"')
    ('<x:s>', '<x:tag>', '"b"')
    ('<x:s>', '<x:v>', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>')
    >>> from inspect import getsource
    >>> print(getsource(make))
    def make(data, outer, sent):
        fresh = count(0)
        triples = []
        c0 = data.get('v') if data.__class__ is dict else None
        l1 = data.get('tags') if data.__class__ is dict else None
        for i2 in items_of(l1):
            c3 = i2
            if c3 is not None:
                triples.append(('<x:s>', '<x:tag>', cell_term(c3)))
        if c0 is not None:
            triples.append(('<x:s>', '<x:v>', cell_term(c0)))
        return tuple(dict.fromkeys(triples)), 0
    <BLANKLINE>
    """
    paths: dict[str, JsonPath] = {}
    problems: list[Diagnostic] = []
    for column in columns_of(parsed.template):
        try:
            paths[column] = JsonPath((column,)) if column in columns and not is_origin(column) else parse_path(column).within(each)
        except ValueError as error:
            hint = "A path is written a.b, a[0] or a[]: docs/inputs.md."
            hint = f'A member of that name is written {{"{column}"}}.' if column.startswith("$") else hint
            problems.append(cell_problem(document, column, "T107", str(error), hint))
    if problems:
        raise Refused(problems)
    try:
        return _MapCompiler(parsed.template, frozenset(parsed.bracketed), paths, settings).compiled()
    except UnusableMap as error:
        hint = "Write each list in brackets of its own, or only paths that go through the same list."
        raise Refused([cell_problem(document, error.column, "T108", str(error), hint)]) from None


def compile_map_of(file: InputFile, each: tuple[JsonPath, ...] = (), columns: frozenset[str] = frozenset()) -> MakeObject:
    """The compiled map of an input; raises `Refused` with all its errors (T101 to T108).

    `each`: the lists whose items are made; `columns` are those of a table whose rows are the
    objects.
    """
    assert file.map is not None
    parsed = parsed_map(file)
    return compile_json_map(file.map.template, parsed, each, CellSettings.of(file, parsed.template), columns)


_Prefix: TypeAlias = tuple[Step, ...]


@dataclass
class _MapCompiler:
    """Compiler of one map. `bracketed`: the blank nodes with a property list in brackets."""

    template: Template
    bracketed: frozenset[Blank]
    paths: dict[str, JsonPath]
    settings: CellSettings
    _numbers: Any = field(default_factory=count)

    def compiled(self) -> MakeObject:
        triples = self.template.triples
        list_nodes = {triple[0] for triple in triples if triple[1] == Const(RDF_FIRST)}
        self._nested = self.bracketed | {node for node in list_nodes if isinstance(node, Blank)}
        self._leads = {triple[2]: triple for triple in triples if isinstance(triple[2], Blank) and triple[2] in self._nested}
        self._check_repetition(list_nodes)
        self._blanks = list(dict.fromkeys(slot for slot in leaves(self.template) if isinstance(slot, Blank)))
        self._variables: dict[str, str] = {}
        self._loop_variables: dict[_Prefix, str] = {}
        self._blank_codes: dict[Blank, TermCode] = {
            blank: TermCode(repr(f"_:{number}"), fixed=f"_:{number}") for number, blank in enumerate(self._blanks)
        }
        self._terms = MapTerms(
            lambda column: self._variables[column], "{} is not None".format, lambda blank: self._blank_codes[blank], value_term, value_text
        )
        self._terms.typed = lambda cell: typed_variable(self._variables[cell.column], cell)
        names: dict[str, object] = {"items_of": items_of, "origin_value": origin_value, "numbered": number_blanks, "count": count}
        self._terms.names["typed_text"] = typed_text
        if not any(path.lists for path in self.paths.values()):
            body = [*self._fetches(self.template.triples), *return_triples(self._codes(triples), "numbered({})" if self._blanks else "{}")]
        else:
            block = self._block(triples, (), frozenset())
            end = Return("numbered(dict.fromkeys(triples)), 0" if self._blanks else "tuple(dict.fromkeys(triples)), 0")
            body = [Assign("fresh", f"count({len(self._blanks)})"), Assign("triples", "[]"), *block, end]
        return compile_triples("map", "data, outer, sent", body, {**names, **self._terms.names})

    # --- repetition ---

    def _check_repetition(self, list_nodes: Collection[TemplateSlot]) -> None:
        """Raise `UnusableMap` for `[]` in a list or a quoted triple."""
        for triple in self.template.triples:
            for slot in triple:
                for column in columns_of_slot(slot):
                    if self.paths[column].lists and (triple[0] in list_nodes or isinstance(slot, TemplateTerm)):
                        where = "a quoted triple" if isinstance(slot, TemplateTerm) else "a list in parentheses"
                        raise UnusableMap(column, f"{{{column}}} cannot repeat inside {where}")

    def _block(self, triples: Sequence[TemplateTriple], bound: _Prefix, entered: frozenset[Blank]) -> list[CodeNode]:
        """The statements for triples in their order, inside the loops over the items of `bound`.

        `entered`: the nodes whose property lists the loops repeat.
        """
        block: list[CodeNode] = []
        direct = [triple for triple in triples if self._repeated_node(triple, entered) is None and self._list_of(triple, bound) == bound]
        block += self._fetches(direct)
        done: set[Blank] = set()
        for triple in triples:
            node = self._repeated_node(triple, entered)
            if node is not None:
                if node not in done:
                    done.add(node)
                    inside = [each for each in triples if self._belongs(each, node)]
                    block += self._loops(
                        inside, bound, self._extended(self._list_of_node(node), bound), entered | {node}, self._within(node)
                    )
                continue
            longest = self._list_of(triple, bound)
            if longest != bound:
                block += self._loops([triple], bound, longest, entered, ())
            else:
                block += self._emit(triple)
        return block

    def _loops(
        self, triples: Sequence[TemplateTriple], bound: _Prefix, longest: _Prefix, entered: frozenset[Blank], blanks: Sequence[Blank]
    ) -> list[CodeNode]:
        """Loops from the items of `bound` to those of `longest`, around the triples.

        `blanks` get new labels in each turn.
        """
        if longest == bound:
            renamed: list[CodeNode] = []
            for blank in blanks:
                name = f"b{next(self._numbers)}"
                self._blank_codes[blank] = TermCode(name)
                renamed.append(Assign(name, "f'_:{next(fresh)}'"))
            return [*renamed, *self._block(triples, bound, entered)]
        end = next(number for number in range(len(bound), len(longest)) if longest[number] is None) + 1
        items, item = f"l{next(self._numbers)}", f"i{next(self._numbers)}"
        fetch = self._access(items, bound, longest[len(bound) : end - 1])
        outside = self._variables, self._loop_variables, self._blank_codes
        self._variables, self._blank_codes = dict(self._variables), dict(self._blank_codes)
        self._loop_variables = {**self._loop_variables, longest[:end]: item}
        loop = ForEach(item, f"items_of({items})", self._loops(triples, longest[:end], longest, entered, blanks))
        self._variables, self._loop_variables, self._blank_codes = outside
        return [*fetch, loop]

    def _repeated_node(self, triple: TemplateTriple, entered: frozenset[Blank]) -> Blank | None:
        """The outermost repeated, bracketed node, not yet entered, whose list holds a triple."""
        found = None
        subject, _, value = triple
        node = value if isinstance(value, Blank) and value in self._nested else subject
        while isinstance(node, Blank) and node in self._nested:
            if node in self.bracketed and node not in entered and self._list_of_node(node):
                found = node
            lead = self._leads.get(node)
            if lead is None:
                break
            node = lead[0]
        return found

    def _belongs(self, triple: TemplateTriple, node: Blank) -> bool:
        """True if a triple is in the property list of a node or a nested one, or leads to it."""
        if triple[2] == node:
            return True
        subject = triple[0]
        while isinstance(subject, Blank) and subject in self._nested:
            if subject == node:
                return True
            lead = self._leads.get(subject)
            if lead is None:
                return False
            subject = lead[0]
        return False

    def _within(self, node: Blank) -> list[Blank]:
        """The node, and the nodes of the property lists nested in its own."""
        return [blank for blank in self._blanks if blank == node or (blank in self._leads and self._belongs(self._leads[blank], node))]

    def _list_of_node(self, node: Blank) -> _Prefix:
        """The longest list of the triples directly in a node's property list."""
        longest: _Prefix = ()
        for triple in self.template.triples:
            if triple[0] == node:
                longest = self._list_of(triple, longest)
        return longest

    def _list_of(self, triple: TemplateTriple, bound: _Prefix) -> _Prefix:
        """The longest list in the paths of a triple, or `bound`; raises `UnusableMap`."""
        longest = bound
        for slot in triple:
            for column in columns_of_slot(slot):
                for each in self.paths[column].lists[-1:]:
                    longest = self._extended(each, longest, column)
        return longest

    def _extended(self, one: _Prefix, other: _Prefix, column: str = "") -> _Prefix:
        """The longer of two lists; raises `UnusableMap` where the shorter is no prefix of it."""
        shorter, longer = sorted((one, other), key=len)
        if longer[: len(shorter)] != shorter:
            columns = [each for each, path in self.paths.items() if path.lists and path.lists[-1] in (one, other)]
            raise UnusableMap(
                column or columns[-1], f"{{{columns[0]}}} and {{{column or columns[-1]}}} go through two lists: each item with each"
            )
        return longer

    # --- values ---

    def _fetches(self, triples: Sequence[TemplateTriple]) -> list[CodeNode]:
        """Assignments of the values of the triples, each once."""
        block: list[CodeNode] = []
        for triple in triples:
            for slot in triple:
                for column in columns_of_slot(slot):
                    if column in self._variables:
                        continue
                    path = self.paths[column]
                    name = self._variables[column] = f"c{next(self._numbers)}"
                    if path.sent:
                        block.append(Assign(name, f"origin_value(sent, {path.sent!r})"))
                        continue
                    bound = path.lists[-1] if path.lists else ()
                    block += self._access(name, bound, path.steps[len(bound) :])
                block += self._typed_terms(slot)
        return block

    def _typed_terms(self, slot: TemplateSlot) -> list[CodeNode]:
        """Assignments of the terms of typed cells, each once where its value is known."""
        block: list[CodeNode] = []
        for cell in typed_cells(slot):
            variable = self._variables[cell.column]
            known = f"{cell.column}:{typed_variable('', cell)}"
            if known not in self._variables:  # as the value itself, for this part of the template and those inside of it
                self._variables[known] = typed_variable(variable, cell)
                block += typed_code(cell, variable, self.settings, self._terms.names, "typed_text({})")
        return block

    def _access(self, name: str, bound: _Prefix, steps: Sequence[Step]) -> list[CodeNode]:
        """Assignments of the value at the end of some steps, or None, to a variable.

        Of the steps `a`, 2: `c0 = data.get('a') if data.__class__ is dict else None`, then
        `c0 = c0[2] if c0.__class__ is list and len(c0) > 2 else None`. Of `Outer(1)`, `a`:
        `c0 = outer[1].get('a') if outer[1].__class__ is dict else None`.
        """
        base = self._loop_variables[bound] if bound else "data"
        if steps and isinstance(steps[0], Outer):
            base, steps = f"outer[{steps[0].level}]", steps[1:]
        if not steps:
            return [Assign(name, base)]
        block: list[CodeNode] = []
        for step in steps:
            if isinstance(step, int):
                block.append(Assign(name, f"{base}[{step}] if {base}.__class__ is list and len({base}) > {step} else None"))
            else:
                block.append(Assign(name, f"{base}.get({step!r}) if {base}.__class__ is dict else None"))
            base = name
        return block

    def _codes(self, triples: Sequence[TemplateTriple]) -> list[TripleCode]:
        return [(self._terms.code(s), self._terms.code(p), self._terms.code(o)) for s, p, o in triples]

    def _emit(self, triple: TemplateTriple) -> Block:
        [code] = self._codes([triple])
        guards = list(dict.fromkeys(guard for term in code for guard in term.guards))
        emit = Emit("triples.append", f"({', '.join(term.code for term in code)})")
        return [IfElse([(" and ".join(guards), [emit])])] if guards else [emit]
