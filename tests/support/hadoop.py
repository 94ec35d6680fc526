"""HDFS and YARN for the tests: a name node, a data node and, where a test asks for them, a resource manager and a node manager, in one JVM
on loopback; one for all processes of a test run.

    python -m tests.support.hadoop          # runs one until Ctrl-C, and prints its URLs; its jars come once a machine (118 MB)

The fixture `hdfs` (tests/conftest.py) starts it at first use (9 s, 6 s of CPU, 350 MB). A test takes a folder of its own
(`Hadoop.folder`), since all tests have the one HDFS. YARN takes 3 s more. No Java is compiled: the JVM runs py4j's gateway, and Python
makes the clusters.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import pytest

from tests.support.maven import MissingJar, fetch, jar
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

JARS: Final = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.apache.hadoop:hadoop-client-api:3.5.0",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0",
    "junit:junit:4.13.2",
    "org.mockito:mockito-core:4.11.0",
    "org.junit.jupiter:junit-jupiter-api:5.10.2",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "org.bouncycastle:bcprov-jdk18on:1.78.1",
    "org.bouncycastle:bcutil-jdk18on:1.78.1",
)
_JAVA: Final = ("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_GATEWAY: Final = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
_YARN: Final = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.nodemanager.delete.debug-delay-sec": "3600",
    "yarn.resourcemanager.am.max-attempts": "3",
}
"""Settings of YARN: without its default queue, or with an application master that takes a tenth of the memory, no application starts. The
folders of containers, with their logs, stay."""
_FOR_CLIENTS: Final = ("yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address", "yarn.resourcemanager.webapp.address")
_STATE: Final = "hadoop.json"
_POLL_SECONDS: Final = 0.5


@dataclass
class Hadoop:
    """An HDFS that runs. `url` is that of the name node for Hadoop's clients, `webhdfs` that of its HTTP port."""

    url: str
    webhdfs: str
    gateway: int
    token: str
    lock: Path
    _numbers: Iterator[int] = field(default_factory=count)
    _held: list[IO[str]] = field(default_factory=list)
    _stopped: list[Any] = field(default_factory=list)

    def folder(self, stem: str = "t") -> str:
        """The URL of a folder that no other test has; it does not exist yet."""
        return f"{self.url}/{stem}-{os.getpid()}-{next(self._numbers)}"

    @cached_property
    def _java(self) -> JavaGateway:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        return JavaGateway(gateway_parameters=GatewayParameters(port=self.gateway, auth_token=self.token))

    @property
    def cluster(self) -> Any:
        """The MiniDFSCluster, as an object of py4j: `hdfs.cluster.restartNameNode()`. Tests that run meanwhile notice."""
        return self._java.jvm.System.getProperties().get("dotr.cluster")

    def yarn(self) -> Path:
        """The folder for HADOOP_CONF_DIR of what is submitted; the first call of all processes starts YARN."""
        settings = self.lock.parent / "yarn"
        with self.lock.with_suffix(".yarn").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not settings.exists():
                java = self._java.jvm
                configuration = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
                for name, value in {**_YARN, "fs.defaultFS": self.url}.items():
                    configuration.set(name, value)
                cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
                cluster.init(configuration)
                cluster.start()
                if not cluster.waitForNodeManagersToConnect(int(PATIENCE * 1000)):
                    raise RuntimeError("no node manager connects to YARN's resource manager")
                given = {name: cluster.getConfig().get(name) for name in _FOR_CLIENTS}
                given |= {"fs.defaultFS": self.url, "dfs.namenode.http-address": self.webhdfs.removeprefix("http://")}
                properties = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in given.items())
                made = settings.with_suffix(".made")
                made.mkdir(exist_ok=True)
                for file in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
                    (made / file).write_text(f"<configuration>{properties}</configuration>\n")
                made.rename(settings)
        return settings

    @property
    def containers(self) -> Path:
        """The folder with those of YARN's containers, and with their logs, at some depth."""
        return self.lock.parent / "target" / "yarn"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """A context in which no other process kills a node."""
        with self.lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            self._held.append(file)
            try:
                yield
            finally:
                self.start_data_node()
                self._held.remove(file)

    def kill_data_node(self) -> None:
        """End the data node, once no other process uses HDFS: contents can be neither read nor written, names still can."""
        for file in self._held:
            fcntl.flock(file, fcntl.LOCK_EX)
        self._stopped.append(self.cluster.stopDataNode(0))

    def start_data_node(self) -> None:
        """Start the data node that was killed, on the same port and with its data; nothing is done if none was."""
        while self._stopped:
            self.cluster.restartDataNode(self._stopped.pop(), True)
            self.cluster.waitActive()
        for file in self._held:
            fcntl.flock(file, fcntl.LOCK_SH)

    def close(self) -> None:
        """Close the connections of this process to the JVM."""
        if "_java" in self.__dict__:
            self._java.close()


def skip_without_java(items: Iterable[pytest.Item]) -> None:
    """Skip the tests marked `hadoop` if there is no Java; if CI is set, they run and fail."""
    if "CI" in os.environ or shutil.which("java") is not None:
        return
    for item in items:
        if item.get_closest_marker("hadoop"):
            item.add_marker(pytest.mark.skip(reason="HDFS needs Java: apt-get install default-jre-headless"))


def running(folder: Path, parent: int) -> Hadoop:
    """The HDFS of a test run, whose processes have `folder` in common; it starts if no process has started it. It ends with the process
    `parent`. Where the jars cannot be had the test is skipped, and fails if CI is set."""
    for each in JARS:
        jar(each)
    with (folder / "hadoop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _STATE).exists():
            # Its own session: Ctrl-C in a terminal must not reach it.
            command = [sys.executable, "-m", "tests.support.hadoop", str(folder), str(parent)]
            root = Path(__file__).parents[2]
            log = folder / "hadoop.log"
            with log.open("ab") as file:
                ended = subprocess.run(
                    command, cwd=root, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, check=False
                )
            if ended.returncode:
                raise RuntimeError(f"HDFS does not start:\n{log.read_text(errors='replace')[-3000:]}")
    return Hadoop(**json.loads((folder / _STATE).read_text()), lock=folder / "hadoop-use.lock")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """A JVM with an HDFS, which ends when its standard input is closed, as it is when this process ends."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway

    classes = os.pathsep.join([*(str(fetch(each)) for each in JARS), str(Path(pyspark.__file__).parent / "jars" / "*")])
    with (folder / "hdfs.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *_JAVA,
                f"-Dtest.build.data={folder}/target",
                "-cp",
                classes,
                "py4j.GatewayServer",
                "--die-on-broken-pipe",
                "--enable-auth",
                "0",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    token = process.stdout.readline().decode().strip()  # made by the gateway
    java = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    settings = java.jvm.org.apache.hadoop.conf.Configuration()
    settings.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
    builder = java.jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings)
    cluster = builder.numDataNodes(1).build()
    cluster.waitActive()
    java.jvm.System.getProperties().put("dotr.cluster", cluster)
    state = {"url": cluster.getURI().toString(), "webhdfs": str(cluster.getHttpUri(0)), "gateway": port, "token": token}
    made = folder / f"{_STATE}.made"
    made.touch(mode=0o600)
    made.write_text(json.dumps(state))
    made.rename(folder / _STATE)
    return process


def _serve(folder: Path, parent: int) -> None:
    """Start an HDFS and return to the caller; a process that goes on ends it when the process `parent` has ended."""
    started = _start(folder)
    if os.fork():
        os._exit(0)
    with suppress(ProcessLookupError):
        while True:
            os.kill(parent, 0)
            time.sleep(_POLL_SECONDS)
    assert started.stdin is not None
    started.stdin.close()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:]:
        _serve(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary, suppress(KeyboardInterrupt, MissingJar):
            hdfs = running(Path(temporary), os.getpid())
            sys.stdout.write(f"{hdfs.url} {hdfs.webhdfs}\n")
            sys.stdout.flush()
            while True:
                time.sleep(3600)
