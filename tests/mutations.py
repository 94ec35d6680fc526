"""Mutations of the packages that `[tool.mutmut]` of `pyproject.toml` names, each tried by the tests: `./mutate [PATTERN…]`.

Idea: mutmut writes each function beside all its mutations. One process of pytest collects the tests, runs each of them once and notes
the functions that it calls; then it forks for each mutation, and the fork runs the tests of the mutated function until one fails. So no
mutation pays for imports, collection and random programs, which the first run of a test caches.
Order: the tests that have detected most mutations of the function, and of its module, for their time come first. Random tests come last:
the examples that Hypothesis draws in the first run are kept, with the rules that they compile and the oracle's answers, and a fork tries
those again that call the mutated function, the first of each test, then the second of each.
Bound: the tests of a mutation take `SECONDS` of CPU in the first run, tests of more than `LONGEST` seconds are left out, and examples end
after `RANDOM` seconds; a fork with three times its bound has an endless loop, and its mutation counts as detected.
Output: `mutants/results.jsonl`, a line for each mutation: its name, the outcome, the test that failed, the number of its example or
null, seconds of CPU. A later run continues the file; without it all mutations are tried again.
Source: mutmut (https://mutmut.readthedocs.io), whose own run takes ten times as long here.
"""

from __future__ import annotations

import fnmatch
import functools
import gc
import inspect
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest import runner

SECONDS: Final = float(os.environ.get("DOTR_MUTATION_SECONDS", "5"))
LONGEST: Final = 3.0
RANDOM: Final = 30.0
_CHILDREN: Final = int(os.environ.get("DOTR_MUTATION_PROCESSES", "2"))
_SAMPLE: Final = Path("tests/mutant_sample.txt")
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


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a random test, with its number and the mutated functions that it calls."""

    test: int
    number: int
    called: frozenset[int]
    run: Callable[[], object]

    def passes(self) -> bool:
        """True if the test does, or leaves the example out."""
        try:
            self.run()
        except Exception as error:
            return type(error).__name__ == "UnsatisfiedAssumption"
        return True


class Draws:
    """The values that an example draws while it runs: drawn in its first run, and given again in that of a fork."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.values: list[Any] = []

    def draw(self, strategy: Any, label: Any = None) -> Any:
        if self.data is None:
            return self.values.pop(0)
        self.values.append(self.data.draw(strategy, label))
        return self.values[-1]


class MutationRun:
    """Plugin of pytest that tries the mutations whose names match a pattern."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.of_sample = patterns[:1] == ["--sample"]
        self.patterns = patterns[self.of_sample :] or ["*"]
        self.examples: list[Example] = []
        self.caches: list[Any] = []
        self.active: int | None = None
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
    def pytest_collection(self) -> None:
        """Keeps compiled rules and the oracle's answers, before a test imports the functions."""
        # An example that a fork tries again is outside of a test, where Hypothesis's own functions refuse to be called.
        import_module("hypothesis").__dict__.update(note=lambda value: None, assume=_assume)
        rules, properties = import_module("dotr.languages.rules"), import_module("tests.support.properties")
        rules.__dict__["compile_rules"] = self.once(rules.compile_rules, lambda *arguments, **keywords: repr((arguments, keywords)))
        properties.__dict__["oracle"] = self.once(properties.oracle, lambda text, elements, program: repr((text, elements)))

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
            if (handle := getattr(getattr(item, "obj", None), "hypothesis", None)) is not None:
                self._keep_examples(number, item, handle)
                self.seconds.append(0)
                continue
            passed = _passes(item)
            self.seconds.append(usage(resource.RUSAGE_SELF).ru_utime - begin)
            if not passed or self.seconds[-1] > LONGEST:
                _report(f"left out: {item.nodeid} ({'it fails' if not passed else f'{self.seconds[-1]:.1f} s'})")
                continue
            for key in self.called:
                self.functions[key].tests.append(number)

    def _keep_examples(self, test: int, item: pytest.Item, handle: Any) -> None:
        """Runs a random test, and keeps its examples; but for those with a source of random numbers."""
        inner, found = handle.inner_test, list[Example]()

        @functools.wraps(inner)
        def keep(*arguments: Any, **keywords: Any) -> Any:
            self.called.clear()
            keywords = {name: Draws(each) if type(each).__name__ == "DataObject" else each for name, each in keywords.items()}
            result = inner(*arguments, **keywords)
            for each in keywords.values():
                if isinstance(each, Draws):
                    each.data = None
            if not any(type(each).__module__.startswith("hypothesis") for each in (*arguments, *keywords.values())):
                run = functools.partial(inner, *arguments, **keywords)
                found.append(Example(test, len(found), frozenset(self.called), run))
            return result

        handle.inner_test = keep
        if _passes(item):
            self.examples += found
        else:
            _report(f"left out: {item.nodeid} (it fails)")
        handle.inner_test = inner

    def names(self) -> list[tuple[str, MutatedFunction]]:
        """The mutations of all modules that are loaded."""
        return [
            (f"{function.module}.{name}", function)
            for function in self.functions.values()
            for name in function.mutations
            if name != "_mutmut_orig"
        ]

    def once(self, function: Callable[..., Any], key: Callable[..., object]) -> Callable[..., Any]:
        """The function, with results that are kept for the forks, but for those whose computation calls the active mutation."""
        kept: dict[object, tuple[Any, frozenset[int]]] = {}

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            name = key(*arguments, **keywords)
            if (found := kept.get(name)) is not None and self.active is not None and self.active not in found[1]:
                return found[0]
            before = set(self.called)
            self.called.clear()
            result = function(*arguments, **keywords)
            kept[name] = result, frozenset(self.called)
            self.called |= before
            return result

        return call

    def _try_all(self, items: Sequence[pytest.Item]) -> None:
        known = set()
        if _RESULTS.exists():
            known = {json.loads(line)[0] for line in _RESULTS.read_text(encoding="utf-8").splitlines()}
        names = self.names()
        if self.of_sample:
            there, sample = dict(names), sampled()
            names = [(name, there[name]) for name in sample if name in there]
        todo = [each for each in names if each[0] not in known and any(fnmatch.fnmatch(each[0], pattern) for pattern in self.patterns)]
        _report(f"{len(todo):,} mutations, {len(known):,} tried before")
        gc.collect()
        self.caches = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper and _is_of_dotr(each)]
        _passes(items[0])  # reports what the collection has found, so that no fork does
        gc.freeze()
        running: dict[int, tuple[str, MutatedFunction, int]] = {}
        with _RESULTS.open("a", encoding="utf-8") as results:
            for tried, (name, function) in enumerate(todo):
                chosen = self._chosen(function)
                key = id(function.mutations)
                examples = sorted((each for each in self.examples if key in each.called), key=lambda each: each.number)
                if not chosen and not examples:
                    results.write(json.dumps([name, "no tests", None, None, 0]) + "\n")
                    continue
                while len(running) >= _CHILDREN:
                    self._collect(running, items, results.write)
                results.flush()
                running.update([self._start(name, function, [(number, items[number]) for number in chosen], examples)])
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
        self, name: str, function: MutatedFunction, tests: Sequence[tuple[int, pytest.Item]], examples: Sequence[Example]
    ) -> tuple[int, tuple[str, MutatedFunction, int]]:
        """The process number of a fork that tries a mutation, and what `_collect` needs: the numbers of the test that fails and of its
        example are written to a pipe."""
        read, write = os.pipe()
        process = os.fork()
        if process:
            os.close(write)
            return process, (name, function, read)
        bound = int(3 * SECONDS + RANDOM)
        resource.setrlimit(resource.RLIMIT_CPU, (bound, bound + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.alarm(20 * bound)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            for each in self.caches:  # they may hold results of the functions that are not mutated
                each.cache_clear()
            self.active = id(function.mutations)
            function.active = function.mutations[name.rpartition(".")[2]]
            for number, item in tests:
                if not _passes(item):
                    os.write(write, f"{number} -1".encode())
                    os._exit(1)
            end = time.process_time() + RANDOM
            for example in examples:
                if not example.passes():
                    os.write(write, f"{example.test} {example.number}".encode())
                    os._exit(1)
                if time.process_time() > end:
                    break
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
        failed, example = map(int, (os.read(pipe, 20) or b"-1 -1").split())
        os.close(pipe)
        outcome = "timeout" if os.WIFSIGNALED(status) else "detected" if os.WEXITSTATUS(status) else "undetected"
        if failed >= 0:
            function.detected[failed] += 1
            self.by_module[function.module][failed] += 1
        test, number = items[failed].nodeid if failed >= 0 else None, example if example >= 0 else None
        write(json.dumps([name, outcome, test, number, round(usage.ru_utime + usage.ru_stime, 2)]) + "\n")


def _assume(condition: object) -> bool:
    if not condition:
        raise import_module("hypothesis.errors").UnsatisfiedAssumption
    return True


def _report(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _passes(item: pytest.Item) -> bool:
    return all(not report.failed for report in runner.runtestprotocol(item, log=False, nextitem=None))


def _is_of_dotr(cache: object) -> bool:
    return (getattr(cache, "__module__", "") or "").startswith("dotr.")


def package(name: str) -> str:
    """The package of a mutation: the first three parts of its module's name."""
    return ".".join(name.split(".")[:3])


def draw(names: Sequence[str]) -> None:
    """Writes the sample: 150 mutations of each package, one of each in turn."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        groups[package(name)].append(name)
    chosen = [random.Random(key).sample(found, min(150, len(found))) for key, found in sorted(groups.items())]
    turns = [name for turn in zip_longest(*chosen) for name in turn if name is not None]
    lines = [f"{each.removeprefix('dotr.')}\n" for each in turns]
    _SAMPLE.write_text("".join(lines), encoding="utf-8")


def sampled() -> list[str]:
    return [f"dotr.{line}" for line in _SAMPLE.read_text(encoding="utf-8").split()]


def summary(by_package: bool = False) -> Iterator[str]:
    """Lines of a table: for each module, or package, its mutations, those without a test, detected and undetected ones, and the score of
    those tried."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for line in _RESULTS.read_text(encoding="utf-8").splitlines():
        name, outcome, *_ = json.loads(line)
        outcomes[(package(name) if by_package else name.rpartition(".")[0]).removeprefix("dotr.").replace(".", "/")][outcome] += 1
    total: Counter[str] = sum(outcomes.values(), Counter())
    yield "| module | mutations | without a test | detected | undetected | score |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for module, found in [*sorted(outcomes.items()), ("all", total)]:
        detected, undetected = found["detected"] + found["timeout"], found["undetected"]
        score = f"{detected / (detected + undetected):.0%}" if detected + undetected else ""
        yield f"| {module} | {found.total()} | {found['no tests']} | {detected} | {undetected} | {score} |"


def lost(before: Path, after: Path) -> Iterator[str]:
    """The mutations that one run detects and a later one tries and does not, with the test that detected them."""
    outcomes = [
        {name: (outcome, test) for name, outcome, test, *_ in map(json.loads, path.open(encoding="utf-8"))} for path in (before, after)
    ]
    for name, (outcome, test) in outcomes[0].items():
        if outcome in ("detected", "timeout") and outcomes[1].get(name, (outcome,))[0] == "undetected":
            yield f"{name} {test}"


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
    if arguments[:1] == ["--lost"]:
        _report("\n".join(lost(Path(arguments[1]), Path(arguments[2]))))
        return 0
    if arguments[:1] != [_IN_MUTANTS]:
        selection = import_module("mutmut.configuration").config().pytest_add_cli_args_test_selection
        generate()
        os.chdir("mutants")
        os.environ["DOTR_MUTATION_TESTS"] = "\n".join(selection)
        os.execv(sys.executable, [sys.executable, str(Path("tests/mutations.py").resolve()), _IN_MUTANTS, *arguments])
    sys.path[0] = os.getcwd()
    run = MutationRun(arguments[1:])
    import_module("mutmut.mutation.trampoline").__dict__["wrap_in_trampoline"] = run.wrap_in_trampoline
    if arguments[1:] == ["--draw"]:
        for path in sorted(Path("dotr").rglob("*.py")):
            if "_mutmut_orig" in path.read_text(encoding="utf-8"):
                import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
        draw([name for name, _ in run.names()])
        return 0
    tests = os.environ["DOTR_MUTATION_TESTS"].split("\n")
    options = ["--rootdir=.", "--tb=native", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-profile=first-failure"]
    options += ["-m", "not spark"]  # a fork shares its connections to the JVM, and waits for ever for the lock of a thread that it lacks
    status = pytest.main([*options, *tests], plugins=[run])
    _report("\n".join(summary(by_package=run.of_sample)))
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
