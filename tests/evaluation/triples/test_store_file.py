"""Compiled store: damaged, truncated, foreign, outdated and unwritable files."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.caches import default_folder
from dotr.evaluation.triples import dictionary
from dotr.evaluation.triples.file import DistrustedFile, MappedFile, UnusableFile, checked_path, write_file
from dotr.instant.datalog.background import compiled_cache as cache
from dotr.instant.datalog.background.compiled_cache import CachePolicy, OpenedBackground, StoreFile, open_background
from dotr.instant.datalog.background.compiled_store import CompiledStore, write_store
from dotr.instant.datalog.background.knowledge import close_background
from dotr.instant.datalog.background.loading import load_graphs
from dotr.instant.datalog.background.sources import Reading, Sources
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.places import Document
from dotr.syntax.datalog import parse_datalog

GRAPH = "".join(f"<http://e/s{n}> <http://e/p> <http://e/s{n + 1}> .\n" for n in range(40))
TWICE = Document("twice.dlog", "PREFIX e: <http://e/>\n[?a, e:twice, ?c] :- [?a, e:p, ?b], [?b, e:p, ?c] .\n")


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    path = tmp_path / "g.nt"
    path.write_text(GRAPH)
    return Sources((str(path),), (TWICE,))


def opened(sources: Sources, folder: Path, **how: bool) -> OpenedBackground:
    rules = [*rule_set(sources.entailment), *(rule for each in sources.datalog for rule in parse_datalog(each, {}))]
    found = open_background(sources, rules, CachePolicy(folder, 0, **how))
    assert ("<http://e/s0>", "<http://e/twice>", "<http://e/s2>") in found.knowledge.background
    assert (found.knowledge.loaded, found.knowledge.derived, len(found.knowledge.background)) == (40, 39, 79)
    return found


def path_of(found: OpenedBackground) -> Path:
    assert found.store is not None
    return found.store.file.path


def test_store_is_built_once_and_then_opened(tmp_path: Path, sources: Sources) -> None:
    first = opened(sources, tmp_path / "cache")
    assert first.is_new
    assert not first.warnings
    second = opened(sources, tmp_path / "cache")
    assert not second.is_new
    assert second.store is not None
    assert path_of(first) == path_of(second)
    assert second.store.summary.by_rule == {"twice.dlog:2": 39}
    assert opened(sources, tmp_path / "cache", rebuild=True).is_new


def test_two_builds_write_the_same_bytes(tmp_path: Path, sources: Sources) -> None:
    """Bytes are independent of the hash seed; only the build time differs."""
    code = (
        "import sys; from pathlib import Path; from dotr.instant.datalog.background.knowledge import close_background; "
        "from dotr.instant.datalog.background.loading import load_graphs; from dotr.instant.datalog.entailment import *; "
        "from dotr.instant.datalog.background.compiled_store import write_store; "
        "write_store(Path(sys.argv[2]), bytes(16), close_background(load_graphs([sys.argv[1]]), rule_set(Entailment.OWL2RL)), 0.0)"
    )
    for seed in "12":
        command = [sys.executable, "-c", code, sources.graphs[0], str(tmp_path / seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("change", ["graph", "rule", "entailment", "axiomatic", "prefixes", "graphs", "code", "format"])
def test_changed_source_builds_another_store(tmp_path: Path, sources: Sources, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, places = sources.key(), {"graphs": sources.graphs, "datalog": sources.datalog}
    match change:
        case "graph":
            Path(sources.graphs[0]).write_text(GRAPH.replace("s1>", "t1>"))
            changed = sources
        case "rule":
            changed = Sources(sources.graphs, (Document("twice.dlog", TWICE.text + "# more\n"),))
        case "entailment":
            changed = Sources(**places, entailment=Entailment.RDFS)  # type: ignore[arg-type]
        case "axiomatic":
            changed = Sources(**places, axiomatic=True)  # type: ignore[arg-type]
        case "prefixes":
            changed = Sources(**places, prefixes={"e": "http://f/"})  # type: ignore[arg-type]
        case "graphs":
            changed = Sources((*sources.graphs, *sources.graphs), sources.datalog)
        case _:
            changed = sources
            monkeypatch.setattr("dotr.instant.datalog.background.sources._code_digest", lambda: b"other code")
    assert changed.key() != before
    assert len(changed.key()) == 16


def test_path_is_part_of_the_key_for_relative_iris(tmp_path: Path) -> None:
    for suffix, same in ((".nt", True), (".ttl", False)):
        keys = set()
        for folder in ("a", "b"):
            path = tmp_path / folder / f"g{suffix}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(GRAPH)
            keys.add(Sources((str(path),)).key())
        assert (len(keys) == 1) == same


def rewritten(found: OpenedBackground, content: bytes) -> Path:
    path = path_of(found)
    path.write_bytes(content)
    return path


def offsets(path: Path) -> Iterator[tuple[str, int]]:
    """Offsets in the header and in every section, each with the section's name."""
    mapped = MappedFile(path)
    chosen = random.Random(5)
    yield from (("header", offset) for offset in [*range(8), *chosen.sample(range(8, 400), 40)])
    for name, section in mapped.sections.items():
        if section.length:
            edges = {section.offset, section.offset + section.length - 1}
            yield from ((name, offset) for offset in edges | {chosen.randrange(*sorted(edges)) if len(edges) > 1 else section.offset})


@pytest.mark.fallbacks("store")
def test_damage_anywhere_is_detected_and_rebuilt(tmp_path: Path, sources: Sources) -> None:
    found = opened(sources, tmp_path / "cache")
    path = path_of(found)
    whole, warnings = path.read_bytes(), 0
    damaged = set()
    for name, offset in list(offsets(path)):
        damaged.add(name)
        path.write_bytes(whole[:offset] + bytes((whole[offset] ^ 0x41,)) + whole[offset + 1 :])
        again = opened(sources, tmp_path / "cache")
        warnings += [notice.code for notice in again.warnings] == ["K501"]
        assert again.is_new, (name, offset)
        assert MappedFile(path).key == MappedFile(path_of(again)).key
    assert damaged >= {"header", "text", "ends", "buckets", "marks", "numbers", "triples", "predicates", "about"}
    assert warnings > 60


def test_damage_is_detected_after_verification(tmp_path: Path, sources: Sources) -> None:
    """The identity changes even if length and modification time are restored."""
    path = path_of(opened(sources, tmp_path / "cache"))
    CompiledStore(path)
    status = os.stat(path)
    with path.open("r+b") as damaged:
        damaged.seek(status.st_size - 40)
        damaged.write(b"\xff\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UnusableFile, match="damaged"):
        CompiledStore(path)


@pytest.mark.fallbacks("store")
@pytest.mark.parametrize("length", [0, 1, 7, 8, 100, 4095, 4096, 4097, 9000, -4096, -1])
def test_truncated_file_is_rebuilt(tmp_path: Path, sources: Sources, length: int) -> None:
    found = opened(sources, tmp_path / "cache")
    path = path_of(found)
    rewritten(found, path.read_bytes()[:length])
    again = opened(sources, tmp_path / "cache")
    assert again.is_new
    assert [notice.code for notice in again.warnings] == ["K501"]
    assert not opened(sources, tmp_path / "cache").warnings


@pytest.mark.parametrize(
    ("place", "code", "why"),
    [
        (0, b"PK\x03\x04", "not one of dotr's"),
        (8, struct.pack("=I", 99), "has format 99"),
        (12, struct.pack(">I", 0x01020304), "byte order"),
    ],
)
def test_foreign_file_is_refused_with_the_reason(tmp_path: Path, sources: Sources, place: int, code: bytes, why: str) -> None:
    path = path_of(opened(sources, tmp_path / "cache"))
    content = bytearray(path.read_bytes())
    if content[place : place + len(code)] == code:
        code = code[::-1]
    content[place : place + len(code)] = code
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match=why):
        MappedFile(path)


@pytest.mark.fallbacks("store")
def test_store_of_other_sources_is_rebuilt(tmp_path: Path, sources: Sources) -> None:
    path = path_of(opened(sources, tmp_path / "cache"))
    with pytest.raises(UnusableFile, match="other sources"):
        CompiledStore(path, b"0123456789abcdef")
    other = Sources(sources.graphs, (*sources.datalog, Document("more.dlog", "")))
    other_path = path.with_name(other.key().hex() + path.suffix)
    other_path.write_bytes(path.read_bytes())
    again = opened(other, tmp_path / "cache")
    assert again.is_new
    assert "other sources" in again.warnings[0].message


def test_inconsistent_sections_are_refused(tmp_path: Path, sources: Sources) -> None:
    """Sections with valid checksums that contradict each other."""
    found = MappedFile(path_of(opened(sources, tmp_path / "cache")))
    sections = {name: bytes(found.view(name)) for name in found.sections}
    for name in sections:
        if name == "high":
            continue
        for content in (b"", sections[name][:-8], sections[name] + bytes(8)):
            if name in ("triples", "text") and len(content) > len(sections[name]) and name == "triples":
                continue  # words that no predicate refers to are not read
            path = tmp_path / "made"
            write_file(path, found.key, {**{each: (text,) for each, text in sections.items()}, name: (content,)})
            with pytest.raises((UnusableFile, ValueError)):
                CompiledStore(path)
        write_file(tmp_path / "made", found.key, {each: (text,) for each, text in sections.items() if each != name})
        with pytest.raises(UnusableFile, match=f"no section {name}"):
            CompiledStore(tmp_path / "made")


def test_concurrent_builds_succeed(tmp_path: Path, sources: Sources) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: opened(sources, tmp_path / "cache"), range(16)))
    assert not [notice for each in found for notice in each.warnings]
    path = path_of(found[0])
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, checked_path(path).name]
    assert not opened(sources, tmp_path / "cache").is_new


def test_file_without_recorded_identity_is_verified_again(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(opened(sources, tmp_path / "cache"))
    checked: list[int] = []
    whole = MappedFile.damaged_sections

    def damaged(mapped: MappedFile) -> Iterator[str]:
        checked.append(1)
        return whole(mapped)

    monkeypatch.setattr(MappedFile, "damaged_sections", damaged)
    CompiledStore(path)
    assert not checked
    checked_path(path).unlink()
    CompiledStore(path)
    CompiledStore(path)
    assert checked == [1]
    checked_path(path).write_bytes(b"\xff\xfe")
    CompiledStore(path)
    assert checked == [1, 1]


@pytest.mark.parametrize("why", ["a file", "no room"])
def test_unwritable_cache_falls_back_to_memory(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    folder = tmp_path / "cache"
    if why == "a file":
        folder.write_text("in the way")
    else:

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
    assert not opened(sources, folder).warnings  # small sources are closed in memory without a warning
    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    found = opened(sources, folder)
    assert found.store is None
    assert [notice.code for notice in found.warnings] == ["K502"]
    if folder.is_dir():
        assert not list(folder.iterdir())


def test_sources_changed_during_reading_build_no_store(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Path(sources.graphs[0])
    load = load_graphs

    def slowly(paths: tuple[str, ...], reading: Reading) -> list[tuple[str, str, str]]:
        found = load(paths, reading)
        graph.write_text(GRAPH + "<http://e/x> <http://e/p> <http://e/y> .\n")
        return found

    monkeypatch.setattr(cache, "load_graphs", slowly)
    assert opened(sources, tmp_path / "cache").store is None


@pytest.mark.fallbacks("store")
def test_worker_without_the_store_reads_the_sources(tmp_path: Path, sources: Sources) -> None:
    rules = [rule for each in sources.datalog for rule in parse_datalog(each, {})]
    found = open_background(sources, rules, StoreFile(tmp_path / "gone", bytes(16)))
    assert len(found.knowledge.background) == 79
    assert [notice.code for notice in found.warnings] == ["K501"]


def test_worker_with_the_store_reads_no_source(tmp_path: Path, sources: Sources) -> None:
    path, key = path_of(opened(sources, tmp_path / "cache")), sources.key()
    os.unlink(sources.graphs[0])
    rules = [rule for each in sources.datalog for rule in parse_datalog(each, {})]
    assert len(open_background(sources, rules, StoreFile(path, key)).knowledge.background) == 79


def test_worker_maps_strata(tmp_path: Path, sources: Sources) -> None:
    text = "PREFIX e: <http://e/>\n[?a, e:alone, ?b] :- [?a, e:p, ?b], NOT [?b, e:off, ?x] .\n"
    text += "[?b, e:n, ?n] :- AGGREGATE([?a, e:alone, ?b], [?b, e:in, ?z] ON ?b BIND COUNT(?a) AS ?n) .\n"
    sources = Sources(sources.graphs, (Document("not.dlog", text),))
    rules = parse_datalog(sources.datalog[0], {})
    path, key = path_of(open_background(sources, rules, CachePolicy(tmp_path / "cache", 0))), sources.key()
    os.unlink(sources.graphs[0])
    knowledge = open_background(sources, rules, StoreFile(path, key)).knowledge
    assert (knowledge.loaded, knowledge.derived) == (40, 40)
    gone = knowledge.close([("<http://e/s7>", "<http://e/off>", "<http://e/x>")]).removed
    assert gone is not None
    assert list(gone) == [("<http://e/s6>", "<http://e/alone>", "<http://e/s7>")]


def test_contradictions_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "g.nt"
    path.write_text(
        "<http://e/B> <http://www.w3.org/2002/07/owl#disjointWith> <http://e/C> .\n"
        "<http://e/x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/B>, <http://e/C> .\n".replace(
            "<http://e/B>, ", "<http://e/B> .\n<http://e/x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
        )
    )
    sources, rules = Sources((str(path),), entailment=Entailment.OWL2RL), rule_set(Entailment.OWL2RL)
    made, kept = (open_background(sources, rules, CachePolicy(tmp_path / "cache", 0)).knowledge for _ in range(2))
    assert made.contradictions == kept.contradictions
    assert isinstance(kept.contradictions[0], Contradiction)
    assert kept.contradictions[0].rule == "cax-dw"


def test_too_many_terms_are_refused(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "MAX_TERMS", 5)
    with pytest.raises(Refused, match="K503"):
        opened(sources, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_small_sources_are_closed_in_memory(tmp_path: Path, sources: Sources) -> None:
    rules = [rule for each in sources.datalog for rule in parse_datalog(each, {})]
    assert open_background(sources, rules, CachePolicy(tmp_path / "cache")).store is None
    assert not (tmp_path / "cache").exists()


def test_unused_store_is_removed(tmp_path: Path, sources: Sources) -> None:
    path = path_of(opened(sources, tmp_path / "cache"))
    for each in (path, checked_path(path)):
        os.utime(each, (1, 1))
    part = path.with_name("x.dotrkb.abc.part")
    part.write_text("")
    os.utime(part, (1, 1))
    other = Sources(sources.graphs, (*sources.datalog, Document("more.dlog", "")))
    kept = path_of(opened(other, tmp_path / "cache"))
    assert sorted(each.name for each in kept.parent.iterdir()) == [kept.name, checked_path(kept).name]


def test_default_folder_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert default_folder() == Path("/c/dotr")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_folder() == Path("/home/somebody/.cache/dotr")


OTHER = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")


def planted(folder: Path, sources: Sources) -> Path:
    """The store of other triples under the name of the sources', as another user could make it."""
    lie = folder.with_name("lie.nt")
    lie.write_text(GRAPH.replace("<http://e/s40>", "<http://e/nowhere>"))
    real = path_of(opened(sources, folder))
    rules = [rule for each in sources.datalog for rule in parse_datalog(each, {})]
    write_store(real, sources.key(), close_background(load_graphs([str(lie)]), rules), 0.0)
    return real


def has_lie(found: OpenedBackground) -> bool:
    return any("nowhere" in term for triple in found.knowledge.background for term in triple)


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
@needs_root
def test_cache_of_which_others_write_is_not_used(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "cache"
    path = planted(folder, sources)
    assert has_lie(opened(sources, folder)), "the key alone protects from nothing"
    folder.chmod(mode)
    before = path.read_bytes()
    found = opened(sources, folder)
    assert not has_lie(found)
    assert path_of(found) == tmp_path / ".cache" / "dotr" / path.name
    assert [each.code for each in found.warnings] == ["C262"]
    again = opened(sources, folder)
    assert (again.is_new, again.warnings) == (False, ())
    assert path.read_bytes() == before
    shared = opened(sources, folder, shared=True)
    assert path_of(shared) == path
    assert has_lie(shared)
    assert shared.warnings == ()


@pytest.mark.parametrize("of_folder", [False, True])
@needs_root
def test_store_of_another_user_is_built_again(tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, of_folder: bool) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = planted(tmp_path / "cache", sources)
    os.chown(path.parent if of_folder else path, OTHER, OTHER)
    found = opened(sources, tmp_path / "cache")
    assert not has_lie(found)
    (told,) = found.warnings
    assert told.code == "C262"
    assert f"belongs to the user {OTHER}" in told.message
    assert (path_of(found) == path) is not of_folder
    assert opened(sources, tmp_path / "cache").warnings == ()


@needs_root
def test_worker_maps_no_store_of_another_user(tmp_path: Path, sources: Sources) -> None:
    path = planted(tmp_path / "cache", sources)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(DistrustedFile, match="belongs to the user"):
        MappedFile(path)
    rules = [rule for each in sources.datalog for rule in parse_datalog(each, {})]
    assert has_lie(open_background(sources, rules, StoreFile(path, sources.key(), shared=True)))


def test_note_of_verification_is_not_written_through_a_link(tmp_path: Path) -> None:
    path, precious = tmp_path / "a.dotrkb", tmp_path / "precious"
    precious.write_text("precious")
    for name in (f"{checked_path(path).name}.{os.getpid()}.part", checked_path(path).name):
        (tmp_path / name).symlink_to(precious)
    write_file(path, bytes(16), {"a": [b"b"]})
    assert precious.read_text() == "precious"
    assert MappedFile(path).key == bytes(16)


def test_store_is_private_whatever_the_umask(tmp_path: Path, sources: Sources) -> None:
    before = os.umask(0)
    try:
        path = path_of(opened(sources, tmp_path / "new" / "cache"))
    finally:
        os.umask(before)
    assert {oct(each.stat().st_mode & 0o777) for each in (path, checked_path(path))} == {"0o644"}
    assert {oct(each.stat().st_mode & 0o777) for each in (path.parent, path.parent.parent)} == {"0o755"}
    assert not opened(sources, tmp_path / "new" / "cache").is_new
