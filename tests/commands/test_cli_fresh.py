"""`--fresh` removes what runs of the pipeline made, and nothing else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core


def checkpoint(project: Project, name: str = "small-checkpoint") -> Path:
    """A checkpoint as Spark's runtime leaves one."""
    project.write(f"{name}/dotr.json", json.dumps({"format": 1}))
    project.write(f"{name}/query/offsets/0", "v1")
    project.write(f"{name}/spark.log", "")
    return project.folder / name


def test_existing_output_is_refused_and_fresh_removes_it(project: Project) -> None:
    assert project.dotr("run", "c.yaml").code == 0
    first = project.read("out.ndjson")
    assert project.refused("run", "c.yaml") == (
        "c.yaml:7:13: I201 out.ndjson and dead.ndjson are there already\n"
        "  7 |   - { path: out.ndjson }\n    |             ^^^^^^^^^^\n"
        "A run does not mix its output with an older one's: use --fresh to remove it first, or another path.\n"
    )
    assert project.read("out.ndjson") == first
    project.write("a.ndjson", "")
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert project.read("out.ndjson") == ""


def test_fresh_removes_only_targets_of_the_pipeline(project: Project) -> None:
    checkpoint(project)
    checkpoint(project, "other-checkpoint")
    project.dotr("run", "c.yaml")
    project.write("out.ndjson.old", "keep")
    before = project.files()
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert before - project.files() == {"small-checkpoint/dotr.json", "small-checkpoint/query/offsets/0", "small-checkpoint/spark.log"}
    assert not (project.folder / "small-checkpoint").exists()


def test_fresh_removes_folders_of_batches(project: Project) -> None:
    for name in ("000000000000.ndjson", "000000000007.ndjson", ".000000000008.ndjson.tmp"):
        project.write(f"out.ndjson/{name}", "{}")
    (project.folder / "dead.ndjson").mkdir()
    assert "are there already" in project.refused("run", "c.yaml") or "is there already" in project.refused("run", "c.yaml")
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert (project.folder / "out.ndjson").is_file()


@pytest.mark.parametrize("form", ["ndjson", "trig", "nquads"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fresh_removes_every_format(project: Project, form: str, suffix: str) -> None:
    project.change("c.yaml", "{ path: out.ndjson }", f"{{ path: out{suffix}, format: {form} }}")
    project.change("c.yaml", "dead.ndjson", f"dead{suffix}")
    project.write("a.ndjson", project.read("a.ndjson") + "broken\n")
    assert project.dotr("run", "c.yaml").code == 0
    kept = (project.folder / f"out{suffix}").read_bytes()
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert (project.folder / f"out{suffix}").read_bytes() == kept
    other = "ndjson" if form != "ndjson" else "trig"
    assert project.dotr("run", "c.yaml", "--fresh", "--set", f"output.0.format={other}").code == 0


def test_fresh_removes_leftovers_of_a_crash(project: Project) -> None:
    project.change("c.yaml", "path: out.ndjson", "path: out.ndjson.gz")
    project.write("out.ndjson.gz", gzip.compress(b"x" * 1000)[:12])
    project.write("dead.ndjson", '{"reason": "late", "input": "a", "file": "a.nd')
    assert project.dotr("run", "c.yaml", "--fresh").code == 0


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("out.ndjson", "the output: it was not made by a run (it does not begin as such a file does)"),
        ("dead.ndjson", "the dead letters: it was not made by a run (it does not begin as such a file does)"),
        ("out.ndjson/notes.txt", "the output: it was not made by a run (it holds notes.txt)"),
        ("out.ndjson/deep/000000000000.ndjson", "the output: it was not made by a run (it holds deep)"),
        ("small-checkpoint/notes.txt", "the checkpoint: it was not made by a run (it holds notes.txt)"),
        ("small-checkpoint/query/x", "the checkpoint: it was not made by a run (there is no dotr.json in it)"),
        ("small-checkpoint", "the checkpoint: it was not made by a run (it is no folder)"),
    ],
)
def test_fresh_refuses_foreign_files(project: Project, name: str, reported: str) -> None:
    project.dotr("run", "c.yaml")
    for path in ("out.ndjson", "dead.ndjson"):
        if name.startswith(path):
            (project.folder / path).unlink()
    project.write(name, "precious")
    before = {name: project.read(name) for name in project.files()}
    message = project.refused("run", "c.yaml", "--fresh")
    assert f"C207 --fresh does not remove {name.split('/')[0]}, {reported}" in message
    assert "remove it by hand" in message
    assert {name: project.read(name) for name in project.files()} == before


def test_fresh_removes_nothing_where_the_program_is_wrong(project: Project) -> None:
    project.dotr("run", "c.yaml")
    before = project.files()
    project.change("r.dotr", "from A", "form A")
    assert "D101" in project.refused("run", "c.yaml", "--fresh")
    project.change("r.dotr", "form A", "from A")
    project.change("c.yaml", "a.ndjson", "none.ndjson")
    assert "C301" in project.refused("run", "c.yaml", "--fresh")
    assert project.files() == before


@pytest.mark.parametrize(
    "option", ["output.0.path=.", "output.0.path=..", "output.0.path=/", "dead_letter=/", "spark.checkpoint=/", "spark.checkpoint=."]
)
def test_fresh_refuses_ancestor_folders(project: Project, option: str) -> None:
    before = project.files()
    assert "C206 the " in project.refused("run", "c.yaml", "--fresh", "--set", option)
    assert project.files() == before


def test_fresh_removes_a_link_and_keeps_its_target(project: Project) -> None:
    precious = project.write("elsewhere/keep.ndjson", "")
    (project.folder / "out.ndjson").symlink_to(precious)
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert precious.read_text() == ""
    assert not (project.folder / "out.ndjson").is_symlink()


def test_home_folder_is_refused_as_output(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.folder / "home"))
    project.write("home/.bashrc", "precious")
    assert "it holds .bashrc" in project.refused("run", "c.yaml", "--fresh", "--set", "output.0.path=~/")
    assert project.read("home/.bashrc") == "precious"


def test_fresh_keeps_devices(project: Project) -> None:
    assert project.dotr("run", "c.yaml", "--fresh", "--set", "output.0.path=/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
