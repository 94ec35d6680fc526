"""`knowledge.shared`: a cache that other users can write to, on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Project

pytestmark = [pytest.mark.core, pytest.mark.skipif(os.geteuid() != 0, reason="root's private group has no other name")]


@pytest.fixture
def shared(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(project.folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    project.write("g.ttl", "@prefix : <http://e/> . :a a :A .")
    project.change("c.yaml", "rules:", "knowledge: { graphs: [g.ttl], cache: cache }\nrules:")
    (project.folder / "cache").mkdir()
    (project.folder / "cache").chmod(0o777)
    return project


def stores(folder: Path) -> list[str]:
    return sorted({each.suffix for each in folder.iterdir()}) if folder.exists() else []


def test_cache_of_many_is_used_only_if_it_is_called_shared(shared: Project) -> None:
    cache = shared.folder / "cache"
    answer = shared.dotr("kb", "build", "c.yaml")
    assert answer.code == 0
    assert answer.err.count("C262 warning: the cache") == 1
    assert f"{cache} can be written by all users; {shared.folder}/.cache/dotr is used in its place" in answer.err
    assert (stores(cache), stores(shared.folder / ".cache" / "dotr")) == ([], [".checked", ".dotrkb"])
    answer = shared.dotr("kb", "build", "c.yaml", "--set", "knowledge.shared=true")
    assert (answer.code, "C262" in answer.err, stores(cache)) == (0, False, [".checked", ".dotrkb"])
    for path in cache.iterdir():
        os.chown(path, 54_321, 54_321)
    answer = shared.dotr("kb", "info", "c.yaml", "--set", "knowledge.shared=true")
    assert (answer.code, answer.err) == (0, "")
    assert str(cache) in answer.out


def test_nothing_is_shared_without_a_folder(project: Project) -> None:
    answer = project.dotr("run", "c.yaml", "--set", "knowledge.shared=true")
    assert answer.code == 2
    assert "there is no folder to share: name one as knowledge.cache" in answer.err
