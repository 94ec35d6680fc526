"""Credentials and addresses of the platform: the environment, the files of `aws configure`, Hadoop's configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotr.evaluation.files.environment import hadoop_settings
from dotr.evaluation.files.stores import Location, configure_storage
from tests.support.object_server import REGION, S3

SITE = "<configuration>{}</configuration>"
PROPERTY = "<property><name>{}</name><value>{}</value></property>"


@pytest.fixture(autouse=True)
def _no_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    hadoop_settings.cache_clear()
    configure_storage({"retry": {"seconds": "1"}})
    yield
    hadoop_settings.cache_clear()
    configure_storage({})


def secret_of(settings: dict[str, str]) -> str:
    return os.environ[settings["secret_access_key"].strip("${}")]


def works(s3: S3, bucket: str) -> bool:
    """True if an object can be put by a user whom the server checks."""
    with s3.checking():
        try:
            return bool((Location(f"s3://{bucket}") / "a").put(b"1"))
        except PermissionError:
            return False


def test_environment_is_used(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, user = s3.bucket(), dict(s3.user("s3:*"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", user["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret_of(user))
    assert works(s3, bucket)


@pytest.mark.parametrize("profile", ["default", "fires"])
def test_file_of_aws_configure_is_used(s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str) -> None:
    bucket, user = s3.bucket(), dict(s3.user("s3:*"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    if profile != "default":
        monkeypatch.setenv("AWS_PROFILE", profile)
    own = f"[{profile}]\naws_access_key_id = {user['access_key_id']}\naws_secret_access_key = {secret_of(user)}\n"
    (tmp_path / "credentials").write_text(f"{own}[other]\naws_access_key_id=x\n")
    assert works(s3, bucket)


def test_configuration_of_hadoop_is_used(s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bucket, user = s3.bucket(), dict(s3.user("s3:*"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    own = {"fs.s3a.endpoint": s3.endpoint, "fs.s3a.access.key": user["access_key_id"], "fs.s3a.secret.key": secret_of(user)}
    (tmp_path / "core-site.xml").write_text(SITE.format("".join(PROPERTY.format(*each) for each in own.items())))
    assert works(s3, bucket)


def test_section_comes_first(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, user = s3.bucket(), s3.user("s3:*")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    configure_storage(s3.settings(**user))
    assert works(s3, bucket)


def test_anonymous_access_needs_no_key(s3: S3) -> None:
    bucket = s3.bucket()
    configure_storage({"s3": {"endpoint_override": s3.endpoint, "anonymous": "true"}})
    s3.client.put_object(Bucket=bucket, Key="a", Body=b"1", ACL="public-read")
    assert (Location(f"s3://{bucket}") / "a").read() == b"1"
