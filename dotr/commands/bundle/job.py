"""Files of a job: those that its configuration names, copied so that they lie to each other as now,
and the configuration, in which only those paths change that would lead elsewhere.

The folder is named `dotr-job` wherever a process of the job runs: spark-submit unpacks the archive
under this name in the working directory of each container. What is written, and what grows, stays
outside, at an absolute path or a URL.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import IO, Any, Final

import yaml

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.errors.terminal import print_stderr, print_stdout
from dotr.model import dataclass
from dotr.runtimes.pipeline.config import Config, ConfigFiles, glob_files, read_config
from dotr.runtimes.pipeline.inputs import read_inputs
from dotr.runtimes.pipeline.outputs import read_outputs, targets_of
from dotr.runtimes.spark.checkpoint.folder import JOB_FOLDER
from dotr.streams.formats.mapping.maps import is_mapping
from dotr.syntax.yaml import KeyPath

# Packages of a job: those that dotr needs, pinned as they are installed, and the whole environment
# as an archive; and the zip files of a bundle.


_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_REQUIREMENT: Final = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
"""The name of a requirement, its extras and its marker."""
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)")


def requirements(extras: Iterable[str]) -> list[str]:
    """The packages that dotr needs, itself apart, over all of their requirements, with their versions.

    `extras`: those of dotr, of which names that it has not are ignored. Raises `Refused` (S191)
    where dotr is no installed package.

    >>> [name for each in requirements(()) if (name := each.partition("==")[0]) in ("rdflib", "pyspark", "numpy")]
    ['rdflib']
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [("dotr", frozenset(extras))]
    while waiting:
        each = name, wanted = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            package = distribution(name)
        except PackageNotFoundError:  # a marker excludes it here
            if name == "dotr":
                hint = "Install it: pip install 'dotr[spark]', or pip install --editable '.[spark]' in its source."
                raise refuse("S191", "dotr is no installed package, so that the versions it needs are unknown", None, hint) from None
            continue
        found[name] = f"{package.metadata['Name']}=={package.version}"
        for text in package.requires or ():
            requirement = _REQUIREMENT.match(text)
            assert requirement is not None
            extra = _EXTRA.search(requirement[3] or "")
            if extra is None or extra[1] in wanted:
                own = frozenset((requirement[2] or "").replace(" ", "").split(",")) - {""}
                waiting.append((re.sub(r"[-_.]+", "-", requirement[1]).lower(), own))
    return sorted((text for name, text in found.items() if name != "dotr"), key=str.lower)


def write_environment(target: Path) -> Path:
    """Write the virtual environment of this process as env.tar.gz, without pyspark, which executors
    have.

    Raises `Refused` (S191) outside of an environment, and OSError where the folder cannot be
    written.
    """
    if sys.prefix == sys.base_prefix:
        hint = "Make one, and call its dotr: python -m venv env && env/bin/pip install -r requirements.txt"
        raise refuse("S191", f"{sys.prefix} is no virtual environment, and cannot be packed", None, hint)
    archive = target / "env.tar.gz"

    def without_pyspark(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if re.search(r"/site-packages/pyspark(?:/|$)|/__pycache__(?:/|$)", member.name) else member

    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(sys.prefix, ".", filter=without_pyspark)
    return archive


def write_zip(archive: Path, files: Iterable[tuple[str, Path]]) -> None:
    """Write a zip file of files under names; equal files make equal bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, path in files:
            about = zipfile.ZipInfo(name, _EPOCH)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            written: IO[bytes]
            with path.open("rb") as read, whole.open(about, "w", force_zip64=os.fstat(read.fileno()).st_size >= 1 << 31) as written:
                shutil.copyfileobj(read, written)


_READ: Final = ("rules", "knowledge", "input")
"""Sections with the paths of files that are read."""
_STAYING: Final = ("cache", "tls", "kafka", "spark")
"""Keys of these sections with paths that are not for all machines, such as that of a private key, or
that are no files of the job, such as that of a table which Spark reads."""
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")
"""The anchor and the tag in front of a YAML value."""
_EXTRAS: Final = {"sse": "http", "ldes": "http", "websocket": "http", "serve": "http"}
"""The extras of connectors that are not named like theirs."""


@dataclass(frozen=True, slots=True)
class _NamedFiles(ConfigFiles):
    """The files of a configuration, with each path that is asked for, by its place in the document."""

    named: dict[KeyPath, str] = field(default_factory=dict)

    def path(self, text: str, location: KeyPath) -> str:
        """The path relative to the working directory."""
        found = ConfigFiles.path(self, text, location)
        self.named[location] = found
        return found


def write_job(name: str, target: Path, image: str | None) -> None:
    """Write the files of a configuration into a folder: `dotr-job`, an archive of it, and the pinned
    requirements; with an image, a Dockerfile and a manifest of Kubernetes. Their paths are printed.

    Raises `Refused` with the problems of the configuration, and OSError where the folder cannot be
    written.
    """
    config = read_config(name)
    named, outside = _named_paths(config)
    inside = {place: path for place, path in named.items() if place not in outside}
    files = sorted({os.path.abspath(file) for path in inside.values() for file in _matching(path)})
    base = os.path.abspath(str(config.files.folder))
    root = os.path.commonpath([base, *map(os.path.dirname, files), *(os.path.dirname(os.path.abspath(path)) for path in inside.values())])
    folder, archive = target / JOB_FOLDER, target / f"{JOB_FOLDER}.zip"
    shutil.rmtree(folder, ignore_errors=True)
    copies = [(folder / os.path.relpath(file, root), Path(file)) for file in files]
    for copy, file in copies:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    own = folder / os.path.relpath(os.path.abspath(name), root)
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(_rewritten(config, inside, outside, base), encoding="utf-8")
    write_zip(archive, ((str(path.relative_to(folder)), path) for path in sorted([own, *(copy for copy, _ in copies)])))
    pinned = target / "requirements.txt"
    pinned.write_text("".join(f"{each}\n" for each in requirements(_extras(config))), encoding="utf-8")
    print_stdout(f"{folder}\n{archive}\n{pinned}")
    if image:
        print_stdout("\n".join(map(str, write_manifest(target, config, str(own.relative_to(target)), JOB_FOLDER, image))))
    for path in sorted({os.path.abspath(path) for path in outside.values()}):
        print_stderr(f"Outside of the bundle: {path}")
    submitted = f"--py-files dotr.zip --archives {archive.name}#{JOB_FOLDER} run_dotr.py run {own.relative_to(target)}"
    print_stderr(f"In {target}: spark-submit {submitted}")


def _named_paths(config: Config) -> tuple[dict[KeyPath, str], dict[KeyPath, str]]:
    """The paths that a configuration names, by their places in it, and those of them that stay where
    they are. Raises `Refused` with all problems of files and connectors."""
    files = _NamedFiles(config.files.tree, config.files.folder)
    config, problems = replace(config, files=files), list[Diagnostic]()
    _, of_program = config.spec()
    problems += of_program
    growing = {each.pattern for each in read_inputs(config, problems).growing}
    read_outputs(config, problems, on_spark=True)
    targets = targets_of(config)
    for place in files.tree.locations:
        value = files.tree.span(place).text
        if place[-1:] == ("map",) and isinstance(value, str) and is_mapping(value.strip("\"'")):
            files.path(value.strip("\"'"), place)
    if problems:
        raise Refused(problems)
    if files.named.pop(("name",), None) is not None:
        hint = "Name one that the job keeps, a URL or a path on all machines: spark: { checkpoint: … }"
        raise refuse("S192", f"the checkpoint {targets[-1].path} would lie in the bundle", config.span("spark"), hint)
    named = {place: path for place, path in files.named.items() if "://" not in path}

    def stays(place: KeyPath, path: str) -> bool:
        return place[0] not in _READ or any(key in _STAYING for key in place) or (place[0] == "input" and path in growing)

    return named, {place: path for place, path in named.items() if stays(place, path)}


def _matching(path: str) -> list[str]:
    """The files of a path or a glob."""
    return [path] if os.path.isfile(path) else glob_files(path)


def _rewritten(config: Config, inside: dict[KeyPath, str], outside: dict[KeyPath, str], base: str) -> str:
    """The text of the configuration for the folder of the job: paths of files within it are relative,
    the others absolute. The values of variables are in no path that stays outside."""
    tree = config.files.tree
    changed: dict[tuple[int, int], str] = {}
    for place, path in {**inside, **outside}.items():
        span = tree.span(place)
        written = str(yaml.safe_load(span.text[_PROPERTIES.match(span.text).end() :]))  # type: ignore[union-attr]
        if place in outside:
            new = written if tree.begins_with_variable(place) else os.path.normpath(os.path.join(base, os.path.expanduser(written)))
        else:
            is_plain = not (os.path.isabs(written) or written.startswith("~") or "${" in written)
            new = written if is_plain else os.path.relpath(os.path.abspath(path), base)
        if new != written:
            changed[span.start, span.end] = new
    text = tree.document.text
    for (start, end), new in sorted(changed.items(), reverse=True):
        old = text[start:end]
        head, tail = _PROPERTIES.match(old).group(), old[len(old.rstrip()) :]  # type: ignore[union-attr]
        text = text[:start] + head + json.dumps(new, ensure_ascii=False) + tail + text[end:]
    return text


def _extras(config: Config) -> Iterator[str]:
    """The extras of the package that the configuration needs: by its keys, formats and URLs."""
    yield "spark"
    tree = config.files.tree
    for place in tree.locations:
        yield from (_EXTRAS.get(key, key) for key in place if isinstance(key, str))
        text = tree.span(place).text
        if place[-1:] == ("format",):
            yield text.strip("\"'")
        if place[-1:] in (("path",), ("checkpoint",)) and "://" in text:
            yield "objects"


# Manifest of a job on Kubernetes, and the Dockerfile of its image: bundle, packages and Spark.
#
# The driver is the pod of a Job, in client mode: where it is lost, the Job starts another one, which
# goes on from the checkpoint. (In cluster mode Spark starts the driver's pod itself, once.) Exit code
# 2, a mistake of the configuration, ends the Job at once. Executors belong to the driver's pod, and
# end with it.


_DOCKERFILE: Final = """\
# docker build -t {image} .
FROM apache/spark:{spark} AS spark

FROM python:{python}-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini && rm -rf /var/lib/apt/lists/*
COPY --from=spark /opt/spark /opt/spark
COPY --from=spark /opt/entrypoint.sh /opt/entrypoint.sh
COPY requirements.txt /opt/requirements.txt
RUN grep -v '^pyspark==' /opt/requirements.txt | pip install --no-cache-dir -r /dev/stdin
WORKDIR /opt/job
COPY dotr.zip run_dotr.py ./
COPY {folder} {folder}
RUN useradd --uid 185 --gid 0 --home-dir /opt/job spark && chown -R 185:0 /opt/job
ENV SPARK_HOME=/opt/spark PYTHONPATH=/opt/job/dotr.zip PYSPARK_PYTHON=/usr/local/bin/python3
USER 185
ENTRYPOINT ["/opt/entrypoint.sh"]
"""
_VERBS: Final = ["create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"]
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_RESOURCES: Final = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
_LONGEST_NAME: Final = 40
"""Characters of the name: Spark appends its own to those of the executors, up to the 63 of a host."""


def write_manifest(target: Path, config: Config, job: str, folder: str, image: str) -> tuple[Path, Path]:
    """Write Dockerfile and kubernetes.yaml beside a bundle; returns their paths.

    `job`: the path of the configuration in `folder`. Raises OSError.
    """
    dockerfile, manifest = target / "Dockerfile", target / "kubernetes.yaml"
    python = ".".join(platform.python_version_tuple()[:2])
    dockerfile.write_text(_DOCKERFILE.format(image=image, spark=version("pyspark"), python=python, folder=folder), encoding="utf-8")
    secrets = sorted({found[1] for found in _VARIABLE.finditer(json.dumps(config.files.tree.data))})  # others are replaced by now
    documents = json.loads(json.dumps(resources(config.settings.name, job, image, secrets)))  # copies, which YAML writes without aliases
    manifest.write_text(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=140), encoding="utf-8")
    return dockerfile, manifest


def resources(name: str, job: str, image: str, secrets: list[str]) -> list[dict[str, Any]]:
    """The account of the driver, its rights, and the Job.

    The driver has all variables of a Secret with the name of the job, and executors those of
    `secrets`, whose values they look up where they connect.

    >>> [each["kind"] for each in resources("City, of Aarhus", "dotr-job/c.yaml", "registry.example/city:1", [])]
    ['ServiceAccount', 'Role', 'RoleBinding', 'Job']
    >>> resources("City, of Aarhus", "dotr-job/c.yaml", "registry.example/city:1", [])[3]["metadata"]["name"]
    'city-of-aarhus'
    """
    name = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAME].strip("-") or "dotr"
    settings = {
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.memory": "1g",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.namespace": "$(POD_NAMESPACE)",
        "spark.python.daemon.module": "dotr.runtimes.spark.daemon",
        **{f"spark.kubernetes.executor.secretKeyRef.{each}": f"{name}:{each}" for each in secrets},
    }
    of_pod = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    master = "k8s://https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
    container = {
        "name": "driver",
        "image": image,
        "command": ["/usr/bin/tini", "--", "/opt/spark/bin/spark-submit", "--master", master, "--deploy-mode", "client"],
        "args": [*(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")), "run_dotr.py", "run", job],
        "env": [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in of_pod.items()],
        "envFrom": [{"secretRef": {"name": name, "optional": True}}],
        "resources": _RESOURCES,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": name,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 185, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    mistake = {"action": "FailJob", "onExitCodes": {"containerName": "driver", "operator": "In", "values": [2]}}
    evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    about, role = {"name": name, "labels": {"app.kubernetes.io/name": name}}, "rbac.authorization.k8s.io"
    rights = [{"apiGroups": [""], "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"], "verbs": _VERBS}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {"apiVersion": f"{role}/v1", "kind": "Role", "metadata": about, "rules": rights},
        {
            "apiVersion": f"{role}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "subjects": [{"kind": "ServiceAccount", "name": name}],
            "roleRef": {"apiGroup": role, "kind": "Role", "name": name},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": about,
            "spec": {
                "backoffLimit": 1000,
                "podFailurePolicy": {"rules": [mistake, evicted]},
                "template": {"metadata": {"labels": about["labels"]}, "spec": pod},
            },
        },
    ]
