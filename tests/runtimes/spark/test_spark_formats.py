"""Turtle, N-Triples, JSON-LD, Jelly, Parquet and logs of RDF messages on Spark: batches that end between messages, and inside of those with
several graphs, give the output and the dead letters of a run in process.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dotr.commands import main
from dotr.model.time import Clock
from dotr.streams.formats.rdf.jelly_frames import FrameEncoder, delimited
from dotr.streams.formats.rdf.named_graphs import NamedGraph
from dotr.streams.formats.reading import Reader
from dotr.streams.records import Format, InputFile, Record

pytestmark = pytest.mark.spark

RULES = """PREFIX : <http://e/>
query T = [ SELECT ?room ?v WHERE { ?room :temp ?v . :all :limit ?l . :all :unit ?u FILTER(?v > ?l) } ]
rule Hot define Hot = [ dotr_id a :Hot ; :room ?room ]
from T and not T as Before [ FILTER(?room = T.?room) ] within 2 s from T with Hot.?room = T.?room
"""
CONFIG = """name: rooms
prefixes: { "": "http://e/" }
knowledge:
  graphs: [site.ttl]
  tables: [ { path: limits.csv, format: csv, map: ":{of} :limit {limit:decimal} . [] :of :{of} ." } ]
  imports: { "http://e/units": units.ttl }
rules: [r.dotr]
input:
  - { name: files, format: turtle, path: "files/*.ttl", time: ":at" }
  - { name: turtle, format: turtle, path: log.ttl, time: ":at", lateness: 3 s }
  - { name: ntriples, format: ntriples, path: log.nt.gz, time: ":at" }
  - { name: trig, format: trig, path: log.trig }
  - { name: nquads, format: nquads, path: log.nq, time: ":at" }
  - { name: jsonld, format: jsonld, path: a.jsonl, contexts: { "http://c/": context.jsonld } }
  - { name: jelly, format: jelly, path: a.jelly, lateness: 3 s }
  - { name: csv, format: csv, path: a.csv, columns: [t, room, temp], time: t, map: ":{room} :temp {temp} ." }
  - { name: parquet, format: parquet, path: a.parquet, time: t, map: ":{of.room} :temp {temp} ; :no {$number} ." }
output: [ { path: out }, { format: jelly, path: out-jelly }, { format: jsonld, path: out-jsonld } ]
dead_letter: dead
spark: { master: "local[2]", checkpoint: ck, batch: 60 }
"""
LABEL = 'VERSION "1.2-messages"\n'
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
AT = "<http://www.w3.org/ns/prov#generatedAtTime>"


def temp(number: int) -> int:
    return 15 + number * 7 % 13


def write_inputs() -> None:
    Path("r.dotr").write_text(RULES)
    Path("limits.csv").write_text("of,limit\nall,20\n")
    Path("site.ttl").write_text("<http://e/> <http://www.w3.org/2002/07/owl#imports> <http://e/units> .")
    Path("units.ttl").write_text("<http://e/all> <http://e/unit> 'C' .")
    Path("c.yaml").write_text(CONFIG)
    Path("files").mkdir()
    for n in range(6):
        Path(f"files/{n}.ttl").write_text(f"@prefix : <http://e/> . :f{n % 2} :temp {temp(n)} ; :at {n} ." if n != 3 else "broken")
    turtle = [LABEL + "PREFIX : <http://e/>\n"]
    for n in range(60):
        late = 5 if n % 20 == 19 else 0
        turtle.append(f":t{n % 3} :temp {temp(n)} ; :at {n - late} .\n" if n % 17 else ":t :temp\n")
        turtle.append("MESSAGE\n" * (1 + (n % 11 == 0)) + (f"PREFIX : <http://e/>\n# {n}\n" if n % 5 == 0 else ""))
    Path("log.ttl").write_text("".join(turtle))
    lines = [
        f'<http://e/n{n % 3}> <http://e/temp> "{temp(n)}"^^{INTEGER} .\n<http://e/x> <http://e/at> "{n}"^^{INTEGER} .\n' for n in range(60)
    ]
    Path("log.nt.gz").write_bytes(gzip.compress((LABEL + "MESSAGE\n".join(lines)).encode()))
    blocks = [f":g{n} {{ :q{n % 3} :temp {temp(n)} }} :g{n} {AT} {n} ." + ("\nMESSAGE\n" if n % 4 == 0 else "\n") for n in range(60)]
    Path("log.trig").write_text(LABEL + "@prefix : <http://e/> .\n" + "".join(blocks))
    Path("log.nq").write_text(LABEL + "MESSAGE\n".join(line.replace(" .\n", " <http://e/g> .\n") for line in lines))
    Path("context.jsonld").write_text(json.dumps({"@context": {"@vocab": "http://e/", "at": AT[1:-1], "id": "@id"}}))
    graphs = [{"id": f"http://e/g{n}", "at": n, "@graph": {"temp": temp(n)}} for n in range(61)]
    documents = [{"@context": "http://c/" if n % 7 else "http://d/", "@graph": graphs[n : n + 2]} for n in range(0, 60, 2)]
    Path("a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    of = [None if n == 17 else {"room": f"p{n % 3}"} for n in range(60)]
    at = pa.array([None if n % 23 == 7 else n for n in range(60)])
    parquet.write_table(pa.table({"t": at, "of": of, "temp": [temp(n) for n in range(60)]}), "a.parquet", row_group_size=7)
    Path("a.csv").write_text("".join(f"{n},c{n % 3},{temp(n)}\n" for n in range(60)))
    write_jelly()


def write_jelly() -> None:
    """Frames that use the names of those before; one has no triples, the last one is cut off."""
    encoder = FrameEncoder(Clock())
    graphs: list[NamedGraph] = []
    for n in range(60):
        triple = f"<http://e/l{n % 3}>", "<http://e/temp>", f'"{temp(n)}"^^{INTEGER}'
        graphs.append(NamedGraph(f"<http://e/g{n}>", (n - 5 * (n % 20 == 19)) * 1_000_000, "", (triple,)))
    frames = [delimited(encoder.frame(graph)) for graph in graphs]
    frames.insert(30, delimited(encoder.frame(graphs[0]._replace(name="<http://e/gx>", triples=()))))
    Path("a.jelly").write_bytes(b"".join(frames) + frames[-1][:-1])


def test_batches_end_between_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs()
    assert_spark_agrees("output.1.path=local.jelly", "output.2.path=local.jsonld")
    for form in ("jelly", "jsonld"):
        written = [file.read_bytes() for file in sorted(Path(f"out-{form}").glob(f"*.{form}"))]
        assert len(written) > 4
        contents = b"".join(written), Path(f"local.{form}").read_bytes()
        on_spark, local = [[(record.time, record.element) for record in read(form, content)] for content in contents]
        assert on_spark == local
        assert len(local) == len(Path("local").read_text().splitlines())


def read(form: str, content: bytes) -> list[Record]:
    Path("again").write_bytes(content)
    with Reader(InputFile("in", "again", Format(form))) as reader:
        return list(reader.records())


def assert_spark_agrees(*settings: str) -> None:
    """Runs of c.yaml in process and on Spark, in several batches, with equal output and dead letters."""
    options = [word for each in ("output.0.path=local", "dead_letter=rejected", *settings) for word in ("--set", each)]
    assert main(["run", "c.yaml", "--engine", "local", "--quiet", *options]) == 0
    assert main(["run", "c.yaml", "--engine", "spark", "--quiet"]) == 0
    batches = sorted(Path("out").glob("*.ndjson"))
    assert len(batches) > 4
    assert [line for file in batches for line in file.read_text().splitlines()] == Path("local").read_text().splitlines()
    rejected = sorted(line for file in Path("dead").glob("*") for line in file.read_text().splitlines())
    assert rejected == sorted(Path("rejected").read_text().splitlines())
    assert {json.loads(line)["reason"] for line in rejected} == {"late", "unreadable"}


INSIDE = """name: inside
prefixes: { "": "http://e/" }
knowledge: { graphs: [rooms.json, { path: rooms.data, format: turtle }], contexts: { "http://k/": context.jsonld } }
rules: [r.dotr]
input:
  - { name: trig, format: trig, path: a.trig, time: ":at", lateness: 2 s }
  - { name: nquads, format: nquads, path: a.nq, time: ":seen/:at", times: latest }
  - { name: jsonld, format: jsonld, path: b.jsonl, time: ":of / :at", times: earliest, base: "http://e/rooms/" }
output: [ { path: out } ]
dead_letter: dead
spark: { master: "local[2]", checkpoint: ck, batch: 20 }
"""


def write_inputs_with_times_inside() -> None:
    Path("r.dotr").write_text(RULES.replace(". :all :limit ?l . :all :unit ?u FILTER(?v > ?l)", "; :in :hall FILTER(?v > 20)"))
    Path("c.yaml").write_text(INSIDE)
    Path("context.jsonld").write_text(json.dumps({"@context": {"@vocab": "http://e/", "id": "@id", "in": {"@type": "@id"}}}))
    rooms = [{"id": f"http://e/{name}", "in": "http://e/hall"} for name in ("q0", "q1", "rooms/j0", "rooms/j1")]
    Path("rooms.json").write_text(json.dumps({"@context": "http://k/", "@graph": rooms}))
    Path("rooms.data").write_text("PREFIX : <http://e/> :n0 :in :hall . :n1 :in :hall .")
    blocks = [f":s :member :g{n} . :g{n} {{ :q{n % 3} :temp {temp(n)} ; :at {n - 4 * (n % 20 == 19)} }} :s :p {n} .\n" for n in range(60)]
    blocks[30] = ":g { :q1 :temp 1 }\n"
    Path("a.trig").write_text("@prefix : <http://e/> .\n" + "".join(blocks))
    lines = []
    for n in range(60):
        graph = f"<http://e/g{n}> .\n"
        lines.append(f'<http://e/n{n % 3}> <http://e/temp> "{temp(n)}"^^{INTEGER} {graph}_:o <http://e/seen> _:s{n} {graph}')
        lines.append(f'_:s{n} <http://e/at> "{n - 2}"^^{INTEGER} {graph}<http://e/s> <http://e/member> {graph}')
        lines.append(f'_:s{n} <http://e/at> "{n}" {graph}' if n % 13 else f"broken {graph}")
    Path("a.nq").write_text("".join(lines))
    documents = []
    for n in range(60):
        reading = {"@id": "_:o", "http://e/of": {"@id": f"j{n % 2}", "http://e/temp": temp(n), "http://e/at": [n, n + 1]}}
        documents.append({"@graph": [reading], **({"@context": {"@base": None}} if n % 17 == 5 else {})})
    Path("b.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))


def test_times_inside_of_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs_with_times_inside()
    assert_spark_agrees()
    events = [json.loads(line)["attributes"]["room"] for line in Path("local").read_text().splitlines()]
    assert {event.removeprefix("<http://e/").strip(">") for event in events} == {"q0", "q1", "n0", "n1", "rooms/j0", "rooms/j1"}
