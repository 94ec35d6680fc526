"""Jars of Maven for the tests: each is fetched once a machine into a cache folder, and compared with the digest that is written here.

    python -m tests.support.maven group:artifact:version …          # fetches these; without a name all that a test run needs

PySpark ships Ivy, which fetches them: no Maven is needed. A jar without a row in `DIGESTS` is refused; its row is what the message says.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import file_digest
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path.home() / ".cache" / "dotr" / "maven"
"""The folder of the jars, independent of XDG_CACHE_HOME, which tests change."""
FETCH: Final = "python -m tests.support.maven"
DIGESTS: Final = {
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0": "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    "org.apache.hadoop:hadoop-client-api:3.5.0": "cc59446ec9ebaceae56fdb8d8c21477766dc5d426325642151c796bec5c4e6b7",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0": "b7db3e60c5df1cd37c2995b3e0142e57487260706834e5325bbe0a5e683eedf1",
    "junit:junit:4.13.2": "8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3",
    "org.mockito:mockito-core:4.11.0": "4b909690cab288c761eb94c0bf0e814496cf3921d8affac84cd87774530351e5",
    "org.junit.jupiter:junit-jupiter-api:5.10.2": "afff77c186cd317275803872fa5133aa801fd6ac40bd91c78a6cf8009b4b17cc",
    "ch.qos.reload4j:reload4j:1.2.22": "222f90d3e69541218ef6e70547749d693bd4c1846817e5bd7949b3e28950f99f",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1": "4b48ea084e5232b9d79ebca1887b9de037b124931807cd60710748c2aee08cc9",
    "org.bouncycastle:bcprov-jdk18on:1.78.1": "add5915e6acfc6ab5836e1fd8a5e21c6488536a8c1f21f386eeb3bf280b702d7",
    "org.bouncycastle:bcutil-jdk18on:1.78.1": "d9fa56f97b0f761ce3bc8d9d74c5d7137a987bf5bd3abfe1003f9bafa45a1d2f",
    "org.apache.hadoop:hadoop-aws:3.5.0": "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
    "io.delta:delta-spark_4.2_2.13:4.4.0": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "io.delta:delta-storage:4.4.0": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "org.antlr:antlr4-runtime:4.13.1": "54665d2838cc66458343468efc539e454fc95b46a8a04b13c6ac43fc9be63505",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0": "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    "software.amazon.awssdk:bundle:2.35.4": "db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1": (
        "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e"
    ),
}
"""The SHA-256 of each jar."""
OF_SOAKS: Final = ("software.amazon.awssdk:bundle:2.35.4", "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1")
"""The jars, of 686 MB, that no test of CI needs."""


class MissingJar(Exception):
    """Reason why a jar is not there, with the command that fetches it."""


def path_of(coordinates: str) -> Path:
    """The place of a jar in the cache.

    >>> path_of("junit:junit:4.13.2").name
    'junit-4.13.2.jar'
    """
    _, artifact, version = coordinates.split(":")
    return FOLDER / f"{artifact}-{version}.jar"


def jar(coordinates: str) -> Path:
    """The jar of `group:artifact:version`; where it cannot be had the test is skipped, and fails if CI is set."""
    try:
        return fetch(coordinates)
    except MissingJar as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def fetch(coordinates: str) -> Path:
    """The jar of `group:artifact:version`, which appears only once it is complete; raises `MissingJar`."""
    place = path_of(coordinates)
    if place.exists():
        return place
    if shutil.which("java") is None:
        raise MissingJar("jars are fetched by Java: apt-get install default-jre-headless")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():  # otherwise another process was first
            with tempfile.TemporaryDirectory(dir=FOLDER, prefix="fetch-") as folder:
                fetched = _retrieved(coordinates, Path(folder))
                with fetched.open("rb") as file:
                    found = file_digest(file, "sha256").hexdigest()
                if found != DIGESTS.get(coordinates):
                    raise MissingJar(f'{coordinates} is another file than in DIGESTS of tests/support/maven.py: "{coordinates}": "{found}"')
                fetched.rename(place)
    return place


def _retrieved(coordinates: str, folder: Path) -> Path:
    """The jar in a temporary folder, by PySpark's Ivy, without its dependencies."""
    import pyspark

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    dependency = ["-dependency", *coordinates.split(":"), "-confs", "default", "-notransitive"]
    places = ["-cache", str(folder / "ivy"), "-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    ended = subprocess.run(
        ["java", "-jar", str(ivy), *places, *dependency], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    fetched = folder / path_of(coordinates).name
    if ended.returncode or not fetched.exists():
        raise MissingJar(f"{coordinates} is missing; it comes by: {FETCH} {coordinates}\n{ended.stdout[-2000:]}")
    return fetched


if __name__ == "__main__":
    for each in sys.argv[1:] or DIGESTS.keys() - OF_SOAKS:
        try:
            sys.stdout.write(f"{fetch(each)}\n")
        except MissingJar as error:
            sys.exit(str(error))
