"""The time of an element that is in its triples: paths, datatypes, several times, and named graphs with their times inside."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad, QuerySolutions, Store

from dotr.model.stream import Reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.rdf.times import ElementTime
from dotr.streams.records import Format, GraphSettings, InputFile, Record, Times
from tests.conftest import Project
from tests.streams.formats.test_io_formats import records_of_file

pytestmark = pytest.mark.core

EX, XSD = "http://e/", "http://www.w3.org/2001/XMLSchema#"
AT = f"<{EX}at>"
CHOICE = " (times: latest or earliest chooses one)"
PREFIXES = f"@prefix : <{EX}> . @prefix xsd: <{XSD}> . "


def decoded(text: str, form: Format = Format.TURTLE, *, time: str = AT, times: Times = Times.ONE) -> list[Record]:
    """The records of a message, the same in a scan."""
    decode = message_decoder(InputFile("in", "", form, graphs=GraphSettings(time, times=times)))
    body = (text if form in (Format.JSONLD, Format.NQUADS, Format.NTRIPLES) else PREFIXES + text).encode()
    records = decode(Message(body, 1), True)
    assert decode(Message(body, 1), False) == [record._replace(element=None) for record in records]
    return records


def read(text: str, form: Format = Format.TURTLE, *, time: str = AT, times: Times = Times.ONE) -> float | str:
    """The time of a message in seconds, or why it has none."""
    [record] = decoded(text, form, time=time, times=times)
    return record.why if record.time is None else record.time / 1_000_000


@pytest.mark.parametrize(
    ("path", "graph", "found"),
    [
        ("<http://e/a>/<http://e/b>", ":x :a [ :b 1 ] ; :b 2 . [] :b 3 .", 1),
        ("<http://e/a>/<http://e/b>", ":x :a [ :a [ :b 1 ] ] .", 1),
        ("<http://e/a>/<http://e/b>/<http://e/c>", ":x :a [ :b [ :c 1 ] ; :c 2 ] .", 1),
        ("<http://e/a>/<http://e/b>", ":x :a :y . :y :b 1 . :z :a :y .", 1),
        ("^<http://e/a>/<http://e/b>", ":x :a :y ; :b 1 . :z :b 2 .", 1),
        ("<http://e/a>/^<http://e/b>/<http://e/c>", ":x :a :y . :z :b :y ; :c 1 . :x :c 2 .", 1),
        ("<http://e/a>/<http://e/b>", ":x :a [ :b 1 ], [ :b 2 ] .", "it has more than one <http://e/a>/<http://e/b>" + CHOICE),
        ("<http://e/a>/<http://e/b>", ":x :a :y ; :b 1 .", "it has no <http://e/a>/<http://e/b>"),
        ("<http://e/a>/<http://e/b>", ":x :a [ :b :y ] .", "its <http://e/a>/<http://e/b> is no time: <http://e/y>"),
    ],
)
def test_time_is_at_the_end_of_a_path(path: str, graph: str, found: object) -> None:
    assert read(graph, time=path) == read(f"{{ {graph} }}", Format.TRIG, time=path) == found


def test_path_goes_over_the_graphs_of_a_message() -> None:
    assert read(":g { :x :a _:y } :h { _:y :b 1 } :x :b 2 .", Format.TRIG, time="<http://e/a>/<http://e/b>") == 1
    document = {"@id": "http://e/x", "http://e/a": {"@id": "_:y", "@graph": [{"@id": "_:y", "http://e/b": 7}]}}
    assert read(json.dumps(document), Format.JSONLD, time="<http://e/a>/<http://e/b>") == 7


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"7"', 7),
        ('"1970-01-01T00:00:07Z"', 7),
        ('"1970-01-01 00:00:07"@en', 7),
        ('"1970-01-01T01:00:07+01:00"^^:DateTime', 7),
        ('"1970-01-02"^^xsd:date', 86_400),
        ('"1970-01-02"', 86_400),
        ('"1970-01-02+02:00"^^xsd:date', 79_200),
        ('"1970-01-02Z"^^:Date', 86_400),
        ('"7"^^xsd:short', 7),
        ("7.25", 7.25),
        ("7.25e0", 7.25),
        ('"7"^^xsd:dateTime', None),
        ('"1970"^^xsd:gYear', None),
        ('"1970-01"^^xsd:gYearMonth', None),
        ('"1970"^^xsd:date', None),
        ("true", None),
        ('"1"^^xsd:boolean', None),
        ('"1970"^^xsd:hexBinary', None),
        ('"P7D"^^xsd:duration', None),
        ('"00:00:07"^^xsd:time', None),
        ('"7.25"', None),
        ('"INF"^^xsd:double', None),
        ('"1/3"^^xsd:decimal', None),
        ('"1_0"^^xsd:decimal', None),
        ('"soon"', None),
        ('""', None),
        ('"1970-02-30"^^xsd:date', None),
        ('"1970-01-02+99:00"^^xsd:date', None),
        ("1e39", None),
        (":later", None),
    ],
)
def test_value_of_any_datatype_is_read_as_a_time(value: str, found: float | None) -> None:
    time = read(f":x :at {value} .")
    assert time == found or (found is None and isinstance(time, str) and time.startswith("its <http://e/at> "))
    assert isinstance(read(f":x :at {value}, :later .", times=Times.LATEST), str)


def test_one_of_several_times_is_chosen() -> None:
    several = ":x :at 5, 7 . :y :at 6 ."
    assert read(several) == "it has more than one <http://e/at>" + CHOICE
    assert (read(several, times=Times.LATEST), read(several, times=Times.EARLIEST)) == (7, 5)
    assert read(':x :at 5, "1970-01-01T00:00:05Z", 5.0 .') == 5
    assert read(":g { :x :at 5 } :h { :y :at 9 } :z :at 1 .", Format.TRIG, times=Times.LATEST) == 9
    assert read(":x :at 5 . :y :p 1 .", times=Times.LATEST) == 5
    assert read(":y :p 1 .", times=Times.LATEST) == "it has no <http://e/at>"
    beside = "PREFIX prov: <http://www.w3.org/ns/prov#> :g { :x :p 1 } :g prov:generatedAtTime 4, 3 ."
    assert (read(beside, Format.TRIG, time="", times=Times.LATEST), read(beside, Format.TRIG, time="", times=Times.EARLIEST)) == (4, 3)
    assert read(beside, Format.TRIG, time="") == "it has more than one prov:generatedAtTime" + CHOICE


def graphs_of(tmp_path: Path, text: str, form: Format, *, record: int = 1 << 20, times: Times = Times.ONE) -> list[object]:
    """The time in seconds and the size of each element of a file, or why there is none."""
    graphs = GraphSettings(AT, times=times)
    found = records_of_file(tmp_path, text, lambda path: InputFile("in", str(path), form, record=record, graphs=graphs))
    return [
        (record.time / 1_000_000, len(record.element.triples))
        if record.time is not None and record.element is not None
        else record.reason
        if record.reason is not Reason.UNREADABLE
        else record.why
        for record in found
    ]


BESIDE = "<http://e/g1> <http://www.w3.org/ns/prov#generatedAtTime> 1"
NO_TIME = "it has no <http://e/at>"


@pytest.mark.parametrize(
    ("trig", "found"),
    [
        (":g1 { :a :at 1 ; :p 1 } :g2 { :a :at 2 }", [(1, 2), (2, 1)]),
        (":s :member :g1, :g2 . :g1 { :a :at 1 } :g2 { :a :at 2 } :s :next :t .", [Reason.EMPTY, (1, 1), (2, 1), Reason.EMPTY]),
        ("{ :a :at 1 } GRAPH _:g { :a :at 2 }", [Reason.EMPTY, (2, 1)]),
        (f"{BESIDE} . :g1 {{ :a :p 1 }} :g2 {{ :a :at 2 }}", [Reason.EMPTY, NO_TIME, (2, 1)]),
        (":g1 { :a :at 1, 2 }", ["it has more than one <http://e/at>" + CHOICE]),
        (":g1 { :a :at 1 } :g1 { :b :at 1 } :g2 { :a :at 2 }", [(1, 2), (2, 1)]),
        (":g1 { :a :p 1 } :g2 { :a :at 2 } :g1 { :a :at 1 }", [NO_TIME, (2, 1), (1, 1)]),
        (":g1 { :a :at 1 } :s :member :g1 . :g1 { :b :p 1 }", [(1, 2)]),
        (":g1 { :a :at 1 } :s :member :g2 . :t :member :g2 . :g2 { :b :at 2 }", [(1, 1), Reason.EMPTY, Reason.EMPTY, (2, 1)]),
        (":s :at 1 .", [Reason.EMPTY]),
        (":g1 { }", []),
    ],
)
def test_named_graphs_of_a_file_have_their_times_inside(tmp_path: Path, trig: str, found: list[object]) -> None:
    assert graphs_of(tmp_path, PREFIXES + trig, Format.TRIG) == found


def quad(graph: str, predicate: str, value: int) -> str:
    return f'<{EX}s> <{EX}{predicate}> "{value}"^^<{XSD}integer>{f" <{EX}{graph}>" if graph else ""} .\n'


@pytest.mark.parametrize(
    ("quads", "found"),
    [
        (quad("g", "at", 1) + quad("g", "p", 5) + quad("h", "at", 2), [(1, 2), (2, 1)]),
        (
            quad("", "at", 9) + quad("g", "at", 1) + quad("", "p", 9) + quad("g", "p", 5) + quad("", "q", 9),
            [Reason.EMPTY, (1, 2), Reason.EMPTY],
        ),
        (quad("g", "at", 1) + "broken\n" + quad("g", "p", 1) + quad("h", "at", 2), ["line 2 of it cannot be read: ", (2, 1)]),
        (quad("g", "at", 1) + f"broken <{EX}g> .\n" + quad("h", "at", 2), ["line 2 of it cannot be read: ", (2, 1)]),
        (quad("g", "at", 1) + "broken\n" + quad("", "p", 1) + quad("h", "at", 2), [(1, 1), "", Reason.EMPTY, (2, 1)]),
        (quad("g", "at", 1) + 20 * quad("g", "p", 1) + quad("h", "at", 2), [Reason.LIMIT, (2, 1)]),
        (quad("g", "at", 1) + 20 * quad("", "p", 1) + quad("h", "at", 2), [(1, 1), *20 * [Reason.EMPTY], (2, 1)]),
    ],
)
def test_quads_of_a_graph_have_its_time(tmp_path: Path, quads: str, found: list[object]) -> None:
    for each, expected in zip(graphs_of(tmp_path, quads, Format.NQUADS, record=1_000), found, strict=True):
        assert each.startswith(expected) if isinstance(each, str) and isinstance(expected, str) else each == expected


def test_random_files_with_times_inside(tmp_path: Path) -> None:
    choose = random.Random(7)
    for _ in range(60):
        lines = [
            quad(choose.choice(["g", "g", "h", ""]), choose.choice(["at", "p"]), choose.randrange(3)) for _ in range(choose.randrange(9))
        ]
        lines = [line if choose.random() < 0.9 else "broken\n" for line in lines]
        for form in (Format.NQUADS, Format.TRIG):
            text = "".join(lines) if form is Format.NQUADS else "".join(map(_block, lines))
            graphs_of(tmp_path, text, form, record=choose.choice((200, 400, 1 << 20)), times=choose.choice(list(Times)))


def _block(line: str) -> str:
    """A line of N-Quads as TriG."""
    words = line.removesuffix(" .\n").split(" ")
    return f"{words[3]} {{ {' '.join(words[:3])} }}\n" if len(words) == 4 else line


NGSI = {
    "@context": {
        "n": "https://uri.etsi.org/ngsi-ld/",
        "id": "@id",
        "type": "@type",
        "Property": "n:Property",
        "value": "n:hasValue",
        "observedAt": {"@id": "n:observedAt", "@type": "n:DateTime"},
        "@vocab": "https://uri.etsi.org/ngsi-ld/default-context/",
    }
}
CORE = "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.8.jsonld"


def entity(number: int, **observed: str) -> dict[str, object]:
    properties = {name: {"type": "Property", "value": number, "observedAt": at} for name, at in observed.items()}
    return {"id": f"urn:ngsi-ld:Pump:{number}", "type": "Pump", **properties, "@context": [CORE]}


CONFIG = """name: times
prefixes: { "": "http://e/", n: "https://uri.etsi.org/ngsi-ld/", fhir: "http://hl7.org/fhir/", sosa: "http://www.w3.org/ns/sosa/" }
rules: [r.dotr]
input: [ { name: a, INPUT } ]
output: [ { path: out.ndjson } ]
dead_letter: dead.ndjson
engine: local
"""
RULE = """PREFIX : <http://e/>
rule Seen define Seen = [ :s :n ?n ] from S = [ SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o } ] with Seen.?n = S.?n
"""


def run(project: Project, settings: str, err: str = "") -> list[tuple[object, str]]:
    """The time of each event of a run, with the number of triples of its instant."""
    project.write("r.dotr", RULE)
    project.write("c.yaml", CONFIG.replace("INPUT", settings))
    answer = project.dotr("run", "c.yaml", "--fresh")
    assert answer.code == 0, answer
    assert err in answer.err
    events = [json.loads(line) for line in project.read("out.ndjson").splitlines()]
    return [(event["time"], event["attributes"]["n"].split('"')[1]) for event in events]


def test_ngsi_ld(project: Project) -> None:
    project.write("core.jsonld", json.dumps(NGSI))
    entities = [entity(1, flow="2024-05-01T10:00:00Z"), entity(2, flow="2024-05-01T10:02:00Z", heat="2024-05-01T10:01:30Z")]
    project.write("a.jsonl", "".join(json.dumps(each) + "\n" for each in entities))
    settings = f"format: jsonld, path: a.jsonl, time: 'n:observedAt', contexts: {{ '{CORE}': core.jsonld }}"
    first, latest, earliest = (("2024-05-01T10:00:00Z", "5"), ("2024-05-01T10:02:00Z", "9"), ("2024-05-01T10:01:30Z", "9"))
    assert run(project, settings) == [first]
    assert "it has more than one" in project.read("dead.ndjson")
    assert run(project, f"{settings}, times: latest") == [first, latest]
    assert run(project, f"{settings}, times: earliest") == [first, earliest]
    checked = project.dotr("check", "--data", "c.yaml")
    assert "2024-05-01T10:00:00Z to 2024-05-01T10:01:30Z" in checked.out, checked
    assert "n 9" in project.dotr("facts", "c.yaml", "--at", "2024-05-01T10:01:30Z").out


def test_fhir_rdf(project: Project) -> None:
    observation = """@prefix fhir: <http://hl7.org/fhir/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    <http://e/o1> a fhir:Observation ; fhir:effective [ fhir:v "2024-05-01T10:00:00.000+02:00"^^xsd:dateTime ] ;
      fhir:issued [ fhir:v "2024-05-01T11:00:00Z"^^xsd:dateTime ] ; fhir:value [ fhir:v 7.2 ] ."""
    project.write("a.ttl", observation)
    assert run(project, "format: turtle, path: a.ttl, time: fhir:effective/fhir:v") == [("2024-05-01T08:00:00Z", "7")]
    project.write("a.ttl", observation.replace("T10:00:00.000+02:00", "").replace("dateTime ] ;", "date ] ;", 1))
    assert run(project, "format: turtle, path: a.ttl, time: fhir:effective / fhir:v") == [("2024-05-01T00:00:00Z", "7")]


def test_page_of_linked_data_event_stream(project: Project) -> None:
    page = """@prefix : <http://e/> . @prefix tree: <https://w3id.org/tree#> . @prefix sosa: <http://www.w3.org/ns/sosa/> .
    @prefix ldes: <https://w3id.org/ldes#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    :stream a ldes:EventStream ; ldes:timestampPath sosa:resultTime ; tree:view <http://e/page/1> ; tree:member :m1, :m2 .
    :m1 { :m1 a sosa:Observation ; sosa:hasSimpleResult 5 ; sosa:resultTime "2024-01-01T00:00:00Z"^^xsd:dateTime . }
    :m2 { :m2 sosa:resultTime "2024-01-01T00:01:00Z"^^xsd:dateTime . }
    <http://e/page/1> tree:relation [ a tree:GreaterThanRelation ; tree:node <http://e/page/2> ] ."""
    project.write("a.trig", page)
    members = [("2024-01-01T00:00:00Z", "3"), ("2024-01-01T00:01:00Z", "1")]
    assert run(project, "format: trig, path: a.trig, time: sosa:resultTime", "2 empty") == members
    assert project.read("dead.ndjson") == ""
    project.change("c.yaml", "sosa:resultTime }", "sosa:phenomenonTime }")
    project.dotr("run", "c.yaml", "--fresh")
    assert project.read("dead.ndjson").count("it has no <http://www.w3.org/ns/sosa/phenomenonTime>") == 2


def test_random_paths_have_the_ends_of_sparql() -> None:
    choose = random.Random(5)
    names = [f"{EX}{letter}" for letter in "abc"]
    for _ in range(400):
        steps = [choose.choice(("", "", "^")) + f"<{choose.choice(names)}>" for _ in range(choose.randrange(1, 4))]
        iris = [f"<{choose.choice(names)}>" for _ in range(24)]
        triples = set(zip(iris[::3], iris[1::3], iris[2::3][: choose.randrange(8)], strict=False))
        triples |= {(f"<{choose.choice(names)}>", f"<{choose.choice(names)}>", f'"{number}"') for number in range(choose.randrange(4))}
        store = Store()
        for subject, predicate, value in triples:
            term = NamedNode(value[1:-1]) if value[0] == "<" else Literal(value[1:-1])
            store.add(Quad(NamedNode(subject[1:-1]), NamedNode(predicate[1:-1]), term))
        path = "/".join(steps)
        found = ElementTime(InputFile("in", "", Format.TURTLE, graphs=GraphSettings(path))).values(sorted(triples))
        solutions = store.query(f"SELECT DISTINCT ?v WHERE {{ ?s {path} ?v }}")
        assert isinstance(solutions, QuerySolutions)
        assert sorted(found) == sorted(str(solution["v"]) for solution in solutions)
