"""A published stream of a run in process by all protocols, in all formats, read by several libraries: the elements of the output files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from pyoxigraph import Quad, RdfFormat, parse
from rdflib import Dataset, Graph, URIRef
from rdflib.compare import isomorphic

pytest.importorskip("pyjelly")

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.connectors.opening import PublishedOutputs
from tests.support.npm_packages import node
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.served_readings import FORMATS, Quads, Readings, assert_same, quads_of_line, read_now, triples_of

pytestmark = pytest.mark.filterwarnings("ignore:(Dataset|ConjunctiveGraph).*deprecated:DeprecationWarning")  # rdflib's own calls

CONFIG: Final = """\
name: protocols
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: sensors, format: ndjson, path: in.ndjson }
output:
  - { path: out.ndjson, of: [Warm, sensors] }
  - { path: out.trig, format: trig, of: [Warm, sensors] }
  - { path: out.nq, format: nquads, of: [Warm, sensors] }
  - { path: out.jsonl, format: jsonld, of: [Warm, sensors] }
  - { serve: { listen: "127.0.0.1:PORT/warm", linger: 1 h, keep: { elements: 260 } }, of: [Warm, sensors] }
engine: local
"""
RULES: Final = """\
PREFIX : <http://e/>
rule Warm define Warm = [ :report :of ?room ; :part [ :warm ?warm ; :by [ a :Sensor ] ] ]
from R = [ SELECT ?room ?warm WHERE { ?s :in ?room ; :warm ?warm FILTER(?warm > 20) } ] with Warm.?room = R.?room, Warm.?warm = R.?warm
rule Odd define Odd = [ [] :odd true ] from R = [ SELECT ?s WHERE { ?s :odd true } ]
"""
VALUES: Final = (
    '"2.50"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    '"007"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"1.0E0"^^<http://www.w3.org/2001/XMLSchema#double>',
    '"a \\"quoted\\" \\\\ line\\nand another\\r\\tone"',
    '"grüße 🔥 \u2028"@de-at',
    '""',
    '"x"^^<http://e/type%20of>',
    "<http://e/a/b?c=d#é>",
    "[ :in [ :in _:shared ] ]",
)


def element(number: int) -> str:
    """A line of the input: two elements an instant, with blank nodes that are shared within them."""
    time = f"2026-01-01T00:{number // 120:02}:{number // 2 % 60:02}{'.5' if number % 4 > 1 else ''}Z"
    value = VALUES[number % len(VALUES)]
    graph = f"_:s :in :room{number % 3} ; :warm {15 + number % 12} ; a :Reading . _:shared :value {value} ; :odd true ."
    return json.dumps({"time": time, "graph": graph}) + "\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Readings]:
    """The folder of a run, and what clients read after the end of its input."""
    folder = tmp_path_factory.mktemp("protocols")
    (folder / "r.dotr").write_text(RULES)
    (folder / "in.ndjson").write_text("".join(map(element, range(350))))
    (folder / "c.yaml").write_text(CONFIG.replace("PORT", str(free_port())))
    found: list[Readings] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        def read(publisher: PublishedOutputs, check: object) -> None:
            publisher._end(is_stopped=False)
            found.extend(read_now(each.base, every=9) for each in publisher.streams.values())

        patch.setattr(PublishedOutputs, "linger", read)
        run_local(build(read_config("c.yaml"), fresh=False, on_spark=False), lambda totals: None)
    return folder, found[0]


def graphs_of_file(quads: Iterable[Quad]) -> Quads:
    """The quads of each named graph of an output file, in the order of the file."""
    by_name: dict[str, set[str]] = {}
    for quad in quads:
        name = quad.graph_name if str(quad.graph_name).startswith("<urn:dotr:") else quad.subject
        by_name.setdefault(str(name), set()).add(str(quad))
    return {name: frozenset(each) for name, each in by_name.items()}


def test_all_protocols_and_formats_give_the_elements_of_the_file(served: tuple[Path, Readings]) -> None:
    folder, readings = served
    lines = [json.loads(line) for line in (folder / "out.ndjson").read_text().split("\n")[:-1]]
    kept = readings.found["elements ndjson"]
    first = len(lines) - len(kept)
    assert first > 0
    assert first % 250 == 0
    kept_lines = enumerate(zip(kept, lines[first:], strict=True), first)
    expected = {id: quads_of_line(line, f"{readings.base}{id}", number) for number, (id, line) in kept_lines}
    assert len(readings.found) == 22
    assert_same(readings, expected, every=9)
    # the files in RDF: their names are hashes, and they have no numbers
    numberless = [frozenset(each for each in quads if "<urn:dotr:number>" not in each) for quads in expected.values()]
    for name, form in (("out.trig", RdfFormat.TRIG), ("out.nq", RdfFormat.N_QUADS), ("out.jsonl", RdfFormat.JSON_LD)):
        texts = (folder / name).read_text().split("\n")[:-1] if form is RdfFormat.JSON_LD else [(folder / name).read_text()]
        graphs = [*graphs_of_file(quad for text in texts for quad in parse(text, form)).items()][first:]
        named = zip(kept, graphs, strict=True)
        renamed = [frozenset(each.replace(name, f"<{readings.base}{id}>") for each in quads) for id, (name, quads) in named]
        assert renamed == numberless


def assert_isomorphic(found: Dataset, expected: Quads, base: str) -> None:
    """Assert that the named graphs are the expected ones, with all that the default graph says of them."""
    for id, quads in expected.items():
        name = URIRef(base + id)
        plain = Graph().parse(data="".join(f"{each} .\n" for each in triples_of(quads)), format="nt")
        graph = Graph()
        for triple in (*found.graph(name), *found.default_graph.triples((name, None, None))):
            graph.add(triple)
        assert isomorphic(graph, plain), id


def first_page(readings: Readings) -> Quads:
    return dict([*readings.found["elements nquads"].items()][:97])


@pytest.mark.parametrize("form", FORMATS)
def test_rdflib_reads_the_same(served: tuple[Path, Readings], form: str) -> None:
    _, readings = served
    found = Dataset().parse(data=readings.documents[form], format={"jsonld": "json-ld"}.get(form, form))
    assert_isomorphic(found, first_page(readings), readings.base)


@pytest.mark.npm
def test_the_library_of_javascript_reads_the_same(npm: Path, served: tuple[Path, Readings], tmp_path: Path) -> None:
    _, readings = served
    (tmp_path / "elements.json").write_text(readings.documents["jsonld"])
    script = """
        import jsonld from 'jsonld';
        import { readFileSync } from 'node:fs';
        const documentLoader = () => { throw new Error('fetched'); };
        const document = JSON.parse(readFileSync(process.argv[1]));
        process.stdout.write(await jsonld.toRDF(document, {format: 'application/n-quads', documentLoader}));
    """
    with node(script, str(tmp_path / "elements.json")) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    assert_isomorphic(Dataset().parse(data=out, format="nquads"), first_page(readings), readings.base)
