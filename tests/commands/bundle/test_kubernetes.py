"""The manifest of a job is what the schemas of Kubernetes allow and its settings are Spark's; its image has what the bundle has. No
cluster runs it here."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyspark
import pytest
import yaml

from dotr.commands.bundle.job import resources
from tests.conftest import Project

pytestmark = pytest.mark.core

JARS = Path(pyspark.__file__).parent / "jars"
RELEASES = ("1.30", "1.36")
"""Releases of Kubernetes: an old one that is still in use, and a new one."""


def valid(document: dict[str, Any]) -> None:
    for release in RELEASES:
        kubernetes_validate.validate(document, release, strict=True)


@pytest.fixture
def made(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The documents of the small pipeline's bundle, whose configuration has variables of the environment, one of them a secret."""
    monkeypatch.setenv("SERVERS", "h:1")
    monkeypatch.setenv("PASSWORD", "correct-horse")
    kafka = "{ bootstrap.servers: '${SERVERS}', topic: '${T:-dead}', sasl.username: a, sasl.password: '${PASSWORD}' }"
    project.change("c.yaml", "dead_letter: dead.ndjson", f"dead_letter: {{ kafka: {kafka} }}")
    answer = project.dotr("bundle", "c.yaml", "dist", "--kubernetes", "registry.example/small:1")
    assert answer.code == 0, answer
    assert answer.out.split()[-2:] == ["dist/Dockerfile", "dist/kubernetes.yaml"]
    text = project.read("dist/kubernetes.yaml")
    assert "&id" not in text
    return list(yaml.safe_load_all(text))


def test_manifest_is_valid_by_the_schemas(made: list[dict[str, Any]]) -> None:
    assert [each["kind"] for each in made] == ["ServiceAccount", "Role", "RoleBinding", "Job"]
    for document in made:
        valid(document)


@pytest.mark.parametrize(
    ("place", "value"),
    [(("spec", "template", "spec", "restartPolicy"), 1), (("spec", "podFailurPolicy"), {}), (("spec", "backoffLimit"), "x")],
)
def test_schemas_see_a_mistake(made: list[dict[str, Any]], place: tuple[str, ...], value: object) -> None:
    """So that a manifest without objection says something."""
    inner = made[3]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        valid(made[3])


def settings_of(job: dict[str, Any]) -> dict[str, str]:
    words = job["spec"]["template"]["spec"]["containers"][0]["args"]
    return dict(words[number + 1].split("=", 1) for number, word in enumerate(words) if word == "--conf")


def test_settings_are_those_of_spark(made: list[dict[str, Any]]) -> None:
    """A misspelt key of Spark would be ignored."""
    known = b""
    for name in ("spark-kubernetes_*", "spark-core_*"):
        (jar,) = JARS.glob(f"{name}.jar")
        with zipfile.ZipFile(jar) as file:
            for each in file.namelist():
                if re.search(r"/(k8s/Config|k8s/Constants|internal/config/.*)\$?\.class$", each):
                    known += file.read(each)
    for key in settings_of(made[3]):
        own = re.sub(r"(secretKeyRef\.).*", r"\1", key)
        assert own.encode() in known or key == "spark.driver.host", key


def test_values_of_variables_are_in_a_secret_alone(project: Project, made: list[dict[str, Any]]) -> None:
    for path in (project.folder / "dist").rglob("*.*"):
        assert path.is_dir() or not {b"h:1", b"correct-horse"} & set(path.read_bytes().split(b"'")), path
    keys = [key for key in settings_of(made[3]) if "secretKeyRef" in key]
    assert keys == ["spark.kubernetes.executor.secretKeyRef.PASSWORD"]
    assert settings_of(made[3])[keys[0]] == "small:PASSWORD"
    assert made[3]["spec"]["template"]["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "small", "optional": True}}]


def test_driver_has_the_account_and_ends_for_good_by_a_mistake(made: list[dict[str, Any]]) -> None:
    account, role, binding, job = made
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    policy = job["spec"]["podFailurePolicy"]["rules"][0]
    assert policy["onExitCodes"] == {"containerName": pod["containers"][0]["name"], "operator": "In", "values": [2]}


def test_image_has_the_bundle(project: Project, made: list[dict[str, Any]]) -> None:
    lines = project.read("dist/Dockerfile").splitlines()
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert set(copied) == {"requirements.txt", "dotr.zip", "run_dotr.py", "dotr-job"}
    assert all((project.folder / "dist" / each).exists() for each in copied)
    assert f"FROM apache/spark:{pyspark.__version__} AS spark" in lines
    assert (project.folder / "dist" / made[3]["spec"]["template"]["spec"]["containers"][0]["args"][-1]).is_file()


@pytest.mark.parametrize("name", ["x" * 90, "Ä", "--", "a.b_c", "9"])
def test_name_of_any_pipeline_is_one_of_kubernetes(name: str) -> None:
    documents = resources(name, "dotr-job/c.yaml", "i", [])
    for document in documents:
        valid(document)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?", documents[0]["metadata"]["name"])
