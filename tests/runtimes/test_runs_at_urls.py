"""Runs in process whose files are objects of a store: the output is that of the same run over files of the disk."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import pytest

from dotr.api.program import Program
from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.stores import Location, configure_storage
from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import RunFailed, Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams import objects
from tests.conftest import Project
from tests.support.hadoop import Hadoop
from tests.support.object_server import REGION, S3, SECRET, broken_connection

RULES = """\
PREFIX : <http://e/>
rule Hot "a warm place"
define Hot = [ dotr_id a :Hot ; :at ?place ; :value ?value ]
from T = [ SELECT ?place ?v WHERE { ?s :reads ?v . ?s :in ?place . ?place a :Room FILTER(?v > 20) } ]
with Hot.?place = T.?place, Hot.?value = T.?v
"""
GRAPH = "@prefix : <http://e/> . :s1 :in :hall . :s2 :in :cellar . :hall a :Lobby . :cellar a :Room ."
DATALOG = "@prefix : <http://e/> .\n[?x, a, :Room] :- [?x, a, :Lobby] ."
TIMES = range(1, 400)


def ndjson(times: range) -> bytes:
    lines = [{"time": t, "graph": f"@prefix : <http://e/> . :s{t % 2 + 1} :reads {t % 37} ."} for t in times]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def csv(times: range) -> bytes:
    return ("t,s,v\n" + "".join(f"{t},s{t % 2 + 1},{t % 37}\n" for t in times)).encode()


def trig(times: range) -> bytes:
    stamps = [f'<urn:g:{t}> prov:generatedAtTime "{t}"^^xsd:integer .\n<urn:g:{t}> {{ :s{t % 2 + 1} :reads {t % 37} }}\n' for t in times]
    prefixes = ("prov: <http://www.w3.org/ns/prov#>", "xsd: <http://www.w3.org/2001/XMLSchema#>", ": <http://e/>")
    return ("".join(f"@prefix {each} .\n" for each in prefixes) + "".join(stamps)).encode()


def records(times: range) -> bytes:
    return json.dumps({"all": [{"t": t, "s": f"s{t % 2 + 1}", "v": t % 37} for t in times]}).encode()


def parquet(times: range) -> bytes:
    import io

    import pyarrow as pa
    from pyarrow.parquet import write_table

    sink = io.BytesIO()
    table = {"t": list(times), "s": [f"s{t % 2 + 1}" for t in times], "v": [t % 37 for t in times]}
    write_table(pa.table(table), sink, row_group_size=64)
    return sink.getvalue()


MAP = "map: ':{s} :reads {v} .'"
FORMATS = {
    "ndjson": (ndjson, "format: ndjson"),
    "csv": (csv, f"format: csv, time: t, {MAP}"),
    "trig": (trig, "format: trig"),
    "json": (records, f"format: json, time: t, each: 'all[]', {MAP}"),
    "parquet": (parquet, f"format: parquet, time: t, {MAP}"),
}

CONFIG = """\
name: rooms
prefixes: {{ "": "http://e/" }}
rules: ["{root}/rules/*.dotr"]
knowledge:
  graphs: ["{root}/kb/rooms.ttl"]
  datalog: ["{root}/kb/rooms.dlog"]
input:
  - {{ name: a, path: "{root}/in/{inputs}", {settings} }}
output:
  - {{ path: "{root}/out/hot.{form}", format: {form} }}
dead_letter: "{root}/out/dead.ndjson"
engine: local
storage: {{ retry: 1 s }}
"""


@dataclass
class Lake:
    """A bucket for one test, as the environment names its server."""

    server: S3
    bucket: str

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}"

    def put(self, key: str, data: bytes | str) -> None:
        self.server.client.put_object(Bucket=self.bucket, Key=key, Body=data.encode() if isinstance(data, str) else data)

    def get(self, key: str) -> bytes:
        return bytes(self.server.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        return [key for key in self.server.keys(self.bucket) if key.startswith(prefix)]


@pytest.fixture
def lake(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    for name, value in {
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    configure_storage({})  # forgets the stores of an earlier environment, as soon as the settings differ
    yield Lake(s3, s3.bucket())
    configure_storage({})


def write_all(project: Project, lake: Lake, files: Mapping[str, bytes | str]) -> None:
    for name, content in files.items():
        project.write(name, content)
        lake.put(name, content)


def fill(project: Project, lake: Lake, kind: str, form: str = "ndjson", inputs: str = "a", further: str = "") -> None:
    """Two configurations, disk.yaml and store.yaml, of the same files in a folder and in a bucket."""
    _, settings = FORMATS[kind]
    write_all(project, lake, {"rules/hot.dotr": RULES, "kb/rooms.ttl": GRAPH, "kb/rooms.dlog": DATALOG})
    for name, root in (("disk.yaml", str(project.folder)), ("store.yaml", lake.url)):
        project.write(name, CONFIG.format(root=root, inputs=inputs, settings=settings + further, form=form))


def run(config: str, change: object = None) -> Totals:
    """A run, before which something changes once the inputs are opened."""
    pipeline = build(read_config(config), fresh=False, on_spark=False)
    if callable(change):
        change()
    return run_local(pipeline, lambda totals: None)


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_is_read_as_from_the_disk(project: Project, lake: Lake, kind: str) -> None:
    fill(project, lake, kind)
    write_all(project, lake, {"in/a": FORMATS[kind][0](TIMES)})
    assert project.dotr("run", "disk.yaml").code == 0
    answer = project.dotr("run", "store.yaml")
    assert (answer.code, f"-> {lake.url}/out/hot.ndjson" in answer.err) == (0, True), answer
    assert lake.get("out/hot.ndjson") == (project.folder / "out/hot.ndjson").read_bytes() != b""
    assert lake.get("out/dead.ndjson") == b""
    assert lake.keys("out/") == ["out/dead.ndjson", "out/hot.ndjson"]


@pytest.mark.parametrize("form", ["csv", "trig", "jsonld", "parquet"])
def test_each_format_is_written_as_to_the_disk(project: Project, lake: Lake, form: str) -> None:
    fill(project, lake, "ndjson", form)
    write_all(project, lake, {"in/a": ndjson(TIMES) + b"broken\n"})
    for config in ("disk.yaml", "store.yaml"):
        assert project.dotr("run", config).code == 0
    assert lake.get(f"out/hot.{form}") == (project.folder / f"out/hot.{form}").read_bytes()
    dead = (project.folder / "out/dead.ndjson").read_text()
    assert lake.get("out/dead.ndjson").decode() == dead.replace(f'"{project.folder}/', f'"{lake.url}/') != ""


def test_globs_and_compressed_objects_are_read_as_files(project: Project, lake: Lake) -> None:
    fill(project, lake, "csv", inputs="**/d?y*.csv*")
    files = {"in/day1.csv": csv(range(1, 90)), "in/x/day2.csv.gz": gzip.compress(csv(range(90, 200))), "in/x/.day3.csv": csv(TIMES)}
    write_all(project, lake, {**files, "in/night.csv": csv(TIMES), "in/empty.csv": b""})
    for name in ("disk.yaml", "store.yaml"):
        project.change(name, "/out/hot.ndjson", "/out/hot.ndjson.gz")
        assert project.dotr("run", name).code == 0
    assert lake.get("out/hot.ndjson.gz") == (project.folder / "out/hot.ndjson.gz").read_bytes()
    assert len(gzip.decompress(lake.get("out/hot.ndjson.gz"))) > 1_000


def test_a_configuration_at_a_url_names_its_files_relatively(project: Project, lake: Lake) -> None:
    fill(project, lake, "csv")
    write_all(project, lake, {"in/a": csv(TIMES)})
    text = project.read("store.yaml").replace(f"{lake.url}/", "../")
    text = text.replace(MAP, "map: ':{s} :reads {v} ; :of \"{$file}\" .'")
    lake.put("configs/rooms.yaml", text)
    project.change("disk.yaml", MAP, "map: ':{s} :reads {v} ; :of \"{$file}\" .'")
    assert project.dotr("run", "disk.yaml").code == 0
    assert project.dotr("run", f"{lake.url}/configs/rooms.yaml").code == 0
    assert lake.get("out/hot.ndjson") == (project.folder / "out/hot.ndjson").read_bytes()


def test_maps_contexts_tables_and_imports_at_urls(project: Project, lake: Lake) -> None:
    fill(project, lake, "csv")
    mapping = (
        "@prefix rr: <http://www.w3.org/ns/r2rml#> . @prefix rml: <http://semweb.mmlab.be/ns/rml#> . @prefix : <http://e/> .\n"
        '<#m> rml:logicalSource [ rml:source "a" ] ; rr:subjectMap [ rr:template "http://e/{s}" ] ;\n'
        '  rr:predicateObjectMap [ rr:predicate :reads ; rr:objectMap [ rml:reference "v" ; rr:datatype '
        "<http://www.w3.org/2001/XMLSchema#integer> ] ] .\n"
    )
    files: dict[str, bytes | str] = {
        "in/a": csv(TIMES),
        "maps/rooms.rml.ttl": mapping,
        "kb/rooms.ttl": "<http://e/kb> <http://www.w3.org/2002/07/owl#imports> <http://e/halls> .",
        "kb/halls.jsonld": '{"@context": "http://e/names", "@id": "http://e/hall", "@type": "Lobby"}',
        "kb/names.jsonld": '{"@context": {"@vocab": "http://e/"}}',
        "kb/places.csv": "sensor,place\ns1,hall\ns2,cellar\n",
    }
    write_all(project, lake, files)
    for name, root in (("disk.yaml", str(project.folder)), ("store.yaml", lake.url)):
        project.change(name, MAP, f'map: "{root}/maps/rooms.rml.ttl"')
        further = f'  imports: {{ "http://e/halls": "{root}/kb/halls.jsonld" }}\n'
        further += f'  contexts: {{ "http://e/names": "{root}/kb/names.jsonld" }}\n'
        further += f'  tables: [{{ path: "{root}/kb/places.csv", format: csv, map: ":{{sensor}} :in :{{place}} ." }}]\n'
        project.change(name, "knowledge:\n", "knowledge:\n" + further)
        answer = project.dotr("run", name)
        assert answer.code == 0, answer
    assert lake.get("out/hot.ndjson") == (project.folder / "out/hot.ndjson").read_bytes() != b""


def test_a_replaced_object_is_told_and_not_read(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(range(1, 5)))
    assert run("store.yaml", lambda: lake.put("in/a", ndjson(range(1, 9)))).dead_letters == {Reason.CHANGED: 1}
    [letter] = map(json.loads, lake.get("out/dead.ndjson").splitlines())
    assert (letter["reason"], letter["file"]) == ("changed", f"{lake.url}/in/a")
    assert "tail" not in letter["error"]


def test_an_object_that_is_put_again_with_the_same_content_has_not_changed(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(range(1, 5)))
    assert run("store.yaml", lambda: lake.put("in/a", ndjson(range(1, 5)))).dead_letters == {}


def test_outputs_that_are_there_are_refused_and_removed_by_fresh(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    write_all(project, lake, {"in/a": ndjson(TIMES)})
    assert project.dotr("run", "store.yaml").code == 0
    before = lake.get("out/hot.ndjson")
    assert "I201" in project.refused("run", "store.yaml")
    assert project.dotr("run", "store.yaml", "--fresh").code == 0
    assert lake.get("out/hot.ndjson") == before
    lake.put("out/hot.ndjson", "not ours")
    assert "C207 --fresh does not remove" in project.refused("run", "store.yaml", "--fresh")
    assert lake.get("out/hot.ndjson") == b"not ours"


def test_an_output_that_another_run_has_written_meanwhile_is_kept(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(TIMES))
    pipeline = build(read_config("store.yaml"), fresh=False, on_spark=False)
    with pytest.raises(RunFailed, match="another run has written it meanwhile"):
        run_local(pipeline, lambda totals: lake.put("out/hot.ndjson", "other"))
    assert lake.get("out/hot.ndjson") == b"other"


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("{url}/in/a", "{url}/in/b", "store.yaml:8:22: C301 there is no file {url}/in/b\n"),
        ("{url}/in/a", "{url}/in", "store.yaml:8:22: C301 {url}/in is a folder\n"),
        ("{url}/in/a", "{url}/in/*.csv", "store.yaml:8:22: C301 no file matches {url}/in/*.csv\n"),
        ("{url}/in/a", "s3://nowhere/in/a", ": there is no bucket nowhere\n"),
        ("{url}/in/a", "nfs://host/in/a", "store.yaml:8:22: C203 no store has the scheme nfs://\n"),
        ("{url}/rules/*.dotr", "{url}/rules/hat.dotr", "C301 there is no file {url}/rules/hat.dotr\n"),
        ("{url}/rules/*.dotr", "{url}/rules/hat.dotr", "Did you mean {url}/rules/hot.dotr?"),
        ("{url}/kb/rooms.ttl", "s3://nowhere/rooms.ttl", ": there is no bucket nowhere\n"),
        ("{url}/out/dead.ndjson", "{url}/in/a", "store.yaml:11:14: C206 the dead letters {url}/in/a is the input a\n"),
        ("{url}/out/dead.", "s3a://{bucket}/out/hot.", "stand in each other's way\n"),
        ("knowledge:", 'knowledge:\n  cache: "{url}/cache"', "store.yaml:5:10: C204 a cache is mapped into memory"),
        ("format: ndjson }}\noutput", "format: ndjson, tail: true }}\noutput", "C204 tail is of files that are appended to"),
    ],
)
def test_a_mistake_in_a_url_is_told_with_its_place(project: Project, lake: Lake, old: str, new: str, reported: str) -> None:
    fill(project, lake, "ndjson")
    write_all(project, lake, {"in/a": ndjson(TIMES)})
    names = {"url": lake.url, "bucket": lake.bucket}
    project.change("store.yaml", old.format(**names), new.format(**names))
    for command in ("check", "run"):
        answer = project.dotr(command, "store.yaml")
        assert answer.code == 2
        assert reported.format(**names) in answer.err
        assert SECRET not in answer.err
    assert lake.keys("out/") == []


def test_credentials_that_are_refused_are_told_at_the_start(project: Project, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(TIMES))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOBODY")
    configure_storage({})
    with lake.server.checking():
        message = project.refused("run", "store.yaml")
    assert "store.yaml:3:9: S180 the store of" in message
    assert "the store refuses it (403" in message
    assert SECRET not in message


@contextmanager
def breaking(lake: Lake, monkeypatch: pytest.MonkeyPatch, breaks: Callable[[str, str], str]) -> Iterator[None]:
    """Context in which the lake's server is reached by a connection that breaks requests."""
    with broken_connection(lake.server.endpoint, breaks) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        configure_storage({})
        yield


@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_a_store_that_fails_amid_an_input_ends_the_run(project: Project, lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    fill(project, lake, kind, inputs="a*")
    lake.put("in/a1", FORMATS[kind][0](TIMES))
    lake.put("in/a2", FORMATS[kind][0](range(400, 500)))
    failing = False
    monkeypatch.setattr(objects, "_SECONDS", 0.0)

    with breaking(lake, monkeypatch, lambda method, path: "503" if failing and path.endswith("in/a2") else ""):
        pipeline = build(read_config("store.yaml"), fresh=False, on_spark=False)
        failing = True
        with pytest.raises(RunFailed, match=r"I141 cannot read s3://lake-\d+/in/a2: the store is busy \(503"):
            run_local(pipeline, lambda totals: None)
    assert lake.get("out/dead.ndjson") == b"", "what the store holds is no dead letter"


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_a_store_that_does_not_take_an_output_ends_the_run(
    project: Project, lake: Lake, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    fill(project, lake, "ndjson", form)
    lake.put("in/a", ndjson(TIMES))
    with breaking(lake, monkeypatch, lambda method, path: "503" if method == "PUT" and "/out/hot" in path else ""):
        answer = project.dotr("run", "store.yaml")
    assert answer.code == 1
    assert f"The run failed: cannot write {lake.url}/out/hot.{form}: the store is busy (503" in answer.err
    assert lake.keys("out/") == ["out/dead.ndjson"]


def test_requests_that_fail_for_a_while_are_repeated(project: Project, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(project, lake, "csv")
    write_all(project, lake, {"in/a": csv(TIMES)})
    assert project.dotr("run", "disk.yaml").code == 0
    numbers = count()

    with breaking(lake, monkeypatch, lambda method, path: ("", "503", "")[next(numbers) % 3]):
        project.change("store.yaml", "retry: 1 s", "retry: 20 s")
        assert project.dotr("run", "store.yaml").code == 0
    assert lake.get("out/hot.ndjson") == (project.folder / "out/hot.ndjson").read_bytes()


def test_objects_that_appear_are_read_until_the_run_is_stopped(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson", inputs="*.ndjson", further=", watch: true, settle: 0 s, idle: 1 s")
    project.change("store.yaml", "engine: local", "engine: local\nreport: { accept: [I142] }")
    lake.put("in/1.ndjson", ndjson(range(1, 50)))
    put = [("in/2.ndjson", ndjson(range(50, 120))), ("in/1.ndjson", b"other"), ("in/3.ndjson", ndjson(range(120, 200)))]

    stopped: list[bool] = []

    def look(totals: Totals) -> None:
        if put and totals.instants + sum(totals.dead_letters.values()) >= {3: 40, 2: 100, 1: 101}[len(put)]:
            lake.put(*put.pop(0))
        elif not put and totals.instants >= 198 and not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    totals = run_local(build(read_config("store.yaml"), fresh=False, on_spark=False), look)
    assert totals.dead_letters == {Reason.CHANGED: 1}
    write_all(project, lake, {f"in/{n}.ndjson": ndjson(times) for n, times in ((1, range(1, 50)), (2, range(50, 120)))})
    write_all(project, lake, {"in/3.ndjson": ndjson(range(120, 200))})
    project.change("disk.yaml", ", watch: true, settle: 0 s, idle: 1 s", "")
    assert project.dotr("run", "disk.yaml").code == 0
    assert (project.folder / "out/hot.ndjson").read_bytes().startswith(lake.get("out/hot.ndjson"))
    assert lake.get("out/hot.ndjson").count(b"\n") > 60


def test_an_output_that_waits_for_the_end_is_told(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson", inputs="*.ndjson", further=", watch: true, idle: 1 s")
    lake.put("in/1.ndjson", ndjson(range(1, 50)))
    pipeline = build(read_config("store.yaml"), fresh=False, on_spark=False)
    assert [each.code for each in pipeline.notices] == ["I142", "I142"]


def test_commands_read_a_configuration_with_urls(project: Project, lake: Lake) -> None:
    fill(project, lake, "csv")
    write_all(project, lake, {"in/a": csv(TIMES)})
    assert project.dotr("run", "store.yaml").code == 0
    assert project.dotr("check", "--data", "10", "store.yaml").code == 0
    audited = project.dotr("audit", "store.yaml")
    assert (audited.code, f"{lake.url}/out/hot.ndjson" in audited.out) == (0, True), audited
    why = project.dotr("why", "store.yaml", "--rule", "Hot")
    assert (why.code, f"{lake.url}/in/a:" in why.out) == (0, True), why
    project.write(
        "t.yaml",
        "config: store.yaml\ncases:\n  - name: hot\n    stream:\n      - { at: 1, graph: ':s2 :reads 30 .' }\n"
        "    expect: [ { at: 1, event: Hot, attributes: { place: ':cellar', value: '30' } } ]\n",
    )
    tested = project.dotr("test", "t.yaml")
    assert tested.code == 0, tested


@pytest.mark.hadoop
def test_a_run_over_hdfs_is_that_over_files(project: Project, hdfs: Hadoop) -> None:
    root = hdfs.folder("rooms")
    storage = f'storage: {{ hdfs: {{ webhdfs: "{hdfs.webhdfs}" }} }}\n'
    configure_storage({"hdfs": {"webhdfs": hdfs.webhdfs}})
    files: dict[str, bytes | str] = {"rules/hot.dotr": RULES, "kb/rooms.ttl": GRAPH, "kb/rooms.dlog": DATALOG}
    files |= {"in/a.csv": csv(range(1, 200)), "in/b.csv.gz": gzip.compress(csv(range(200, 300))), "in/x/c.csv": b"t,s\n"}
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        project.write(name, data)
        Location.of(f"{root}/{name}").put(data)
    for name, folder in (("disk.yaml", str(project.folder)), ("store.yaml", root)):
        text = CONFIG.format(root=folder, inputs="*.csv*", settings=FORMATS["csv"][1], form="parquet")
        project.write(name, text.replace("storage: { retry: 1 s }\n", storage if name == "store.yaml" else ""))
        answer = project.dotr("run", name)
        assert answer.code == 0, answer
    assert Location.of(f"{root}/out/hot.parquet").read() == (project.folder / "out/hot.parquet").read_bytes()
    assert [found.location.name for found in Location.of(f"{root}/out").list(recursive=True)] == ["dead.ndjson", "hot.parquet"]
    project.change("store.yaml", "/in/*.csv*", "/in/d.csv")
    assert f"C301 there is no file {root}/in/d.csv\n" in project.refused("run", "store.yaml", "--fresh")
    assert project.dotr("run", "store.yaml", "--fresh", "--set", f"input.0.path={root}/in/a.csv").code == 0
    configure_storage({})


def test_a_recording_at_a_url_is_written_and_read_again(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(TIMES))
    project.change("store.yaml", "engine: local", f'engine: local\nrecord: "{lake.url}/rec/run.ndjson.gz"')
    assert project.dotr("run", "store.yaml").code == 0
    first = lake.get("out/hot.ndjson")
    assert gzip.decompress(lake.get("rec/run.ndjson.gz")).count(b"\n") >= len(TIMES)
    assert project.dotr("run", "store.yaml", "--recording", f"{lake.url}/rec/run.ndjson.gz", "--fresh").code == 0
    assert lake.get("out/hot.ndjson") == first != b""


def test_a_program_is_loaded_from_urls(project: Project, lake: Lake) -> None:
    fill(project, lake, "ndjson")
    lake.put("in/a", ndjson(TIMES))
    lake.put("kb/good.nt.gz", gzip.compress(b"<http://e/s1> <http://e/in> <http://e/cellar> .\n"))
    for program in (
        Program.from_config("store.yaml"),
        Program.load(f"{lake.url}/rules/hot.dotr", graphs=f"{lake.url}/kb/rooms.ttl", datalog=f"{lake.url}/kb/rooms.dlog", unit="s"),
    ):
        [event] = program.session().advance(1, "<http://e/s2> <http://e/reads> 30 .")
        assert event.type == "Hot"
    assert Program.load(f"{lake.url}/rules/hot.dotr", graphs=[f"{lake.url}/kb/good.nt.gz"]).knowledge.background
    missing = r"K101 s3://lake-\d+/kb/room.ttl: No such file or directory\ns3://lake-\d+/kb holds good.nt.gz, rooms.dlog"
    with pytest.raises(Refused, match=missing):
        Program.load(f"{lake.url}/rules/hot.dotr", graphs=[f"{lake.url}/kb/room.ttl"])
