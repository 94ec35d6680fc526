"""Generated code: compilation, linecache, files, and the passes over its tree."""

from __future__ import annotations

import ast
import linecache
import os
import random
import subprocess
import sys
import traceback
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dotr.commands import main
from dotr.evaluation.codegen import LoopBuilder, WorkCount, compilation, compiled, define
from dotr.evaluation.codegen.triples import TermCode, may_coincide


def test_a_traceback_shows_the_line_of_generated_code() -> None:
    fails = define("def fails(x):\n    # a text of this test\n    return 1 / x\n", "trial", "fails", {})
    with pytest.raises(ZeroDivisionError) as caught:
        fails(0)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<dotr trial ' in shown
    assert "    return 1 / x\n" in shown


def test_a_text_is_compiled_once_and_keeps_its_name() -> None:
    first, again, other = (compiled(f"x = {number}\n", "small trial") for number in (1, 1, 2))
    assert first is again
    assert first.co_filename != other.co_filename
    assert linecache.getline(other.co_filename, 1) == "x = 2\n"


def test_linecache_holds_a_bounded_number_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_CACHED_TEXTS", len(compilation._registered) + 2)
    names = [compiled(f"y = {number}\n", "bounded trial").co_filename for number in range(4)]
    assert [name in linecache.cache for name in names][2:] == [True, True]
    assert len(compilation._registered) <= compilation._CACHED_TEXTS


def test_code_is_written_to_the_folder_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made" / "here"
    monkeypatch.setenv("DOTR_CODE", str(folder))
    code = compiled("z = 'written'\n", "written trial")
    (file,) = folder.iterdir()
    assert (file.name[:14], file.suffix) == ("written_trial_", ".py")
    assert code.co_filename == str(file)
    assert file.read_text() == "z = 'written'\n" == linecache.getline(str(file), 1)


def test_a_folder_that_cannot_be_written_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DOTR_CODE", str(tmp_path / "file"))
    assert define("def f():\n    return 7\n", "hindered trial", "f", {})() == 7


def test_a_link_in_the_folder_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = tmp_path / "code", tmp_path / "target"
    monkeypatch.setenv("DOTR_CODE", str(folder))
    compiled("linked = 1\n", "linked trial")
    (file,) = folder.iterdir()
    file.unlink()
    target.write_text("precious")
    for link in (file, file.with_suffix(f".{os.getpid()}.part"), file.with_name(f".{file.name}.tmp")):
        link.symlink_to(target if link != file else tmp_path / "missing")
    compiled.cache_clear()
    assert compiled("linked = 1\n", "linked trial").co_filename == str(file)
    assert target.read_text() == "precious"
    assert not (tmp_path / "missing").exists()
    assert file.read_text() == "linked = 1\n"
    assert not file.is_symlink()


def test_the_command_line_refuses_a_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOTR_CODE", "/dev/null")
    assert main(["check", "rules"]) == 2
    assert capsys.readouterr().err.startswith("C106 DOTR_CODE=/dev/null is no folder for generated code: file exists\n")


def test_a_file_of_code_has_one_name_in_all_processes(tmp_path: Path) -> None:
    program = "from dotr.evaluation.codegen import compiled; compiled('a = 1\\n', 'trial'); compiled('b = {}\\n', 'trial')"
    for number in (1, 2):
        environment = {**os.environ, "DOTR_CODE": str(tmp_path)}
        subprocess.run([sys.executable, "-c", program.format(number)], env=environment, check=True)
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_else_executes_text() -> None:
    """Only `dotr.evaluation.codegen.compilation` executes generated text."""
    files = Path(compilation.__file__).parents[2].rglob("*.py")
    nodes = [(path.name, node) for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    calls = [(name, node.func.id) for name, node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert sorted(call for call in calls if call[1] in ("exec", "eval", "compile")) == [
        ("compilation.py", "compile"),
        ("compilation.py", "exec"),
    ]


# --- the tree ---


def run(builder: LoopBuilder, *arguments: object) -> Any:
    return define(builder.source, "trial of loops", "make", {})(*builder.parameters.values())(*arguments)


def test_a_guard_of_a_branch_does_not_affect_other_branches() -> None:
    builder = LoopBuilder("join", leave="return rows")
    builder.begin(["numbers"])
    builder.assign("rows", "[]")
    builder.loop("x", "numbers")
    with builder.forked() as fork:
        for sign, odd in (("", "x % 2"), ("-", "x % 2 == 0")):
            with builder.branch(fork):
                builder.require(f"({odd})")
                builder.skip_if("x == 3")
                builder.emit("rows.append", f"{sign}x")
    builder.end()
    assert run(builder, range(6)) == [0, 1, -2, -4, 5]


@pytest.mark.parametrize("depth", [3, 18, 19, 40])
def test_deep_loops_in_a_fork_count_and_run(depth: int) -> None:
    """Two branches of nested loops over one item: every loop but the outermost counts, or enters
    one that does."""
    seen: list[int] = []

    def passed(work: int, rows: object) -> int:
        seen.append(work)
        return work

    builder = LoopBuilder("join", leave="return rows", count=WorkCount(0, passed))
    builder.begin(["one"])
    builder.assign("rows", "[]")
    builder.loop("x", "one")
    with builder.forked() as fork:
        for branch in range(2):
            with builder.branch(fork):
                for level in range(depth):
                    builder.loop(f"x{level}", "one")
                builder.emit("rows.append", str(branch))
    builder.end()
    assert run(builder, ["item"]) == [0, 1]
    assert len(seen) == 2 * ((depth + 1) // 2)
    assert seen == sorted(seen)


def test_look_ups_of_branches_come_first_in_their_fork_and_not_outside_loops() -> None:
    builder = LoopBuilder("join", leave="return")
    builder.begin(["table"])
    with builder.forked() as outer, builder.branch(outer):
        builder.loop("x", "table.get(0)", looked_up=True)
        with builder.forked() as inner:
            for name in ("y", "z"):
                with builder.branch(inner):
                    builder.loop(name, "table.get(x)", looked_up=True)
    builder.end()
    lines = [line.strip() for line in builder.source.split("\n")]
    assert lines[2:6] == ["for x in table.get(0):", "early0 = table.get(x)", "early1 = table.get(x)", "for y in early0:"]


class Counted(tuple[TermCode, ...]):
    """A triple that counts how often its terms are looked at."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        Counted.looks += 1
        return super().__getitem__(place)


def test_triples_that_may_be_equal_are_found_in_linear_time() -> None:
    nodes = [TermCode(f"n{number}", fixed=f"n{number}") for number in range(3_000)]
    value, cell = TermCode("p", fixed="p"), TermCode("c")
    for triples in (
        [(node, value, cell) for node in nodes],
        [(cell, node, value) for node in nodes],
        [(value, cell, node) for node in nodes],
    ):
        Counted.looks = 0
        assert not may_coincide([Counted(each) for each in triples])  # type: ignore[misc]
        assert Counted.looks <= 3 * len(triples)
        assert may_coincide([*triples, triples[7]])


@pytest.mark.parametrize("seed", range(200))
def test_triples_that_may_be_equal_are_those_of_a_brute_search(seed: int) -> None:
    choose = random.Random(seed)
    terms = [TermCode("a", fixed="a"), TermCode("b", fixed="b"), TermCode("c")]
    triples = [(choose.choice(terms), choose.choice(terms), choose.choice(terms)) for _ in range(choose.randrange(5))]
    alike = [
        all(None in (one.fixed, other.fixed) or one.fixed == other.fixed for one, other in zip(left, right, strict=True))
        for left, right in combinations(triples, 2)
    ]
    assert may_coincide(triples) == any(alike)
