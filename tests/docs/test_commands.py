"""Every command block of README and docs/ is run as it is written.

A block is a fence of `sh` or `console`, or one without a language that has lines `$ …`. The blocks of a page are run in their order, in
one copy of what the commands read. Those on a few pages are run by the page's own module, and single commands that no test can run are
listed with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.docs import test_connectors_http, test_connectors_mqtt, test_docs_explanations, test_docs_testing
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.standalone import clean_environment, with_archive

PAGES: Final = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "errors.md"))
FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NOT_RUN: Final[Mapping[str, str]] = {
    "./verify": "it runs all tests, this one among them",
    "export DOTR_DATA=/path/to/data": "its data are not shipped; tests/runtimes/test_aarhus.py runs the job where they are",
    ".venv/bin/python kb/aarhus.py": "of the same data",
    ".venv/bin/dotr run configs/aarhus.yaml": "of the same data",
    "benchmarks/run field": "it measures for minutes, and writes the result into the repository",
    "benchmarks/run all": "it measures for hours",
    "spark-submit --master yarn --deploy-mode cluster --archives env.tar.gz#env,dotr-job.zip#dotr-job --py-files dotr.zip run_dotr.py run "
    "dotr-job/configs/fire.yaml": "tests/runtimes/spark/test_yarn.py submits a bundle, and tests/yarn_kills.py one with its environment",
    "docker build -t registry.example/fire:1 job && docker push registry.example/fire:1": "it needs a registry",
    "kubectl create secret generic fire --from-literal=PASSWORD=…": "it needs a cluster of Kubernetes",
    "kubectl apply -f job/kubernetes.yaml": "likewise; tests/commands/bundle/test_kubernetes.py checks the manifest by the schemas",
}
ELSEWHERE: Final = {
    "docs/connectors.md": [*(command for command, _ in test_connectors_http.COMMANDS), *test_connectors_mqtt.COMMANDS],
    "docs/explanations.md": [f"$ dotr {command}\n{output}" for command, output in test_docs_explanations.COMMANDS],
    "docs/testing.md": [
        text for syntax, text in test_docs_testing.BLOCK.findall(test_docs_testing.PAGE.read_text(encoding="utf-8")) if syntax == "console"
    ],
}
RUN_HERE: Final = {"README.md", "docs/first-steps.md", "docs/operation.md", "docs/performance.md"}


@dataclass(frozen=True)
class Block:
    """A command block: its text, the page, and the number of its line."""

    page: str
    line: int
    text: str

    @property
    def commands(self) -> str:
        """The shell's text without the commands that no test runs, and without what a `$` block shows of the output."""
        text = self.text
        if text.startswith("$ "):
            text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
        return "\n".join(line for line in text.splitlines() if without_comment(line) not in NOT_RUN) + "\n"


def without_comment(line: str) -> str:
    return re.sub(r"(^|\s+)#.*", "", line).strip()


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        language, content = found.groups()
        if language in ("sh", "bash", "console", "shell") or (not language and re.search(r"^\$ ", content, re.MULTILINE)):
            yield Block(page, text.count("\n", 0, found.start()) + 1, content)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run(page: str) -> None:
    found = [block.text for block in blocks(page)]
    if page in ELSEWHERE:
        assert sorted(found) == sorted(ELSEWHERE[page])
    elif page not in RUN_HERE:
        assert found == []


def test_what_is_not_run_stands_on_a_page() -> None:
    lines = {without_comment(line) for page in PAGES for block in blocks(page) for line in block.text.splitlines()}
    assert NOT_RUN.keys() <= lines


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copied(tmp_path / "dotr")


def copied(copy: Path) -> Path:
    """A copy of what the commands read, with this environment as its `.venv`, in which `start` finds everything installed."""
    for name in ("configs", "rules", "kb", "data", "tests/rules"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("start", "setup.sh", "pyproject.toml"):
        shutil.copy2(ROOT / name, copy)
    (copy / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        if not path.name.startswith("installed-"):
            (copy / ".venv" / path.name).symlink_to(path)
    (copy / ".venv/installed-spark").touch()
    return copy


def run(commands: str, folder: Path, codes: tuple[int, ...] = (0,), *, submits: bool = False, cache: str = "") -> str:
    """Output of the commands of a block; each has to succeed, the last one with one of some exit codes. `submits`: its JVMs are started by
    spark-submit or by a cluster. `cache`: the cache folder, if it is not that of the tests."""
    path = os.pathsep.join([str(folder / ".venv/bin"), os.environ["PATH"]])
    given = clean_environment({"PATH": path, "XDG_CACHE_HOME": cache or os.environ["XDG_CACHE_HOME"]})
    del given["SPARK_HOME"]  # a user has none, and Spark's folder is found in the environment
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=with_archive(given) if submits else given,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode in codes, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.spark
def test_commands_of_the_readme(checkout: Path) -> None:
    start, fire, _ = blocks("README.md")
    run(start.commands, checkout)
    assert len(list((checkout / "out/city/events.ndjson").iterdir())) > 0
    printed = run(fire.commands, checkout)
    shown = [line for line in fire.text.splitlines() if not line.startswith(("$ ", "…"))]
    assert printed.splitlines()[: len(shown)] == shown


def test_city_is_served_as_the_readme_says(checkout: Path) -> None:
    (checkout / ".venv/installed-spark,http").touch()
    config, port = checkout / "configs/city-served.yaml", str(free_port())
    config.write_text(config.read_text().replace("8080", port).replace("pace: 300", "pace: 20000"))
    start, events, sensors = (line.replace("8080", port) for line in list(blocks("README.md"))[2].commands.splitlines())
    served = subprocess.Popen(
        ["bash", "-c", f"exec {without_comment(start)} --engine local"], cwd=checkout, stderr=subprocess.PIPE, text=True
    )
    try:
        assert served.stderr is not None
        assert any(f"http://127.0.0.1:{port}/sensors/" in line for line in served.stderr)
        first = run(f"set +o pipefail; {without_comment(events)} -s | grep -m 2 .", checkout)
        assert re.match(r"id: \d+-\d+\ndata: \{.*\}\n", first)
        assert run(f"{without_comment(sensors)} -s", checkout).count("prov:generatedAtTime") == 3
    finally:
        served.send_signal(signal.SIGINT)
        _, told = served.communicate(timeout=30)
    assert served.returncode == 0, told


@pytest.mark.spark
def test_commands_of_the_first_steps(checkout: Path) -> None:
    tools, aarhus = blocks("docs/first-steps.md")
    printed = run(tools.commands, checkout, codes=(1,))  # of the replay at the end: events differ
    for said in (
        "State of configs/fire.yaml",
        "Input sensors: 6 records",
        "Rule R -> Fire",
        "Fire (rule R) at 12",
        "R: 4 anchors",
        "passed, 0 failed",
        "R: 2 -> 0 events, 0 new, 2 gone",
    ):
        assert said in printed, said
    assert (checkout / "report.html").exists()
    assert (checkout / "elsewhere.ndjson").read_text().count("\n") == 2
    assert aarhus.commands.split() == []


@pytest.mark.spark
def test_commands_of_the_page_on_operation(checkout: Path) -> None:
    """The job under spark-submit; on the cluster of the page it is in tests/runtimes/spark/test_spark_cluster.py."""
    submit, _packed, _cluster, bundle, kubernetes, report, audit, knowledge, code = blocks("docs/operation.md")
    run(submit.commands, checkout, submits=True)
    assert len(list((checkout / "out/city/events.ndjson").iterdir())) > 0
    run(bundle.commands.replace("--environment ", ""), checkout)
    run(kubernetes.commands, checkout)
    assert (checkout / "job/kubernetes.yaml").exists()
    run(report.commands, checkout)
    assert (checkout / "report.html").exists()
    assert "to the end" in run(audit.commands, checkout)
    assert "triples" in run(knowledge.commands, checkout)
    (checkout / "config.yaml").write_text(
        (checkout / "configs/fire.yaml").read_text().replace("../", "").replace("out/", "of/") + "engine: local\n"
    )
    run(code.commands.replace("/tmp/code", str(checkout / "code")), checkout)
    assert list((checkout / "code").glob("matcher_*.py"))


def test_commands_of_the_page_on_performance() -> None:
    (block,) = blocks("docs/performance.md")
    assert run(block.commands, ROOT, codes=(0, 1))  # 1: there are stale results
