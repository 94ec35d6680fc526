"""Mutations of the packages that `[tool.mutmut]` of `pyproject.toml` names, each tried by the tests: `./mutate [PATTERN…]`.

Idea: mutmut writes each function beside all its mutations. One process of pytest collects the tests, runs each of them once and notes
the functions that it calls; then it forks for each mutation, and the fork runs the tests of the mutated function until one fails. So no
mutation pays for imports, collection and random programs, which the first run of a test caches.
Order: the tests that have detected most mutations of the function, and of its module, for their time come first.
Bound: the tests of a mutation take `SECONDS` of CPU in the first run, tests of more than `LONGEST` seconds are left out; a fork with three
times its bound has an endless loop, and its mutation counts as detected.
Output: `mutants/results.jsonl`, a line for each mutation: its name, the outcome, the test that failed, seconds of CPU. A later
run continues the file; without it all mutations are tried again.
Source: mutmut (https://mutmut.readthedocs.io), whose own run takes ten times as long here.
"""

from __future__ import annotations

import fnmatch
import functools
import gc
import inspect
import json
import os
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest import runner

SECONDS: Final = 5.0
LONGEST: Final = 3.0
_CHILDREN: Final = 2
_MEMORY: Final = 6_000_000_000
_RESULTS: Final = Path("results.jsonl")
_IN_MUTANTS: Final = "--in-mutants"

MutationsOf = dict[str, Callable[..., Any]]
"""The functions `_mutmut_orig` and one for each mutation, by name."""


@dataclass(eq=False, slots=True)
class MutatedFunction:
    """A function with its mutations; `active`: the mutation that calls reach, None: the original."""

    module: str
    mutations: MutationsOf
    active: Callable[..., Any] | None = None
    tests: list[int] = field(default_factory=list)
    detected: Counter[int] = field(default_factory=Counter)


class MutationRun:
    """Plugin of pytest that tries the mutations whose names match a pattern."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = patterns or ["*"]
        self.functions: dict[int, MutatedFunction] = {}
        self.called: set[int] = set()
        self.seconds: list[float] = []
        self.by_module: dict[str, Counter[int]] = defaultdict(Counter)

    def wrap_in_trampoline(
        self, mutations: MutationsOf, is_classmethod: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Replaces mutmut's decorator, which reads the environment at each call: a call reaches the active mutation."""

        def decorate(original: Callable[..., Any]) -> Callable[..., Any]:
            function = self.functions[id(mutations)] = MutatedFunction(original.__module__, mutations)
            key, called = id(mutations), self.called

            def call(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
                called.add(key)
                target = function.active or mutations["_mutmut_orig"]
                if is_classmethod:
                    return getattr(arguments[0], target.__name__)(*arguments[1:], **keywords)
                return target(*arguments, **keywords)

            if inspect.isgeneratorfunction(original):

                @functools.wraps(original)
                def generate(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
                    return (yield from call(arguments, keywords))

                return generate

            @functools.wraps(original)
            def forward(*arguments: Any, **keywords: Any) -> Any:
                return call(arguments, keywords)

            return forward

        return decorate

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs all tests once, then the tests of each mutation in a fork."""
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        self._note_calls(session.items)
        self._try_all(session.items)
        return True

    def _note_calls(self, items: Sequence[pytest.Item]) -> None:
        usage = resource.getrusage
        for number, item in enumerate(items):
            self.called.clear()
            begin = usage(resource.RUSAGE_SELF).ru_utime
            passed = _passes(item)
            self.seconds.append(usage(resource.RUSAGE_SELF).ru_utime - begin)
            if not passed or self.seconds[-1] > LONGEST:
                _report(f"left out: {item.nodeid} ({'it fails' if not passed else f'{self.seconds[-1]:.1f} s'})")
                continue
            for key in self.called:
                self.functions[key].tests.append(number)

    def _try_all(self, items: Sequence[pytest.Item]) -> None:
        known = set()
        if _RESULTS.exists():
            known = {json.loads(line)[0] for line in _RESULTS.read_text(encoding="utf-8").splitlines()}
        names = [
            (f"{function.module}.{name}", function)
            for function in self.functions.values()
            for name in function.mutations
            if name != "_mutmut_orig"
        ]
        todo = [each for each in names if each[0] not in known and any(fnmatch.fnmatch(each[0], pattern) for pattern in self.patterns)]
        _report(f"{len(todo):,} mutations, {len(known):,} tried before")
        gc.collect()
        _passes(items[0])  # reports what the collection has found, so that no fork does
        gc.freeze()
        running: dict[int, tuple[str, MutatedFunction, int]] = {}
        with _RESULTS.open("a", encoding="utf-8") as results:
            for tried, (name, function) in enumerate(todo):
                chosen = self._chosen(function)
                if not chosen:
                    results.write(json.dumps([name, "no tests", None, 0]) + "\n")
                    continue
                while len(running) >= _CHILDREN:
                    self._collect(running, items, results.write)
                results.flush()
                running.update([self._start(name, function, [(number, items[number]) for number in chosen])])
                if tried % 100 == 99:
                    _report(f"{tried + 1:,} tried")
            while running:
                self._collect(running, items, results.write)

    def _chosen(self, function: MutatedFunction) -> list[int]:
        """The tests of a function up to the bound of CPU, in their order."""
        module = self.by_module[function.module]

        def cost(number: int) -> float:
            return (self.seconds[number] + 0.003) / (3 * function.detected[number] + 0.3 * module[number] + 0.05)

        chosen: list[int] = []
        total = 0.0
        for number in sorted(function.tests, key=cost):
            total += self.seconds[number]
            if chosen and total > SECONDS:
                break
            chosen.append(number)
        return chosen

    def _start(
        self, name: str, function: MutatedFunction, tests: Sequence[tuple[int, pytest.Item]]
    ) -> tuple[int, tuple[str, MutatedFunction, int]]:
        """The process number of a fork that tries a mutation, and what `_collect` needs: the number of the test that fails is written to a
        pipe."""
        read, write = os.pipe()
        process = os.fork()
        if process:
            os.close(write)
            return process, (name, function, read)
        bound = int(3 * SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (bound, bound + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.alarm(20 * bound)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            _clear_caches()
            function.active = function.mutations[name.rpartition(".")[2]]
            for number, item in tests:
                if not _passes(item):
                    os.write(write, str(number).encode())
                    os._exit(1)
            os._exit(0)
        finally:
            os._exit(2)

    def _collect(
        self, running: dict[int, tuple[str, MutatedFunction, int]], items: Sequence[pytest.Item], write: Callable[[str], object]
    ) -> None:
        """Waits for one fork, and writes its result."""
        process, status, usage = os.wait4(-1, 0)
        if process not in running:  # started by a test
            return
        name, function, pipe = running.pop(process)
        failed = os.read(pipe, 20)
        os.close(pipe)
        outcome = "timeout" if os.WIFSIGNALED(status) else "detected" if os.WEXITSTATUS(status) else "undetected"
        if failed:
            function.detected[int(failed)] += 1
            self.by_module[function.module][int(failed)] += 1
        test = items[int(failed)].nodeid if failed else None
        write(json.dumps([name, outcome, test, round(usage.ru_utime + usage.ru_stime, 2)]) + "\n")


def _report(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _passes(item: pytest.Item) -> bool:
    return all(not report.failed for report in runner.runtestprotocol(item, log=False, nextitem=None))


def _clear_caches() -> None:
    """Empties the caches of dotr, which may hold results of the functions that are not mutated."""
    for each in gc.get_objects():
        if type(each) is functools._lru_cache_wrapper and (getattr(each, "__module__", "") or "").startswith("dotr."):
            each.cache_clear()


def summary() -> Iterator[str]:
    """Lines of a table: for each module its mutations, those without a test, detected and undetected ones, and the score of those tried."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for line in _RESULTS.read_text(encoding="utf-8").splitlines():
        name, outcome, _, _ = json.loads(line)
        outcomes[name.rpartition(".")[0].removeprefix("dotr.").replace(".", "/")][outcome] += 1
    total: Counter[str] = sum(outcomes.values(), Counter())
    yield "| module | mutations | without a test | detected | undetected | score |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for module, found in [*sorted(outcomes.items()), ("all", total)]:
        detected, undetected = found["detected"] + found["timeout"], found["undetected"]
        score = f"{detected / (detected + undetected):.0%}" if detected + undetected else ""
        yield f"| {module} | {found.total()} | {found['no tests']} | {detected} | {undetected} | {score} |"


def generate() -> None:
    """Writes the folder `mutants`: the project, with the mutations of the packages named."""
    mutmut = import_module("mutmut.__main__")
    mutmut.set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.setup_source_paths()
    mutmut.store_lines_covered_by_tests()
    mutmut.create_mutants(_CHILDREN)


def main(arguments: Sequence[str]) -> int:
    """Generates the mutations, then tries them in a new process, which imports the folder `mutants` alone."""
    if arguments[:1] != [_IN_MUTANTS]:
        selection = import_module("mutmut.configuration").config().pytest_add_cli_args_test_selection
        generate()
        os.chdir("mutants")
        os.environ["DOTR_MUTATION_TESTS"] = "\n".join(selection)
        os.execv(sys.executable, [sys.executable, str(Path("tests/mutations.py").resolve()), _IN_MUTANTS, *arguments])
    sys.path[0] = os.getcwd()
    run = MutationRun(arguments[1:])
    import_module("mutmut.mutation.trampoline").__dict__["wrap_in_trampoline"] = run.wrap_in_trampoline
    tests = os.environ["DOTR_MUTATION_TESTS"].split("\n")
    options = ["--rootdir=.", "--tb=native", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-profile=first-failure"]
    status = pytest.main([*options, *tests], plugins=[run])
    _report("\n".join(summary()))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
