"""The job as spark-submit runs it: its arguments, what is shipped, its progress, and what needs no Spark."""

import json
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kafkaform
import spark_validation
from spark_validation import submit
from spark_validation.configuration import zip_package
from spark_validation.errors import JobFailed, ReadingFailed, SkewError
from spark_validation.job import (
    COUNTING,
    READING,
    TopicRequest,
    _ProgressWatcher,
    retention_notes,
    run_topics,
)
from spark_validation.options import JobSettings
from spark_validation.results import SkewLimits, TopicResult
from spark_validation.submit import _judge, client_properties, parse_arguments, run
from spark_validation.windows import Span, plan_windows
from tests.support.skew import samples

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a"], "--out"),
        (["--out", "a"], "give a TOPIC, or a topic with a --policy"),
        (["--out", "a", "--policy", "maxKeyShare=1"], "is not TOPIC:LIMIT=N"),
        (["--out", "a", "--policy", "a:maxShare=1"], "unknown 'maxShare'; use maxPartitionRatio, "),
        (["--out", "a", "--policy", "a:by=bytes"], "it sets none of"),
        (["--out", "a", "--policy", "a:maxKeyShare=2"], "maxKeyShare cannot be 2"),
        (["--out", "a", "--policy", "a:maxKeyShare=0"], "maxKeyShare cannot be 0"),
        (["--out", "a", "--policy", "a:maxPartitionRatio=nan"], "maxPartitionRatio cannot be nan"),
        (["--out", "a", "--policy", "a:maxPartitionRatio=0.5"], "maxPartitionRatio cannot be 0.5"),
        (["--out", "a", "--policy", "a:minDistinctKeys=1.5"], "minDistinctKeys must be a number, not '1.5'"),
        (["--out", "a", "--policy", "a:maxKeyShare=0.5,by=size"], "by must be records or bytes, not 'size'"),
        (["--out", "a", "--policies", "/none.json"], "cannot read /none.json: No such file"),
        (["--out", "a", "--policies", __file__], "is not JSON"),
        (["a", "--out", "b", "--history-format", "csv"], "invalid choice"),
        (["a", "--out", "b", "--records", "0"], "--records: 0 is not between 1 and "),
        (["a", "--out", "b", "--what-if", "12,0"], "--what-if: 0 is not between 1 and 100000"),
        (["a", "--out", "b", "--precision", "5"], "--precision: '5' is not between 0 and 1"),
        (["a", "--out", "b", "--records", "all", "--precision", "0.1"], "--records all is exact"),
        (["a", "--out", "b", "--since", "24"], "--since: '24' has no unit; write e.g. 24h"),
        (["a", "--out", "b", "--history-format", "delta"], "--history-format needs --history"),
    ],
)
def test_wrong_usage_exits_64(words: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        run(words)
    assert raised.value.code == 64
    assert told in capsys.readouterr().err


def test_policies_are_read_from_options_and_file(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    file.write_text('{"a": {"maxPartitionRatio": 2, "by": "bytes"}, "b": {"minDistinctKeys": 10}}')
    given = parse_arguments(["--out", "x", "--policies", str(file), "--policy", "b:maxKeyShare=0.05"])
    assert given.topics == []
    assert given.policy_file == {
        "a": SkewLimits(max_partition_ratio=2.0, by="bytes"),
        "b": SkewLimits(min_distinct_keys=10),
    }
    assert given.policies == [("b", SkewLimits(max_key_share=0.05))]


@pytest.mark.parametrize("policy", [[], {"a": 1}, {"a": {"maxKeyShare": True}}, {"a": {"maxKeyShare": None}}])
def test_bad_policy_file_is_refused(
    tmp_path: Path, policy: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policies.json"
    file.write_text(json.dumps(policy))
    with pytest.raises(SystemExit) as raised:
        run(["--out", "x", "--policies", str(file)])
    assert raised.value.code == 64
    assert "error: --policies: " in capsys.readouterr().err


def test_results_are_judged_and_failures_reported(capsys: pytest.CaptureFixture[str]) -> None:
    good, hot = samples.build_balanced("good"), samples.hot()
    strict = SkewLimits(max_partition_ratio=1.5)
    refused = ReadingFailed("this account may not read topic closed", hint="grant it READ")
    outcome: dict[str, TopicResult | SkewError] = {
        "good": good,
        "closed": refused,
        "payments.v1": hot,
        "free": samples.hot(),
    }
    results, failed = _judge(outcome, {"good": strict, "payments.v1": strict, "closed": strict})
    assert failed
    assert [(result.policy and result.policy.status) for result in results] == [None, "pass", "fail"]
    refusal, broken = capsys.readouterr().err.splitlines()
    assert refusal == "not read: this account may not read topic closed (grant it READ)"
    assert broken.startswith("fail: payments.v1: partition ")
    assert results[2].policy is not None
    assert broken == f"fail: {results[2].policy.reasons[0]}"
    assert _judge({"good": good}, {}) == ((good,), False)


def test_missing_results_raise_error() -> None:
    refused = ReadingFailed("no")
    with pytest.raises(ReadingFailed, match="no"):
        _judge({"a": refused}, {})
    with pytest.raises(JobFailed, match="no topic could be analysed"):
        _judge({"a": refused, "b": refused}, {})


def test_package_versions_are_equal() -> None:
    assert spark_validation.__version__ == kafkaform.__version__


def test_zipped_package_is_complete_and_importable(tmp_path: Path) -> None:
    archive = zip_package(tmp_path)
    with zipfile.ZipFile(archive) as found:
        names = set(found.namelist())
    sources = (ROOT / "spark_validation").rglob("*.py")
    assert names == {path.relative_to(ROOT).as_posix() for path in sources}
    code = "import spark_validation.counting as c; print(c.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))


def properties_of(folder: Path, text: str, *words: str) -> dict[str, str]:
    (folder / "client.properties").write_text(text)
    given = ["a", "--out", "b", "--command-config", str(folder / "client.properties"), *words]
    return client_properties(parse_arguments(given))


def test_command_config_has_librdkafkas_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "# of the platform team\n! and another\n\n bootstrap.servers = a:1\nsasl.password=p=a${b}\\c\n"
        "ssl.ca.pem=-----BEGIN-----\\nMII\nisolation.level=read_uncommitted\ngroup.id=mine\n"
    )
    found = {"bootstrap.servers": "a:1", "sasl.password": "p=a${b}\\c", "ssl.ca.pem": "-----BEGIN-----\nMII"}
    assert properties_of(tmp_path, text) == found
    notes = capsys.readouterr().err.splitlines()
    assert [note.split()[1] for note in notes] == ["group.id", "isolation.level"]
    assert properties_of(tmp_path, text, "--bootstrap-server", "b:2")["bootstrap.servers"] == "b:2"


@pytest.mark.parametrize(
    ("line", "said", "instead"),
    [
        (
            "sasl.jaas.config=x required password=s3cret;",
            "sasl.jaas.config is a property of",
            "sasl.username",
        ),
        ("ssl.truststore.location=/trust.jks", "ssl.truststore.location is a property of", "ssl.ca.location"),
        ("ssl.keystore.type=JKS", "ssl.keystore.type is a property of", "PKCS#12"),
        ("ssl.keystore.location=STORE", "is a JKS store", "keytool -importkeystore"),
        ("s3cret", "line 2: not NAME=VALUE", "on one line"),
    ],
)
def test_java_property_suggests_librdkafka_property(
    tmp_path: Path, line: str, said: str, instead: str
) -> None:
    store = tmp_path / "key.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(JobFailed, match=said) as raised:
        properties_of(tmp_path, f"bootstrap.servers=a:1\n{line.replace('STORE', str(store))}\n")
    assert "s3cret" not in raised.value.message
    assert instead in str(raised.value.hint)


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ([(0, 100, 1_100), (1, 0, 0)], [(0, 100, 1_100), (1, 0, 0)], ()),
        (
            [(0, 100, 1_100), (1, 0, 500)],
            [(0, 400, 1_100), (1, 0, 500)],
            ("of 1,500 offsets", "up to 300 were removed", "(partition 0)"),
        ),
        (
            [(n, 0, 10) for n in range(8)],
            [],
            ("up to 80 were removed", "(partitions 0, 1, 2, 3, 4 and 3 more)"),
        ),
    ],
    ids=["nothing", "a part", "partitions that are gone"],
)
def test_offsets_removed_by_retention_are_noted(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]], parts: tuple[str, ...]
) -> None:
    plan = plan_windows([Span(*span) for span in before], records=1_500, seed=1)
    notes = retention_notes(plan, [Span(*span) for span in after])
    assert len(notes) == bool(parts)
    assert all(part in notes[0] for part in parts)


def test_topics_without_records_need_no_job() -> None:
    """In a job of their own, with no session to run it."""
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(get=lambda _: "local[2]"), sparkContext=SimpleNamespace(defaultParallelism=2)
    )
    requests = [TopicRequest(name, [Span(0, 5, 5), Span(1, 0, 0)], SkewLimits()) for name in ("a", "b")]
    for settings in (JobSettings(), JobSettings(full=True)):
        found = run_topics(session, requests, {}, settings)
        assert list(found) == ["a", "b"]
        for result in found.values():
            assert isinstance(result, TopicResult)
            assert result.diagnosis == "empty"
            assert result.sample.records == 0
            assert [partition.log_records for partition in result.partitions] == [0, 0]


def test_no_secret_is_sent_to_a_connect_server() -> None:
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    kafka = {"bootstrap.servers": "a:1", "sasl.password": "s3cret"}
    request = TopicRequest("t", [Span(0, 0, 5)], SkewLimits())
    error = run_topics(session, [request], kafka, JobSettings())["t"]
    assert isinstance(error, ReadingFailed)
    assert "event log, where sasl.password could be read" in error.message
    assert "s3cret" not in error.message
    assert "--master" in str(error.hint)


def test_pandas_warning_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark 4.3 warns of pandas 3 as its session starts."""

    @contextmanager
    def session() -> Iterator[None]:
        warnings.warn("PySpark does not yet fully support pandas >= 3", FutureWarning, stacklevel=1)
        warnings.warn("another warning", FutureWarning, stacklevel=1)
        yield None

    monkeypatch.setattr(submit, "_session", session)
    monkeypatch.setattr(submit, "write_report", lambda *_: 0)
    with pytest.warns(FutureWarning) as warned:
        assert submit.run(["a", "--out", "a.json"]) == 0
    assert [str(item.message) for item in warned] == ["another warning"]


def track_job(*stages: tuple[int, int] | None) -> Any:
    """A job of stages, each with its finished and all of its tasks; None for one that is not known yet."""
    found = [stage and SimpleNamespace(numCompletedTasks=stage[0], numTasks=stage[1]) for stage in stages]
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [7] if stages else [],
        getJobInfo={7: SimpleNamespace(stageIds=[*reversed(range(len(stages)))])}.get,
        getStageInfo=found.__getitem__,
    )
    return SimpleNamespace(statusTracker=lambda: tracker)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ((), None),
        ((None,), None),
        (((3, 120), (0, 4)), (3, 120, READING)),
        (((120, 120), None), (120, 120, READING)),
        (((120, 120), (0, 4)), (0, 4, COUNTING)),
        (((120, 120), (3, 4)), (3, 4, COUNTING)),
        (((12, 12), (4, 4), (1, 8)), (5, 12, COUNTING)),
    ],
)
def test_progress_phase_follows_spark_stage(
    stages: tuple[tuple[int, int] | None, ...], said: tuple[int, int, str] | None
) -> None:
    watch = _ProgressWatcher(track_job(*stages), lambda *_: None)
    assert watch._progress() == said
