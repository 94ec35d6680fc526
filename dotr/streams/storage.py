"""Section `storage` of a configuration: where stores are, and as whom they are used."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from importlib.util import find_spec
from typing import Any, Final

from pydantic import Field, field_validator

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.evaluation.files.interface import HDFS, OBJECTS, SCHEMES, StorageSettings
from dotr.evaluation.files.stores import Location
from dotr.model.places import Span
from dotr.streams.times import parse_delay
from dotr.syntax.secrets import Secret
from dotr.syntax.sections import Section
from dotr.syntax.yaml import KeyPath, Tree

_PATHS: Final = frozenset(
    ("path", "rules", "graphs", "datalog", "imports", "contexts", "context", "map", "record", "dead_letter", "checkpoint", "cache")
)
"""The keys of files, or of lists or mappings of files."""


class S3Section(Section):
    """S3, and stores that speak its protocol."""

    endpoint_override: str | None = Field(default=None, pattern="^https?://", description="the address of the store; that of AWS if none")
    region: str | None = Field(default=None, description="the region of the buckets; AWS_REGION if none")
    access_key_id: str | None = Field(default=None, description="the name of a key; the environment, or the role of the machine, if none")
    secret_access_key: Secret | None = Field(default=None, description="its secret, as ${NAME}")
    session_token: Secret | None = Field(default=None, description="the token of a temporary key, as ${NAME}")
    anonymous: bool = Field(default=False, description="use public buckets without a key")


class GsSection(Section):
    """Google Cloud Storage."""

    endpoint_override: str | None = Field(default=None, pattern="^https?://", description="the address of the store; Google's if none")
    service_account: str | None = Field(default=None, description="the file of a service account, on each machine")
    service_account_key: Secret | None = Field(default=None, description="the content of that file, as ${NAME}")
    anonymous: bool = Field(default=False, description="use public buckets without an account")


class AbfssSection(Section):
    """Azure Data Lake and Blob Storage."""

    endpoint_override: str | None = Field(default=None, pattern="^https?://", description="the address of the store; Azure's if none")
    account_key: Secret | None = Field(default=None, description="the key of the storage account, as ${NAME}")
    sas_token: Secret | None = Field(default=None, description="a shared access signature, as ${NAME}")
    tenant_id: str | None = Field(default=None, description="the tenant of a service principal")
    client_id: str | None = Field(default=None, description="the name of a service principal")
    client_secret: Secret | None = Field(default=None, description="its secret, as ${NAME}")
    anonymous: bool = Field(default=False, description="use public containers without an account")


class HdfsSection(Section):
    """HDFS."""

    webhdfs: str | list[str] | None = Field(
        default=None,
        description="the address of WebHDFS at the name node, or a list where one stands by; by HADOOP_CONF_DIR, or at port 9870, if none",
    )
    user: str | None = Field(default=None, description="the user; HADOOP_USER_NAME, or that of the process, if none")
    token: Secret | None = Field(default=None, description="a delegation token, as ${NAME}, for an HDFS with Kerberos")


class StorageSection(Section):
    """Stores of files that are named by URLs."""

    s3: S3Section | None = Field(default=None, description="s3:// and s3a://")
    gs: GsSection | None = Field(default=None, description="gs://")
    abfss: AbfssSection | None = Field(default=None, description="abfss://")
    hdfs: HdfsSection | None = Field(default=None, description="hdfs://")
    retry: str | int = Field(
        default="30 s", description="the time for which a request is repeated while a store fails or is silent; an integer is in seconds"
    )

    @field_validator("retry")
    @classmethod
    def _check_retry(cls, value: str | int) -> str | int:
        parse_delay(value)
        return value


def store_settings(section: StorageSection | None) -> StorageSettings:
    """The settings that are given, for `configure_storage`; secrets are `${NAME}`.

    >>> store_settings(StorageSection.model_validate({"s3": {"region": "eu-west-1", "anonymous": True}, "retry": "1 min"}))
    {'s3': {'region': 'eu-west-1', 'anonymous': 'true'}, 'retry': {'seconds': '60.0'}}
    """
    if section is None:
        return {}
    given = section.model_dump(exclude_defaults=True, exclude_none=True)
    found = {name: {key: _text(value) for key, value in own.items()} for name, own in given.items() if name != "retry" and own}
    return {**found, **({"retry": {"seconds": str(parse_delay(section.retry) / 1e6)}} if section.is_given("retry") else {})}


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def urls_of(tree: Tree) -> Iterator[tuple[Location, Span]]:
    """The URLs that a configuration names, each with its place, but for those that Spark alone reads."""
    for place in tree.locations:
        value = reduce(_value, place, tree.data)
        if isinstance(value, str) and _names_file(place) and (found := Location.of(value)).is_url:
            yield found, tree.span(place)


def _value(data: Any, key: str | int) -> Any:
    return data[key]


def _names_file(place: KeyPath) -> bool:
    keys = [key for key in place if isinstance(key, str)]
    return "spark" not in keys[1:] and "conf" not in keys and bool(_PATHS & set(keys[-2:]))


def storage_problems(tree: Tree) -> Iterator[Diagnostic]:
    """Problems of URLs that can be told without a request: no store has the scheme (C203), a package
    is missing (C226), or a key is in the URL (C225)."""
    for location, place in urls_of(tree):
        scheme = location.scheme
        if scheme not in SCHEMES:
            hint = did_you_mean(scheme, SCHEMES) or f"There are {', '.join(SCHEMES)}."
            yield Diagnostic("C203", f"no store has the scheme {scheme}://", place, hint)
        elif scheme in OBJECTS and re.search(":[^@]*@", location.authority):
            yield Diagnostic(
                "C225", "a secret is written into the configuration", place, "Write the key as storage.s3, its secret as ${NAME}."
            )
        elif scheme in OBJECTS and find_spec("obstore") is None:
            message = f"{scheme}:// needs the Python package obstore, which is not installed"
            yield Diagnostic("C226", message, place, "pip install 'dotr[objects]'")
        elif not location.authority and scheme != HDFS:
            yield Diagnostic("C203", f"{location} names no bucket", place, f"Write {scheme}://BUCKET/…")


_HINTS: Final = {
    errno.ENODEV: "Correct the name, or make it first: a run makes none.",
    errno.EACCES: "Correct the credentials of the environment, or those of `storage`.",
    errno.EHOSTUNREACH: "Is the address right, and does the store run? `storage` has the addresses.",
    errno.ETIMEDOUT: "Is the address right, and does the store run? `storage` has the addresses.",
}


def check_stores(tree: Tree) -> None:
    """Ask each bucket, or HDFS, that a configuration names whether it is there; raises `Refused` (S180)
    with the first URL of each that is not."""
    problems: list[Diagnostic] = []
    asked = set[tuple[str, str]]()
    for location, place in urls_of(tree):
        if (location.scheme, location.authority) in asked:
            continue
        asked.add((location.scheme, location.authority))
        try:
            location.check()
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "Correct `storage`, or the environment, where they say how the store is used.")
            message = f"the store of {location} cannot be used: {error.strerror or error}"
            problems.append(Diagnostic("S180", message, place, hint))
    if problems:
        raise Refused(problems)


def hadoop_settings_of(section: StorageSection | None, tree: Tree) -> Mapping[str, str]:
    """The settings with which Spark's own access to stores is that of `storage`, as `spark.hadoop.…`.

    A secret is `${env.NAME}`, which Hadoop reads from the environment of each process of Java.

    >>> from dotr.model.places import Document
    >>> from dotr.syntax.yaml import read_tree
    >>> section = StorageSection.model_validate({"s3": {"region": "eu-west-1", "secret_access_key": "${S3_SECRET}"}})
    >>> for each in hadoop_settings_of(section, read_tree(Document("a.yaml", "spark: { checkpoint: 's3a://lake/c' }"))).items():
    ...     print(*each)
    spark.hadoop.fs.s3a.endpoint.region eu-west-1
    spark.hadoop.fs.s3a.secret.key ${env.S3_SECRET}
    """
    settings = store_settings(section)
    found: dict[str, str] = {}
    for store, names in _HADOOP.items():
        for key, value in settings.get(store, {}).items():
            found |= {each: own.replace("*", value) for each, own in names.get(key, {}).items()}
    if any(location.scheme == "s3" for location, _ in urls_of(tree)):
        found["fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    return {f"spark.hadoop.{key}": value.replace("${", "${env.") for key, value in found.items()}


_PROVIDER: Final = "fs.s3a.aws.credentials.provider"
_ABFS: Final = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_HADOOP: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "s3": {
        "endpoint_override": {"fs.s3a.endpoint": "*", "fs.s3a.path.style.access": "true"},
        "region": {"fs.s3a.endpoint.region": "*"},
        "access_key_id": {"fs.s3a.access.key": "*"},
        "secret_access_key": {"fs.s3a.secret.key": "*"},
        "session_token": {"fs.s3a.session.token": "*", _PROVIDER: "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"},
        "anonymous": {_PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
    },
    "gs": {
        "endpoint_override": {"fs.gs.storage.root.url": "*"},
        "service_account": {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": "*"},
        "anonymous": {"fs.gs.auth.type": "UNAUTHENTICATED"},
    },
    "abfss": {
        "account_key": {"fs.azure.account.key": "*"},
        "sas_token": {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "*"},
        "tenant_id": {"fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/*/oauth2/token"},
        "client_id": {"fs.azure.account.oauth2.client.id": "*"},
        "client_secret": {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": _ABFS,
            "fs.azure.account.oauth2.client.secret": "*",
        },
    },
}
"""Settings of Hadoop for those of `storage`; `*` stands for the value."""
