"""`dotr bundle CONFIG DIR`: the files of a job lie to each other as they did, what is written stays where it was, and the packages are
pinned."""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import Project

pytestmark = pytest.mark.core

JOB = """\
name: leaks
prefixes: { "": "http://e/" }
knowledge:
  graphs: [../shared/rooms.ttl, { path: "../shared/more*.nt", format: ntriples }]
  datalog: [../shared/close.dlog]
rules: [rules/*.dotr]
input:
  - { name: a, format: ndjson, path: "${PLACE}/a.ndjson" }   # of one day
  - name: b
    format: csv
    path: &b "~/b-*.csv"
    time: t
    map: "[] a :A ; :x {v} ."
output:
  - { path: "out/${DAY:-today}.ndjson" }
dead_letter: /var/dead.ndjson
engine: local
"""


@pytest.fixture
def job(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A configuration in `jobs`, whose files are beside it, elsewhere, and in the home folder."""
    monkeypatch.setenv("HOME", str(project.folder / "home"))
    monkeypatch.setenv("PLACE", str(project.folder / "inbox"))
    project.write("jobs/c.yaml", JOB)
    project.write("jobs/rules/r.dotr", project.read("r.dotr"))
    project.write("shared/rooms.ttl", "<http://e/r> a <http://e/Room> .")
    project.write("shared/more1.nt", "<http://e/s> <http://e/in> <http://e/r> .")
    project.write("shared/close.dlog", "")
    project.write("inbox/a.ndjson", '{"time": 1, "graph": ":a a :A ."}\n')
    project.write("home/b-1.csv", "t,v\n2,7\n")
    return project


def archived(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {each: file.read(each) for each in file.namelist()}


def test_job_runs_from_its_bundle_alone(job: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = job.dotr("bundle", "jobs/c.yaml", "dist")
    assert answer.code == 0, answer
    assert [Path(each).name for each in answer.out.split()] == ["dotr.zip", "run_dotr.py", "dotr-job", "dotr-job.zip", "requirements.txt"]
    assert set(archived(job.folder / "dist/dotr-job.zip")) == {
        str(path.relative_to(job.folder / "dist/dotr-job")) for path in (job.folder / "dist/dotr-job").rglob("*") if path.is_file()
    }
    for each in ("jobs", "shared", "inbox", "home"):
        shutil.rmtree(job.folder / each)
    (job.folder / "dist").rename(job.folder / "sent")
    monkeypatch.chdir(job.folder / "sent")
    monkeypatch.delenv("PLACE")
    made = job.dotr("run", "dotr-job/jobs/c.yaml", "--engine", "local", "--quiet", "--set", "dead_letter=dead.ndjson")
    assert made.code == 0, made
    assert (job.folder / "jobs/out/today.ndjson").read_text().count("Out") >= 2, "the output is where it was to be"


def test_only_paths_that_would_lead_elsewhere_change(job: Project) -> None:
    job.dotr("bundle", "jobs/c.yaml", "dist")
    text = job.read("dist/dotr-job/jobs/c.yaml")
    changed = [line.strip() for line in text.splitlines() if line not in JOB.splitlines()]
    assert changed == [
        '- { name: a, format: ndjson, path: "../inbox/a.ndjson" }   # of one day',
        'path: &b "../home/b-*.csv"',
        f'- {{ path: "{job.folder}/jobs/out/${{DAY:-today}}.ndjson" }}',
    ]


def test_what_stays_outside_is_named(job: Project) -> None:
    told = job.dotr("bundle", "jobs/c.yaml", "dist").err
    assert f"Outside of the bundle: {job.folder}/jobs/out/today.ndjson" in told
    assert "Outside of the bundle: /var/dead.ndjson" in told
    assert "run_dotr.py run dotr-job/jobs/c.yaml" in told


def test_growing_input_stays_outside(job: Project) -> None:
    job.change("jobs/c.yaml", 'path: "${PLACE}/a.ndjson" }', "path: ../inbox/*.ndjson, watch: true }")
    told = job.dotr("bundle", "jobs/c.yaml", "dist").err
    assert f"Outside of the bundle: {job.folder}/inbox/*.ndjson" in told
    assert f'path: "{job.folder}/inbox/*.ndjson"' in job.read("dist/dotr-job/jobs/c.yaml")
    assert not list((job.folder / "dist/dotr-job").rglob("a.ndjson"))


def test_table_that_spark_reads_stays_outside(job: Project) -> None:
    job.change(
        "jobs/c.yaml",
        'name: a, format: ndjson, path: "${PLACE}/a.ndjson" }',
        'name: a, time: t, map: ":a :b {v} .", spark: { format: orc, path: ../lake } }',
    )
    job.change(
        "jobs/c.yaml",
        '    format: csv\n    path: &b "~/b-*.csv"\n',
        "    spark: { format: csv, path: 's3a://lake/b', schema: 't BIGINT, v INT' }\n",
    )
    job.change("jobs/c.yaml", "engine: local", "spark: { checkpoint: /var/checkpoint }")
    job.write("lake/1.orc", "")
    answer = job.dotr("bundle", "jobs/c.yaml", "dist")
    assert f"Outside of the bundle: {job.folder}/lake" in answer.err, answer
    assert f'spark: {{ format: orc, path: "{job.folder}/lake" }}' in job.read("dist/dotr-job/jobs/c.yaml")
    assert not list((job.folder / "dist/dotr-job").rglob("1.orc"))


def test_mapping_is_part_of_the_bundle(job: Project) -> None:
    job.write(
        "jobs/m.rml.ttl",
        """@prefix rr: <http://www.w3.org/ns/r2rml#> . @prefix rml: <http://semweb.mmlab.be/ns/rml#> .
        @prefix ql: <http://semweb.mmlab.be/ns/ql#> .
        <#m> rml:logicalSource [ rml:source "x.csv" ; rml:referenceFormulation ql:CSV ] ;
          rr:subjectMap [ rr:template "http://e/{v}" ; rr:class <http://e/A> ] .""",
    )
    job.change("jobs/c.yaml", 'map: "[] a :A ; :x {v} ."', "map: m.rml.ttl")
    assert job.dotr("bundle", "jobs/c.yaml", "dist").code == 0
    assert job.read("dist/dotr-job/jobs/m.rml.ttl") == job.read("jobs/m.rml.ttl")


def test_bundle_written_twice_has_equal_bytes_and_nothing_old(job: Project) -> None:
    job.dotr("bundle", "jobs/c.yaml", "dist")
    before = (job.folder / "dist/dotr-job.zip").read_bytes()
    job.write("dist/dotr-job/old.ttl", "")
    job.dotr("bundle", "jobs/c.yaml", "dist")
    assert (job.folder / "dist/dotr-job.zip").read_bytes() == before
    assert not (job.folder / "dist/dotr-job/old.ttl").exists()


def test_requirements_are_pinned_for_what_the_configuration_needs(job: Project) -> None:
    def names() -> Iterator[str]:
        job.dotr("bundle", "jobs/c.yaml", "dist")
        for line in job.read("dist/requirements.txt").splitlines():
            name, equals, version = line.partition("==")
            assert equals
            assert version[0].isdigit()
            yield name.lower()

    plain = set(names())
    assert {"rdflib", "pyspark", "pyarrow"} <= plain
    assert not {"confluent-kafka", "dotr", "pytest", "pyjelly"} & plain
    job.change("jobs/c.yaml", "dead_letter: /var/dead.ndjson", "dead_letter: { kafka: { bootstrap.servers: 'h:1', topic: t } }")
    assert set(names()) - plain == {"confluent-kafka"}


def test_problems_of_the_configuration_are_told(job: Project) -> None:
    job.change("jobs/c.yaml", "../shared/rooms.ttl", "../shared/roms.ttl")
    job.change("jobs/c.yaml", "${PLACE}/a.ndjson", "nowhere.ndjson")
    told = job.refused("bundle", "jobs/c.yaml", "dist")
    assert "roms.ttl" in told
    assert "nowhere.ndjson" in told
    assert "Did you mean ../shared/rooms.ttl?" in told or "rooms.ttl?" in told


def test_checkpoint_beside_the_configuration_is_refused(job: Project) -> None:
    job.change("jobs/c.yaml", '- { path: "out/${DAY:-today}.ndjson" }', "- { kafka: { bootstrap.servers: 'h:1', topic: t } }")
    job.change("jobs/c.yaml", "dead_letter: /var/dead.ndjson\n", "")
    assert "S192" in job.refused("bundle", "jobs/c.yaml", "dist")


def test_package_alone_as_before(project: Project) -> None:
    answer = project.dotr("bundle", "dist")
    assert answer.out.split() == ["dist/dotr.zip", "dist/run_dotr.py"]
    assert project.dotr("bundle", "c.yaml", "x.yaml", "dist").code == 2
    assert project.dotr("bundle", "dist", "--kubernetes", "image").code == 2


def test_environment_has_no_pyspark(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("bin/python", "lib/python3.11/site-packages/pyspark/x.py", "lib/python3.11/site-packages/rdflib/y.py"):
        project.write(f"made/{each}", "")
    monkeypatch.setattr(sys, "prefix", str(project.folder / "made"))
    assert project.dotr("bundle", "--environment", "dist").code == 0
    with tarfile.open(project.folder / "dist/env.tar.gz") as file:
        assert {each.name for each in file if each.isfile()} == {"./bin/python", "./lib/python3.11/site-packages/rdflib/y.py"}
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert "S191" in project.refused("bundle", "--environment", "dist")


def test_later_attempt_does_not_begin_anew(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTAINER_ID", "container_e17_1410901177871_0001_02_000001")
    assert "S190" in project.refused("run", "c.yaml", "--fresh")
    assert not project.files() & {"out.ndjson"}
    monkeypatch.setenv("CONTAINER_ID", "container_1410901177871_0001_01_000001")
    assert project.dotr("run", "c.yaml", "--fresh").code == 0


def test_rewritten_configuration_is_yaml(job: Project) -> None:
    job.dotr("bundle", "jobs/c.yaml", "dist")
    assert set(yaml.safe_load(job.read("dist/dotr-job/jobs/c.yaml"))) == set(yaml.safe_load(JOB))
