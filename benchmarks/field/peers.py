"""Other systems, fetched by the clients of their registries into `out/benchmarks` when a work needs them.

Jars come with Maven, or where there is none with the Ivy that is among PySpark's jars; our drivers
are compiled by javac, or without a JDK by the compiler of Eclipse from the same registry. A system
that cannot be installed is `Missing`, with the reason that the table shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[2]
OUT: Final = ROOT / "out" / "benchmarks"
DRIVERS: Final = Path(__file__).parent / "drivers"
_ECJ: Final = "org.eclipse.jdt:ecj:3.33.0"
_PATIENCE: Final = 900
"""Seconds that a fetch may take."""


class Missing(Exception):
    """Raised for a peer that cannot be installed, with the reason."""


class Command(NamedTuple):
    """The command that starts a system in a process of its own."""

    words: tuple[str, ...]
    folder: Path = ROOT

    def and_also(self, *words: str) -> Command:
        """The command with more arguments."""
        return self._replace(words=(*self.words, *words))


class JavaPeer(NamedTuple):
    """A peer on the JVM: its class among our drivers, and what it needs from the registry.

    `is_exact`: the artifacts are complete; otherwise their dependencies are fetched, too.
    """

    name: str
    driver: str
    artifacts: tuple[str, ...]
    is_exact: bool = False


ESPER_9: Final = JavaPeer("Esper 9.0", "Esper9", ("com.espertech:esper-compiler:9.0.0", "com.espertech:esper-runtime:9.0.0"))
ESPER_4: Final = JavaPeer("Esper 4.2", "Esper4", ("com.espertech:esper:4.2.0",))
SIDDHI: Final = JavaPeer(
    "Siddhi 5.1.21",
    "Siddhi",
    (
        *(f"io.siddhi:siddhi-{part}:5.1.21" for part in ("core", "annotations", "query-api", "query-compiler")),
        "com.lmax:disruptor:3.4.4",
        "org.antlr:antlr4-runtime:4.7.2",
        "org.apache.logging.log4j:log4j-api:2.17.1",
        "org.apache.logging.log4j:log4j-core:2.17.1",
        "com.google.guava:guava:30.1-jre",
        "org.osgi:org.osgi.core:6.0.0",
        "org.quartz-scheduler:quartz:2.1.1",
        "io.dropwizard.metrics:metrics-core:3.2.6",
        "com.google.code.gson:gson:2.8.9",
        "org.slf4j:slf4j-api:1.7.36",
    ),
    is_exact=True,
)
FLINK: Final = JavaPeer(
    "Flink CEP 2.1",
    "Flink",
    ("org.apache.flink:flink-cep:2.1.0", "org.apache.flink:flink-clients:2.1.0", "org.apache.flink:flink-streaming-java:2.1.0"),
)


def ours(function: str, *arguments: str) -> Command:
    """A function of this repository, run by this interpreter."""
    return Command((sys.executable, "-m", "benchmarks.field.serve", function, *arguments))


def before(commit: str) -> Path:
    """The folder, made if it is absent, with the files of a commit, and with the benchmarks of today in place of its own."""
    folder = OUT / "before" / commit
    if not (folder / "benchmarks").is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        archive = subprocess.run(("git", "archive", commit, ":(exclude)benchmarks"), cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(("tar", "-x"), cwd=folder, input=archive, check=True)
        subprocess.run((sys.executable, "-m", "compileall", "-q", "dotr"), cwd=folder, check=True)
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    return folder


def java(peer: JavaPeer, *arguments: str) -> Command:
    """The driver of a peer on the JVM, fetched and compiled if it is absent."""
    virtual_machine = program("java", "Java")
    jars = _jars(peer)
    classes = OUT / "classes" / peer.driver
    sources = [DRIVERS / "Driver.java", DRIVERS / f"{peer.driver}.java"]
    made = classes / ".made"
    if not made.is_file() or made.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        classes.mkdir(parents=True, exist_ok=True)
        options = ["-proc:none", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, sources)]
        javac = shutil.which("javac")
        if javac is not None:
            _run([javac, *options], f"{peer.driver}.java does not compile")
        else:
            (ecj,) = _jars(JavaPeer("ecj", "", (_ECJ,), is_exact=True)).glob("ecj-*.jar")
            # The compiler of Eclipse takes no star in a class path.
            options[options.index("-cp") + 1] = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))
            _run([virtual_machine, "-jar", str(ecj), "-17", *options], f"{peer.driver}.java does not compile")
        made.touch()
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
    return Command((virtual_machine, "-Xmx4g", *opened, "-cp", f"{classes}{os.pathsep}{jars}/*", peer.driver, *arguments))


def node(package: str, driver: str, *arguments: str) -> Command:
    """A driver in JavaScript over a package of npm, such as `rsp-js@1.3.5`."""
    interpreter = program("node", "Node.js")
    folder = OUT / "npm" / package.replace("@", "-")
    if not (folder / "node_modules" / ".package-lock.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        _run([program("npm", "npm"), "install", "--no-audit", "--no-fund", "--prefix", str(folder), package], f"{package} cannot be had")
    shutil.copy(DRIVERS / driver, folder / driver)
    return Command((interpreter, "--max-old-space-size=4096", str(folder / driver), *arguments))


def python(packages: Sequence[str], function: str, *arguments: str) -> Command:
    """A function of this repository run by an interpreter that holds packages of PyPI."""
    folder = OUT / "python" / "-".join(sorted(package.partition("=")[0] for package in packages))
    interpreter = folder / "bin" / "python"
    made = folder / "made"
    if not made.is_file():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], "no virtual environment")
        _run([str(interpreter), "-m", "pip", "install", "--quiet", *packages], f"{', '.join(packages)} cannot be had")
        made.touch()
    return Command((str(interpreter), "-m", "benchmarks.field.serve", function, *arguments))


def _jars(peer: JavaPeer) -> Path:
    """The folder of a peer's jars."""
    folder = OUT / "jars" / (peer.driver or peer.name)
    made = folder / ".made"
    if not made.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        maven = shutil.which("mvn")
        if maven is not None:
            pom = folder / "pom.xml"
            pom.write_text(_pom(peer), encoding="utf-8")
            command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        else:
            ivy = folder / "ivy.xml"
            ivy.write_text(_ivy(peer), encoding="utf-8")
            command = [
                program("java", "Java"),
                "-jar",
                str(_ivy_jar()),
                "-ivy",
                str(ivy),
                "-retrieve",
                f"{folder}/[artifact]-[revision].[ext]",
            ]
        _run(command, f"its jars cannot be had ({Path(command[0]).name})")
        made.touch()
    return folder


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    found = [] if spec is None or spec.origin is None else sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise Missing("neither Maven nor the Ivy of PySpark's jars is here")
    return found[-1]


def _pom(peer: JavaPeer) -> str:
    exclusion = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>" if peer.is_exact else ""
    coordinates = [artifact.split(":") for artifact in peer.artifacts]
    dependencies = "".join(
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId><version>{escape(version)}</version>{exclusion}</dependency>"
        for group, name, version in coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>benchmarks</groupId>'
        f"<artifactId>{peer.driver or peer.name}</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def _ivy(peer: JavaPeer) -> str:
    transitive = "false" if peer.is_exact else "true"
    coordinates = [artifact.split(":") for artifact in peer.artifacts]
    dependencies = "".join(
        f'<dependency org="{escape(group)}" name="{escape(name)}" rev="{escape(version)}" transitive="{transitive}"'
        ' conf="default->default"/>'
        for group, name, version in coordinates
    )
    return (
        '<ivy-module version="2.0"><info organisation="benchmarks" module="peer"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def program(name: str, title: str) -> str:
    """The path of an installed program; raises `Missing` where there is none."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{title} is not installed")
    return found


def _run(command: Sequence[str], otherwise: str) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE, cwd=ROOT)
    except subprocess.TimeoutExpired:
        raise Missing(f"{otherwise}: more than {_PATIENCE} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if "rror" in line] or done.stdout.splitlines()[-1:]
        raise Missing(f"{otherwise}: {lines[0][:200] if lines else done.returncode}")
