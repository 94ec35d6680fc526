"""Section `storage`, and the URLs of a configuration: what is told at the start, with its place and a way out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from dotr.commands import main
from dotr.engine.state.schema import knowledge_digests
from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.stores import Location, configure_storage
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.sections import Settings
from dotr.streams.storage import check_stores, hadoop_settings_of, store_settings, urls_of
from dotr.syntax.yaml import read_tree
from tests.conftest import RULE
from tests.support.hadoop import Hadoop
from tests.support.object_server import ACCESS_VARIABLE, S3, SECRET, SECRET_VARIABLE

CONFIG: Final = """\
name: lake
rules: [r.dotr]
input: [{ name: a, format: ndjson, path: "%s" }]
output: [{ path: out.ndjson }]
"""


@pytest.fixture(autouse=True)
def _own_settings() -> object:
    yield
    configure_storage({})


def refused(folder: Path, text: str) -> str:
    """The message of a configuration that is refused, without the folder."""
    path = folder / "lake.yaml"
    path.write_text(text)
    with pytest.raises(Refused) as error:
        check_stores(read_config(str(path)).files.tree)
    return str(error.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://lake/in", "C203 no store has the scheme s4://\n"),
        ("http://lake/in", "C203 no store has the scheme http://\n"),
        ("s3://", "C203 s3:// names no bucket\n"),
        ("s3a://KEY:abc@lake/in", "C225 a secret is written into the configuration\n"),
        ("s3a://KEY:${HOME}@lake/in", "C225 a secret is written into the configuration\n"),
    ],
)
def test_url_without_a_store_is_refused_at_its_place(tmp_path: Path, url: str, message: str) -> None:
    shown = refused(tmp_path, CONFIG % url)
    assert "lake.yaml:3:" in shown
    assert message in shown
    assert "abc" not in shown


def test_unknown_scheme_has_a_way_out(tmp_path: Path) -> None:
    assert "Did you mean abfss?" in refused(tmp_path, CONFIG % "abfsss://lake/in")
    assert "There are s3, s3a, gs, abfss, abfs, hdfs, file." in refused(tmp_path, CONFIG % "ftp://lake/in")


def test_missing_package_is_told_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotr.streams.storage.find_spec", lambda name: None)
    shown = refused(tmp_path, CONFIG % "s3://lake/in")
    assert "C226 s3:// needs the Python package obstore, which is not installed\n" in shown
    assert "pip install 'dotr[objects]'" in shown
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(OSError, match=r"needs the package obstore: pip install 'dotr\[objects\]'"):
        Location("s3://lake/in").read()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("s3: { regoin: a }", "C201"),
        ("s3: { endpoint_override: localhost }", "C203"),
        ("s3: { secret_access_key: abc }", "C225"),
        ("s3: { access_key_id: 7 }", "C203"),
        ("abfss: { account_key: abc }", "C225"),
        ("abfss: { sas_token: abc }", "C225"),
        ("gs: { service_account_key: abc }", "C225"),
        ("hdfs: { token: abc }", "C225"),
        ("retry: soon", "C203"),
        ("ftp: {}", "C201"),
    ],
)
def test_mistake_in_the_section_is_told(tmp_path: Path, section: str, message: str) -> None:
    shown = refused(tmp_path, f"{CONFIG % 'a.ndjson'}storage: {{ {section} }}\n")
    assert "lake.yaml:5:" in shown
    assert message in shown
    assert "abc" not in shown


def test_secrets_stay_names_of_variables() -> None:
    text = (
        f"{CONFIG % 'a'}storage: {{ retry: 2 min, s3: {{ secret_access_key: '${{{SECRET_VARIABLE}}}' }}, hdfs: {{ webhdfs: [a, b] }} }}\n"
    )
    settings = store_settings(Settings.model_validate(read_tree(Document("a.yaml", text)).data).storage)
    assert settings == {"s3": {"secret_access_key": f"${{{SECRET_VARIABLE}}}"}, "hdfs": {"webhdfs": "a,b"}, "retry": {"seconds": "120.0"}}
    assert SECRET not in repr(settings)


def test_urls_are_found_wherever_files_are_named() -> None:
    text = """\
rules: [s3://a/r.dotr, local.dotr]
knowledge:
  graphs: [s3://b/g.ttl, { path: s3://c/h.ttl }]
  datalog: [s3://d/d.dlog]
  tables: [{ path: s3://e/t.csv, map: s3://f/m.ttl }]
  imports: { http://example.org/o: s3://g/o.ttl }
  contexts: { http://example.org/c: s3://h/c.json }
input:
  - { path: s3://i/in/*.ndjson, context: s3://j/c.json, map: "[] a <http://e/X> ." }
  - { http: { url: https://e/x } }
  - { spark: { path: s3://no/t } }
output: [{ path: s3://k/out }, { kafka: { path: s3://l/x } }]
dead_letter: s3://m/dead
record: s3://n/r
prefixes: { "": "http://e/" }
spark: { checkpoint: hdfs://o/c, conf: { path: s3://no/x } }
"""
    found = [location.authority for location, _ in urls_of(read_tree(Document("a.yaml", text)))]
    assert found == list("abcdefghijklmno")


def test_spark_gets_what_the_user_has_not_set() -> None:
    text = f"""{CONFIG % "s3://lake/in"}
storage:
  s3: {{ endpoint_override: "http://127.0.0.1:9000", region: eu-west-1, access_key_id: A, secret_access_key: "${{S3_SECRET}}" }}
  abfss: {{ tenant_id: t, client_id: c, client_secret: "${{AZURE_SECRET}}" }}
"""
    tree = read_tree(Document("a.yaml", text))
    found = hadoop_settings_of(Settings.model_validate(tree.data).storage, tree)
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert found["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert found["spark.hadoop.fs.s3a.secret.key"] == "${env.S3_SECRET}"
    assert found["spark.hadoop.fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert found["spark.hadoop.fs.azure.account.oauth2.client.endpoint"] == "https://login.microsoftonline.com/t/oauth2/token"


def test_missing_bucket_is_told(tmp_path: Path, s3: S3) -> None:
    shown = refused(tmp_path, CONFIG % "s3a://nowhere/in/*.ndjson" + s3.yaml)
    assert "lake.yaml:3:42: S180 the store of s3a://nowhere/in/*.ndjson cannot be used: there is no bucket nowhere\n" in shown
    assert "Correct the name, or make it first" in shown


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"access_key_id": "AKIAWRONG"}, "403 InvalidAccessKeyId"),
        ({"secret_access_key": f"${{{ACCESS_VARIABLE}}}"}, "403 SignatureDoesNotMatch"),
    ],
)
def test_wrong_credentials_are_told_without_them(tmp_path: Path, s3: S3, wrong: dict[str, str], answer: str) -> None:
    bucket, user = s3.bucket(), s3.user("s3:*")
    own = ", ".join(f'{key}: "{value}"' for key, value in {**s3.settings()["s3"], **user, **wrong}.items())
    with s3.checking():
        shown = refused(tmp_path, f"{CONFIG % f's3a://{bucket}/in'}storage: {{ s3: {{ {own} }} }}\n")
    assert f"S180 the store of s3a://{bucket}/in cannot be used: the store refuses it ({answer})\n" in shown
    assert "Correct the credentials" in shown


def test_user_without_rights_is_told_where_a_file_is_used(s3: S3) -> None:
    bucket, user = s3.bucket(), s3.user("s3:ListBucket")
    configure_storage(s3.settings(**user))
    file = Location(f"s3://{bucket}/a")
    with s3.checking():
        file.check()
        for act in (file.read, file.look, lambda: file.put(b"1"), lambda: file.put_new(b"1"), lambda: file.put_unchanged(b"1", '"x"')):
            with pytest.raises(PermissionError) as error:
                act()
            assert error.value.filename == str(file)
            assert "the store refuses it (403" in str(error.value)


def test_silent_store_is_told_after_the_time_of_its_retries(tmp_path: Path) -> None:
    own = 'storage: { retry: 1 s, s3: { endpoint_override: "http://127.0.0.1:9", access_key_id: A, secret_access_key: "${HOME}" } }\n'
    shown = refused(tmp_path, CONFIG % "s3://lake/in" + own)
    assert "S180 the store of s3://lake/in cannot be used: the store cannot be reached\n" in shown
    assert "Is the address right, and does the store run?" in shown
    shown = refused(tmp_path, CONFIG % "hdfs://lake/in" + 'storage: { retry: 1 s, hdfs: { webhdfs: "http://127.0.0.1:9" } }\n')
    assert "S180 the store of hdfs://lake/in cannot be used: HDFS cannot be reached\n" in shown


def test_missing_secret_is_told_by_its_name(tmp_path: Path, s3: S3) -> None:
    own = s3.yaml.replace(SECRET_VARIABLE, "DOTR_UNSET_SECRET")
    assert "S124 the environment of this process has no variable DOTR_UNSET_SECRET" in refused(tmp_path, CONFIG % "s3://lake/in" + own)


@pytest.mark.hadoop
def test_hdfs_refuses_a_user_by_its_name(hdfs: Hadoop) -> None:
    configure_storage({"hdfs": {"webhdfs": f"http://127.0.0.1:9,{hdfs.webhdfs}", "user": "eve"}, "retry": {"seconds": "1"}})
    file = Location(f"{hdfs.url}/forbidden/a")
    file.check()
    with pytest.raises(PermissionError, match="HDFS refuses it to the user eve") as error:
        file.put(b"1")
    assert error.value.filename is not None


def test_stores_are_used_as_a_job_says() -> None:
    from dotr.evaluation.files import stores
    from dotr.runtimes.spark.exchange.job import Job

    settings = {"s3": {"region": "eu-west-1", "secret_access_key": "${S3_SECRET}"}}
    job = Job("{}", (), (), "SECOND", False, 1, 2, 2, 1000, 2, "x", storage=json.dumps(settings))
    assert Job.from_json(job.to_json()) == job
    assert stores._settings == settings


def test_knowledge_at_a_url_has_the_digest_of_its_content(tmp_path: Path, s3: S3) -> None:
    """A start with a checkpoint tells by it whether the background has changed."""
    bucket, graph = s3.bucket(), b"<http://e/a> a <http://e/A> .\n"
    configure_storage(s3.settings())
    (Location(f"s3://{bucket}") / "k.ttl").put(graph)
    (tmp_path / "k.ttl").write_bytes(graph)
    (tmp_path / "r.dotr").write_text(RULE)
    digests = []
    for folder in (f"s3://{bucket}/", ""):
        (tmp_path / "lake.yaml").write_text(f"{CONFIG % 'a.ndjson'}knowledge: {{ graphs: ['{folder}k.ttl'] }}\n{s3.yaml}")
        program = compile_program(read_config(str(tmp_path / "lake.yaml")).program())
        digests.append(knowledge_digests(program))
    assert digests[0].meaning == digests[1].meaning


def test_run_is_recorded_at_a_url_and_repeated_from_there(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bucket = s3.bucket()
    Path("r.dotr").write_text(RULE)
    Path("a.ndjson").write_text('{"time": 1, "graph": "<http://e/a> a <http://e/A> ."}\n')
    Path("lake.yaml").write_text(f"{CONFIG % 'a.ndjson'}record: s3://{bucket}/a.recording\nengine: local\n{s3.yaml}")
    assert main(["run", "lake.yaml"]) == 0
    written = Path("out.ndjson").read_bytes()
    assert main(["run", "lake.yaml", "--recording", f"s3://{bucket}/a.recording", "--set", "output.0.path=again.ndjson"]) == 0
    assert Path("again.ndjson").read_bytes() == written != b""
