"""Mappings of RML and R2RML: what they make of records, and what is refused, with its place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dotr.api.program import Program
from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.tables import rows_of_table
from dotr.streams.formats.mapping.maps import is_mapping
from dotr.streams.formats.mapping.rml import compile_mapping
from dotr.streams.records import ElementMap, Format, InputFile

PREFIXES = "@prefix rr: <http://www.w3.org/ns/r2rml#> .\n@prefix rml: <http://w3id.org/rml/> .\n@prefix : <http://e/> .\n"
OLD = PREFIXES.replace("http://w3id.org/rml/", "http://semweb.mmlab.be/ns/rml#")
PUMP = "rr:subjectMap [ rr:template 'http://e/pump/{id}' ]"


def text_of(mapping: str, form: str = "json", prefixes: str = PREFIXES) -> str:
    return compile_mapping(Document("pumps.ttl", prefixes + mapping), form).text


def triples_of(folder: Path, mapping: str, data: str, form: str = "json") -> list[tuple[str, ...]]:
    compiled = compile_mapping(Document("pumps.ttl", PREFIXES + mapping), form)
    path = folder / f"pumps.{form}"
    path.write_text(data)
    spec = InputFile("pumps", str(path), Format(form), map=ElementMap((), Document("map", compiled.text), each=compiled.each))
    return [triple for _, triples in rows_of_table(str(path), spec.to_json()) for triple in triples]


def refusal(mapping: str, form: str = "json") -> str:
    with pytest.raises(Refused) as refused:
        text_of(mapping, form)
    return str(refused.value.diagnostics[0]).splitlines()[0]


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        ("rml:reference 'bar'", "json", "{bar}"),
        ("rml:reference 'bar'", "csv", "{bar:string}"),
        ("rr:column 'bar'", "csv", "{bar:string}"),
        ("rml:reference 'two words'", "csv", "{two words:string}"),
        ("rml:reference 'a:date'", "csv", '{"a:date":string}'),
        ("rml:reference '$.a[2].b'", "json", "{a[2].b}"),
        ("rml:reference \"$['a.b'].c\"", "json", '{"a.b".c}'),
        ("rml:reference 'tags[*]'", "json", "{tags[]}"),
        ("rml:reference 'bar' ; rr:datatype :Bar", "csv", '"{bar}"^^<http://e/Bar>'),
        ("rml:reference 'note' ; rr:language 'de-AT'", "json", '"{note}"@de-AT'),
        ("rml:reference 'note' ; rml:languageMap [ rml:constant 'en' ]", "json", '"{note}"@en'),
        ("rr:template 'http://e/{a}/{b}'", "json", "<http://e/{a}/{b}>"),
        ("rml:template '{a} of {b}' ; rr:termType rr:Literal", "json", '"{a} of {b}"'),
        (r"rml:template '\\{{a}\\}' ; rml:termType rml:Literal", "json", r'"\u007B{a}\u007D"'),
        ("rml:reference 'site' ; rr:termType rr:IRI", "json", "<{site}>"),
        ("rr:template 'v{a}' ; rr:termType rr:BlankNode", "json", "_:b0"),
        ("rr:constant :Pump", "json", "<http://e/Pump>"),
        ("rr:constant 'a {b}'", "json", r'"a \u007Bb\u007D"'),
        ("rr:constant 7", "json", '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'),
    ],
)
def test_term_map_is_a_term_of_the_template(value: str, form: str, expected: str) -> None:
    mapping = f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate :p ; rr:objectMap [ {value} ] ] ."
    assert text_of(mapping, form) == f"<http://e/pump/{{id}}> <http://e/p> {expected} ."


def test_all_vocabularies_make_one_map() -> None:
    old = f"[] rml:logicalSource [ rml:source 'x.json' ; rml:iterator '$' ] ; {PUMP} ; "
    old += "rr:predicateObjectMap [ rr:predicate :bar ; rr:objectMap [ rml:reference 'b' ] ] ."
    new = "[] rml:logicalSource [ rml:iterator '$' ] ; rml:subjectMap [ rml:template 'http://e/pump/{id}' ] ; "
    new += "rml:predicateObjectMap [ rml:predicate :bar ; rml:objectMap [ rml:reference 'b' ] ] ."
    assert text_of(old, prefixes=OLD) == text_of(new) == "<http://e/pump/{id}> <http://e/bar> {b} ."


def test_base_is_before_relative_templates(caplog: pytest.LogCaptureFixture) -> None:
    text = text_of("@base <http://b/> . <m> rr:subjectMap [ rr:template 'p/{id}' ; rr:class <P> ] .", "csv")
    assert text == "<http://b/p/{id}> a <http://b/P> ."
    assert not caplog.records


def test_parent_without_join_is_the_subject_of_the_same_record() -> None:
    mapping = f":p {PUMP} ; rr:predicateObjectMap [ rr:predicate :in ; rr:objectMap [ rr:parentTriplesMap :h ] ] .\n"
    mapping += ":h rr:subjectMap [ rr:template 'http://e/hall/{hall}' ; rr:class :Hall ] ."
    assert text_of(mapping).splitlines() == [
        "<http://e/pump/{id}> <http://e/in> <http://e/hall/{hall}> .",
        "<http://e/hall/{hall}> a <http://e/Hall> .",
    ]


def test_parent_that_the_file_lacks_is_left_out_with_a_warning() -> None:
    mapping = f":p rml:logicalSource [ rml:source 'feed' ; rml:root true ] ; {PUMP} ;\n"
    mapping += "rr:predicateObjectMap [ rr:predicate :bar ; rr:objectMap [ rr:column 'bar' ; rr:inverseExpression '{B} = 1' ] ] ;\n"
    mapping += "rr:predicateObjectMap [ rr:predicate :in, :at ; rr:objectMap [ rr:parentTriplesMap :hall ] ] ."
    compiled = compile_mapping(Document("pumps.ttl", OLD + mapping), "json")
    assert compiled.text == "<http://e/pump/{id}> <http://e/bar> {bar} ."
    assert [str(each).splitlines()[0] for each in compiled.warnings] == [
        "pumps.ttl:6:1: I127 warning: the mapping has no triples map <http://e/hall>: triples with its subject are left out"
    ]
    assert refusal(mapping.replace(" .", " .\n:hall rr:predicateObjectMap [ rr:predicate :q ; rr:object 1 ] .")).endswith(
        "without a subject map"
    )


def test_items_of_the_iterator_are_elements(tmp_path: Path) -> None:
    mapping = f"[] rml:logicalSource [ rml:iterator '$.site.pumps[*].state' ] ; {PUMP} ;\n"
    mapping += "rr:predicateObjectMap [ rr:predicate :bar, :pressure ; rr:objectMap [ rml:reference 'bar' ] ] ."
    data = '{"site": {"pumps": [{"state": {"id": "a b", "bar": 2.5}}, {"state": {"id": "c"}}]}}'
    bar = '"2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    assert triples_of(tmp_path, mapping, data) == [
        ("<http://e/pump/a%20b>", "<http://e/bar>", bar),
        ("<http://e/pump/a%20b>", "<http://e/pressure>", bar),
    ]


def test_scalar_items_of_the_iterator_are_values(tmp_path: Path) -> None:
    mapping = "[] rml:logicalSource [ rml:iterator '$.on[*]' ] ; rr:subjectMap [ rml:template 'http://e/{$}' ; rml:class :On ] ."
    made = triples_of(tmp_path, mapping, '{"on": ["a", "b"]}')
    assert [subject for subject, _, _ in made] == ["<http://e/a>", "<http://e/b>"]


def test_numbers_of_csv_are_texts_without_a_datatype(tmp_path: Path) -> None:
    mapping = f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate :bar ; rr:objectMap [ rr:column 'bar' ] ] ."
    assert triples_of(tmp_path, mapping, "id,bar\na,2.5\nb,\n", "csv") == [("<http://e/pump/a>", "<http://e/bar>", '"2.5"')]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (f"[] {PUMP} ;\n rr:predicateObjectMap [ rr:predicate :p ;\n rr:objectMap [ rr:parentTriplesMap :o ;\n rr:joinCondition"
         " [ rr:child 'a' ;\n rr:parent 'b'\n] ] ] .", "pumps.ttl:7:2: T111 records are not joined"),
        (f"[] {PUMP} ;\n rr:predicateObjectMap [ rr:predicate :p ;\n rr:objectMap [ "
         "<http://semweb.mmlab.be/ns/fnml#functionValue> [] ] ] .",
         "pumps.ttl:6:2: T111 a map calls no functions"),
        ("[] rr:subjectMap [ rr:template 'http://e/{id}' ;\n rr:graphMap [ rr:template 'http://e/g/{id}' ] ] .",
         "pumps.ttl:5:2: T111 a graph that depends on the record"),
        (f":a rml:logicalSource [ rml:source 'a.json' ] ; {PUMP} .\n:b rml:logicalSource [ rml:source 'b.json' ] ; {PUMP} .",
         "pumps.ttl:5:1: T111 another source"),
        (f":a rml:logicalSource [ rml:iterator '$.a[*]' ] ; {PUMP} .\n:b rml:logicalSource [ rml:iterator '$.b[*]' ] ; {PUMP} .",
         "pumps.ttl:5:1: T111 another iterator, $.b[*]"),
        ("[] rml:logicalSource [ rml:iterator '$..a' ] ; " + PUMP + " .", "pumps.ttl:4:1: T111 $..a is a path that a map does not have"),
        (f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate :p ; rr:objectMap [ rml:refrence 'a' ] ] .",
         "pumps.ttl:4:1: T111 refrence of an object map is not read"),
        ('[] rr:logicalTable [ rr:sqlQuery """SELECT 1\\n""" ] ; ' + PUMP + " .",
         "pumps.ttl:4:1: T111 sqlQuery of a logical source is not read"),
        ("[] rr:subjectMap [ rr:template '{id}' ] .", "pumps.ttl:4:1: T111 {id} makes no absolute IRI"),
        ("[] rr:subjectMap [ rr:template 'http://e/{tags[*]}' ] ; rr:predicateObjectMap [ rr:predicate :p ;"
         " rr:objectMap [ rml:reference 'tags[*]' ] ] .",
         "pumps.ttl:4:1: T111 two parts of one triple go through a list: each item with each"),
        ("[] rr:subjectMap [ rr:constant 'x' ; rr:class :A ] .", "pumps.ttl:4:1: T111 a subject map makes no Literal"),
        (f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate 'p' ; rr:object 1 ] .", "pumps.ttl:4:1: T111 a predicate map makes no Literal"),
        (f"[] {PUMP} ;\n rr:predicateObjectMap [ rr:predicate <p> ; rr:object 1 ] .",
         "pumps.ttl:5:2: T111 <p> is relative, and the file has no base"),
        (f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate :p ; rr:objectMap [ rr:column 'v' ; rr:datatype 'int' ] ] .",
         "pumps.ttl:4:1: T111 a datatype makes no Literal"),
        ("[] rr:subjectMap [", "pumps.ttl:4:1: T111 the mapping is no Turtle"),
        (":a :b :c .", "pumps.ttl:1:1: T111 pumps.ttl has no triples map"),
    ],
)  # fmt: skip
def test_what_a_map_cannot_express_is_refused_at_its_line(mapping: str, expected: str) -> None:
    assert refusal(mapping).startswith(expected)


def test_formulation_must_fit_the_format() -> None:
    source = "[] rml:logicalSource [ rml:referenceFormulation <http://semweb.mmlab.be/ns/ql#JSONPath> ] ; "
    assert refusal(source + PUMP + " .", "csv").endswith("the reference formulation is JSONPath, and the input has the format csv")


def test_only_the_name_of_a_file_is_a_mapping() -> None:
    assert [is_mapping(text) for text in ("a/b.ttl", "[] a <x:{y}.ttl", "a.rml", "[] a :A\n.ttl")] == [True, False, False, False]


def test_run_reads_the_mapping_beside_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "pumps.ttl").write_text(
        PREFIXES + "[] rr:subjectMap [ rml:template 'http://e/{id}' ; rml:class :Pump ; rr:graph :stream ] ;\n"
        "rml:predicateObjectMap [ rml:predicate :bar ; rml:objectMap [ rml:reference 'bar' ] ] .\n"
    )
    (tmp_path / "high.dotr").write_text(
        dedent("""\
        PREFIX : <http://e/>
        rule High
        define Out = [ dotr_id :pump ?p ]
        from P = [ SELECT ?p WHERE { ?p a :Pump ; :bar ?b FILTER(?b > 2) } ]
        with Out.?p = P.?p
        """)
    )
    (tmp_path / "in.json").write_text('{"at": 5, "id": "a", "bar": 2.5}\n{"at": 6, "id": "b", "bar": 1}\n')
    (tmp_path / "high.yaml").write_text(
        "name: high\nrules: [high.dotr]\nprefixes: { '': 'http://e/' }\noutput: [{ format: ndjson, path: out.ndjson }]\n"
        "input: [{ name: pumps, format: json, path: in.json, time: at, map: pumps.ttl }]\n"
    )
    config = read_config(str(tmp_path / "high.yaml"))
    assert [(warning.code, warning.span and warning.span.line_column[0]) for warning in config.warnings] == [("I127", 4)]
    assert main(["run", str(tmp_path / "high.yaml"), "--engine", "local"]) == 0
    assert '"time": 5' in (tmp_path / "out.ndjson").read_text()
    assert '"time": 6' not in (tmp_path / "out.ndjson").read_text()


def test_list_may_be_named_twice_alike(tmp_path: Path) -> None:
    (tmp_path / "pumps.ttl").write_text(PREFIXES + f"[] rml:logicalSource [ rml:iterator '$.pumps[*]' ] ; {PUMP} .\n")
    configuration = "name: a\nrules: [a.dotr]\noutput: [{ format: ndjson, path: o }]\ninput:\n"
    configuration += '  - { name: i, format: json, path: a.json, time: ^.at, each: "pumps[]", map: pumps.ttl }\n'
    (tmp_path / "a.yaml").write_text(configuration)
    assert read_config(str(tmp_path / "a.yaml")).settings.input[0].each == "pumps[]"
    (tmp_path / "a.yaml").write_text(configuration.replace("pumps[]", "halls[]"))
    with pytest.raises(Refused) as refused:
        read_config(str(tmp_path / "a.yaml"))
    assert "C204 the iterator of pumps.ttl names the list pumps[], and each another one" in str(refused.value.diagnostics[0])


def test_tables_of_rule_tests_and_programs_have_mappings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapping = PREFIXES + f"[] {PUMP} ; rr:predicateObjectMap [ rr:predicate :bar ; rr:objectMap [ rr:column 'bar' ] ] ."
    (tmp_path / "pumps.ttl").write_text(mapping)
    (tmp_path / "pumps.csv").write_text("id,bar\na,2.5\n")
    (tmp_path / "a.dotr").write_text(
        "PREFIX : <http://e/>\nrule R define Out = [ [] :of ?p ] from P = [ SELECT ?p { ?p a :On ; :bar '2.5' } ] with Out.?p = P.?p\n"
    )
    case = '{ name: one, stream: [{ at: 1, graph: "<http://e/pump/a> a <http://e/On> ." }], expect: [{ at: 1, event: Out }] }'
    table = "{ format: csv, path: pumps.csv, map: pumps.ttl }"
    (tmp_path / "t.yaml").write_text(f"rules: [a.dotr]\nknowledge: {{ tables: [{table}] }}\ncases: [{case}]\n")
    assert main(["test", str(tmp_path / "t.yaml")]) == 0, capsys.readouterr()
    given = {"format": "csv", "path": str(tmp_path / "pumps.csv"), "map": str(tmp_path / "pumps.ttl")}
    session = Program.load([tmp_path / "a.dotr"], tables=[given]).session()
    assert len(session.advance(1, "<http://e/pump/a> a <http://e/On> .")) == 1


def test_missing_mapping_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\nrules: [a.dotr]\noutput: [{ format: ndjson, path: o }]\n"
        "input: [{ name: i, format: csv, path: a.csv, time: t, map: no.ttl }]\n"
    )
    with pytest.raises(Refused) as refused:
        read_config(str(tmp_path / "a.yaml"))
    assert "no.ttl: there is no such file" in str(refused.value.diagnostics[0])
