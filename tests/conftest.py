"""A user's folder with a small pipeline, and the command line to try on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from _pytest.capture import CaptureResult
from hypothesis import Phase, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from dotr.commands import main
from dotr.errors import fallbacks
from dotr.runtimes.spark.start.installation import java_problem
from tests.support import hadoop, kafka_broker, object_server
from tests.support.default_limits import defaults_exceeded
from tests.support.mosquitto import skip_without_mosquitto
from tests.support.npm_packages import installed, skip_without_clients
from tests.support.spark_starts import start_in_turn

os.environ[fallbacks.RAISE] = "raise"  # here, and in every process that a test starts

os.environ[kafka_broker.PASSWORD_VARIABLE] = kafka_broker.PASSWORD
os.environ |= {object_server.ACCESS_VARIABLE: "AKIATEST", object_server.SECRET_VARIABLE: object_server.SECRET}

# Hypothesis would draw constants of all modules that are loaded by now, so that a test had other examples in another company; and it would
# parse each module for them.
providers.__dict__["_get_local_constants"] = Constants

settings.register_profile("no-clock", deadline=None)
settings.load_profile("no-clock")
settings.register_profile("first-failure", deadline=None, phases=[Phase.generate], report_multiple_bugs=False)
"""For `./mutate`, which asks whether a test fails and not for the smallest example."""

RULE = """\
PREFIX : <http://e/>
rule R
define Out = [ dotr_id a :Out ; :x ?x ]
from A = [ SELECT ?x WHERE { ?x a :A } ]
with Out.?x = A.?x
"""
CONFIG = """\
name: small
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, format: ndjson, path: a.ndjson }
output:
  - { path: out.ndjson }
dead_letter: dead.ndjson
engine: local
"""
DATA = '{"time": 1, "graph": ":a a :A ."}\n'
TEST = """\
rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  - name: one
    stream: [ { at: 1, graph: ":a a :A ." } ]
    expect: [ { at: 1, event: Out, attributes: { x: ":a" } } ]
"""


class Answer(NamedTuple):
    """What a command ended with, and said."""

    code: int
    out: str
    err: str


class Project:
    """The folder: r.dotr, c.yaml, a.ndjson and t.yaml, and whatever a test makes of them. It is the working directory."""

    def __init__(self, folder: Path, read: Callable[[], CaptureResult[str]]) -> None:
        self.folder = folder
        self._read = read
        for name, text in (("r.dotr", RULE), ("c.yaml", CONFIG), ("a.ndjson", DATA), ("t.yaml", TEST)):
            self.write(name, text)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def change(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text
        self.write(name, text.replace(old, new))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}

    def dotr(self, *arguments: str) -> Answer:
        """A command in this process. It never raises, and never shows where in our code something happened."""
        code = main(arguments)
        out, err = self._read()
        assert "Traceback" not in out + err
        assert "fault of dotr's own" not in err
        return Answer(code, out, err)

    def refused(self, *arguments: str) -> str:
        """What a command says that ends with exit code 2."""
        answer = self.dotr(*arguments)
        assert answer.code == 2, answer
        return answer.err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, capsys.readouterr)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled backgrounds of the tests stay out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def _spark_classes(_own_cache: None) -> None:
    """The cache of the tests has the archive of Spark's classes."""
    from tests.support.class_archive import share_classes

    share_classes(Path(os.environ["XDG_CACHE_HOME"]))


@pytest.fixture(autouse=True)
def _classes_of_spark(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("_spark_classes")


@pytest.fixture(scope="session")
def _spark_starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spark sessions of this process start in turn with those of others, and the last one is stopped at the end."""
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        start_in_turn(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own, patch)
        yield
    stop_spark()


def stop_spark() -> None:
    """Ends the Spark session of this process, if there is one."""
    from pyspark import SparkContext

    from dotr.runtimes.spark.start.session import drop_lost_session

    drop_lost_session()
    if (context := SparkContext._active_spark_context) is not None:
        context.stop()


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory, _spark_starts: None) -> None:
    """One Spark session for all tests of this process that do not start their own: it stays, and so do its Python workers, since starting
    them takes longer than most of what they are asked to do. A session that is lost is started anew."""
    from pyspark import SparkContext

    from dotr.runtimes.spark.start.session import drop_lost_session, start

    drop_lost_session()
    if SparkContext._active_spark_context is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(fallbacks.EXPECTED, raising=False)  # the JVM, and so its workers, keep the environment for all tests
            start("tests", "local[2]", {}, tmp_path_factory.mktemp("spark") / "spark.log", archive=True)


@pytest.fixture
def no_spark(_spark_starts: None) -> Iterator[None]:
    """For what starts a session of its own: there is none before, and none is left to others."""
    stop_spark()
    yield
    stop_spark()


@pytest.fixture(scope="session")
def _hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hadoop.Hadoop]:
    own = tmp_path_factory.getbasetemp()
    on_worker = "PYTEST_XDIST_WORKER" in os.environ  # whose parent is the process that lasts as long as the test run
    running = hadoop.running(own.parent if on_worker else own, os.getppid() if on_worker else os.getpid())
    yield running
    running.close()


@pytest.fixture
def hdfs(_hadoop: hadoop.Hadoop) -> Iterator[hadoop.Hadoop]:
    """The one HDFS of all processes of this test run. A test that kills its data node waits for the tests of other processes."""
    with _hadoop.shared():
        yield _hadoop


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_broker.Broker]:
    """One broker for all tests of this process, with the archive of its classes. A test that kills it starts it again."""
    kafka_broker.share_classes()
    with kafka_broker.running_broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture(scope="session")
def s3() -> Iterator[object_server.S3]:
    """One server of objects for all tests of this process."""
    with object_server.running_server() as server:
        yield server


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder of the packages of npm, of which `node` of `tests.support.npm_packages` runs modules."""
    return installed()


LONG: Final = (
    "test_spark_soak",
    "test_spark_cases",
    "test_kafka_on_spark",
    "test_yarn",
    "test_spark_cluster",
    "test_commands",
    "test_kafka_kills",
    "test_spark_run",
    "test_aarhus",
    "test_spark_stateless",
    "test_city_over_kafka",
    "test_mixed_city",
    "test_spark_http",
    "test_spark_properties",
    "test_spark_operation",
    "test_spark_change",
    "test_growth_on_spark",
    "test_unit_steps",
    "test_spark_state",
    "test_streams",
    "test_frame_cases",
    "test_late_workers",
    "test_spark_mqtt",
    "test_kafka_input",
    "test_http_runs",
    "test_interval_steps",
    "test_unit_change",
    "test_query_buckets",
    "test_stored_units",
    "test_spark_watch",
    "test_random_programs",
    "test_properties",
    "test_long_texts",
    "test_fuzz",
    "test_patterns_semantics",
    "test_stratified_properties",
    "test_patterns_limits",
    "test_growth",
    "test_state_logs",
    "test_query_failure_properties",
    "test_report_page",
    "test_local",
    "test_queries_plans",
    "test_sharing_properties",
    "test_entailment_rows",
    "test_queries_shared_joins",
    "test_triple_terms",
    "test_state_migration",
    "test_entailment_equality",
    "test_entailment_owlrl",
    "test_patterns_replay",
    "test_measures",
    "test_window_contradictions",
    "test_closure_properties",
    "test_bad_input",
    "test_architecture",
    "test_rule_language",
    "test_docs",
    "test_cases",
    "test_parsed_program",
)
"""The files that take longest, first those with Spark or a broker; the last of the others are `core`."""
_LONG_WEIGHT: Final = 150
"""A long file is dealt as one of so many tests."""
_SPREAD: Final = 0.85
"""The files with Spark are spread over so much of the others, so that no run ends with one."""


def in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests, file by file: the long files first, those with Spark or a broker spread among the others. A run on Spark waits for its
    processes again and again; beside another one both cores would idle, beside a test that computes they do not."""
    place = {name: number for number, name in enumerate(LONG)}
    files: dict[Path, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: place.get(item.path.stem, len(LONG))):
        files.setdefault(item.path, []).append(item)
    waiting: list[tuple[int, list[pytest.Item]]] = []
    computing: list[tuple[int, list[pytest.Item]]] = []
    for path, tests in files.items():
        waits = any(test.get_closest_marker(each) for test in tests for each in ("spark", "kafka", "mosquitto", "hadoop"))
        weight = max(len(tests), _LONG_WEIGHT) if path.stem in place else len(tests)
        (waiting if waits else computing).append((weight, tests))
    found: list[pytest.Item] = []
    rest, dealt = iter(computing), 0.0
    share = _SPREAD * sum(weight for weight, _ in computing) / max(1, len(waiting))
    for number, (_, tests) in enumerate(waiting, 1):
        found += tests
        while dealt < number * share:
            weight, others = next(rest)
            dealt += weight
            found += others
    return found + [test for _, tests in rest for test in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take longest come first. At the end stand short ones, so that of the processes that take file after file none waits
    long for another. Doctests are `core`, what `./verify --fast` runs; tests that try random examples are not, whatever their file is."""
    on_spark = [item for item in items if item.get_closest_marker("spark")]
    if on_spark and java_problem() is not None:
        for item in on_spark:
            item.add_marker(pytest.mark.skip(reason="Spark needs Java"))
    if "CI" not in os.environ and (missing := kafka_broker.problem()) is not None:  # in CI the fixture fails
        for item in items:
            if item.get_closest_marker("kafka"):
                item.add_marker(pytest.mark.skip(reason=missing))
    hadoop.skip_without_java(items)
    skip_without_mosquitto(items)
    skip_without_clients(items)
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker("core")
    random = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    for item in random:
        item.add_marker("random")
    if config.option.markexpr == "core" and random:
        config.hook.pytest_deselected(items=random)
        items[:] = [item for item in items if item not in random]
    items[:] = in_turns(items)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fallbacks(*kinds): errors of these kinds (of all: without any) may be answered by a fallback")


@pytest.fixture(autouse=True)
def no_fallback_unseen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fallback may well give what a test expects, and so hide a fault. So errors that are answered
    by one are raised (`dotr.errors.fallbacks`), in processes that the test starts, too; but for
    the kinds that its mark `fallbacks` names."""
    fallbacks.drain_fallbacks()
    fallbacks.reraised.clear()
    marked = [kind for mark in request.node.iter_markers("fallbacks") for kind in mark.args or ("all",)]
    if marked:
        monkeypatch.setenv(fallbacks.EXPECTED, ",".join(marked))
    yield
    assert not fallbacks.reraised


@pytest.fixture(autouse=True)
def no_default_limit_exceeded(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that goes over a limit sets a small one; but for those that are marked `default_limits`."""
    with defaults_exceeded() as reached:
        yield
    assert not reached or request.node.get_closest_marker("default_limits"), f"set a small limit in this test: {reached[0]}"
