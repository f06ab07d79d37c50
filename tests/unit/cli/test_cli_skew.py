"""`kafkaform skew`: what a person, a CI job and a cron job are told before Spark or a cluster is asked."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafkaform.cli.skew import skew
from kafkaform.cli.skew_options import GivenOptions, SkewOptions, resolve_options
from kafkaform.cluster.transport import connection
from spark_validation.options import JobSettings, build_job
from spark_validation.submit import parse_arguments
from tests.support.cli.project import ROOT, Call, Project, environment, run_in_process

NOBODY = ("--bootstrap-server", "127.0.0.1:1")


# --- options ---------------------------------------------------------------------------------------

WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "full precision": (("a", "--records", "all", "--precision", "0.01"), "--records all is exact"),
    "two sparks": (("a", "--master", "yarn", "--remote", "sc://x"), "--master and --remote"),
    "glob of files": (("a*", "--from", "x.json"), "--from needs the full name of a topic"),
    "part of files": (("--from", "x.json", "--records", "5"), "--from reads whole files"),
    "files since": (("--from", "x.json", "--since", "1h"), "--from reads whole files"),
    "all of files": (("--from", "x.json", "--records", "all"), "--from reads whole files"),
    "partitions of a cluster": (("a", "--partitions", "5"), "--partitions needs --from"),
    "no record": (("a", "--records", "0"), "--records"),
    "no precision": (("a", "--precision", "1"), "--precision"),
    "no number": (("a", "--what-if", "12,many"), "--what-if: 'many' is not a partition count"),
    "nothing": (("a", "--what-if", "12,,3"), "--what-if: '' is not a partition count"),
    "no partition": (("a", "--what-if", "0"), "--what-if: 0 is not between 1 and 100000"),
    "negative": (("a", "--what-if=-3"), "--what-if: '-3' is not a partition count"),
    "long": (("a", "--what-if", "9" * 5000), "is not a partition count"),
    "no unit": (("a", "--since", "24"), "--since: '24' has no unit"),
    "no time": (("a", "--since", "yesterday"), "--since: 'yesterday' is not a time"),
    "no zone": (("a", "--since", "2026-11-01T00:00:00"), "has no time zone"),
    "all": (("a", "--since", "earliest"), "--since: 'earliest' is not a time"),
    "future": (("a", "--since", "9000-01-01T00:00:00Z"), "is in the future"),
    "watching files": (("--from", "x.json", "--watch", "10m"), "--from reads whole files"),
    "watching the past": (("a", "--watch", "10m", "--since", "1h"), "--watch reads new records"),
    "all files": (("--from", "x.json", "--all"), "--from reads the topics of the files"),
    "no duration": (("a", "--watch", "soon"), "--watch: 'soon'"),
    "no time to watch": (("a", "--watch", "10ms"), "--watch: '10ms' is not between 1s and 24h"),
    "no setting": (("a", "--spark-conf", "spark.executor.memory"), "--spark-conf 'spark.executor.memory'"),
    "not Spark's": (("a", "--spark-conf", "password=hunter2"), "--spark-conf 'password': not NAME=VALUE"),
    "one file twice": (("a", "--out", "x.md", "--out", "./x.md"), "cannot be written to the same file"),
    "no ending": (("a", "--out", "report"), "--out 'report' does not show its format"),
    "another ending": (("a", "--out", "a.json", "--out", "a.pdf"), "--out 'a.pdf' does not show its format"),
    "a format of nothing": (("a", "--out", "a.md", "--format", "json"), "--format json is for stdout"),
    "an odd number": (("a", "--records", "1e6"), "--records: '1e6' is not a number"),
    "no format": (("a", "--format", "pdf"), "--format"),
    "no table": (("a", "--history", "x", "--history-format", "csv"), "--history-format"),
    "a format alone": (("a", "--history-format", "delta"), "--history-format needs --history"),
    "reports elsewhere": (("a", "--history", "s3a://b/c", "--history-format", "json"), "of this machine"),
    "a history that is a file": (("a", "--history", "topics.txt"), "--history 'topics.txt' is a file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_skew_usage_is_reported_first(tmp_path: Path, case: str) -> None:
    arguments, why = WRONG[case]
    (tmp_path / "topics.txt").touch()
    error, hint = run_in_process("skew", *arguments, *NOBODY, cwd=tmp_path).read_error(64)
    assert why in error
    assert "hunter2" not in error + hint


@pytest.mark.parametrize(
    ("arguments", "history"),
    [
        ("--history reports", "reports"),
        ("--history new", "new"),
        ("--history rows", "table of parquet: /here/rows"),
        ("--history rows --history-format json", "rows"),
        ("--history rows --history-format delta", "table of delta: /here/rows"),
        ("--history new --history-format parquet", "table of parquet: /here/new"),
        ("--history s3a://b/rows", "table of parquet: s3a://b/rows"),
        ("--history a.b --history-format iceberg", "table of iceberg: a.b"),
        ("--history rows --master yarn", "table of parquet: rows"),
    ],
)
def test_skew_history_is_report_folder_or_metrics_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, history: str
) -> None:
    (tmp_path / "rows" / "day=2026-11-01").mkdir(parents=True)
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    found = parse("a", *arguments.split()).history
    table = found.table
    shown = f"table of {table.format}: {table.location}" if table else str(found.folder)
    assert shown.replace(str(tmp_path), "/here") == history


@pytest.mark.parametrize(
    ("arguments", "files", "stdout"),
    [
        ("", {}, "text"),
        ("--format json", {}, "json"),
        ("--out a.json --out a.html", {"a.json": "json", "a.html": "html"}, None),
        ("--out a.md -o -", {"a.md": "markdown"}, "text"),
        ("--out a.txt -o - --format markdown", {"a.txt": "text"}, "markdown"),
    ],
)
def test_skew_output_format_follows_file_extension(
    arguments: str, files: dict[str, str], stdout: str | None
) -> None:
    options = parse("a", *arguments.split())
    assert (options.files, options.output_format) == ({Path(name): files[name] for name in files}, stdout)


def parse(*arguments: str) -> SkewOptions:
    given = skew.make_context("skew", [*arguments]).params
    return resolve_options(
        GivenOptions(**{name: given[name] for name in GivenOptions.__struct_fields__}), given["topics"]
    )


def test_spark_submit_takes_the_same_options() -> None:
    arguments = ("--seed", "7", "--records", "500", "--precision", "0.1", "--what-if", "24,12", "--show-keys")
    submitted = parse_arguments(["a", "--out", "x.json", *arguments])
    assert (
        build_job(submitted) == parse("a", *arguments).job == JobSettings(500, 7, False, 0.1, (12, 24), True)
    )


def test_invalid_topics_folder_does_not_stop_named_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.1)  # nobody is there, however long it waits
    Project(tmp_path, "", "").topic("a", partitions=1, overrides={"dev": {"partitions": 2}})
    named = run_in_process("skew", "a", *NOBODY, cwd=tmp_path).needs(1)
    assert "not read: the manifests: " in named.err
    assert "127.0.0.1:1" in named.err.splitlines()[-2]
    assert "problem in the input" in run_in_process("skew", *NOBODY, cwd=tmp_path).needs(1).err


# --- what is not there -----------------------------------------------------------------------------


def test_missing_spark_extra_is_reported(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in {'pyspark', 'numpy', 'pandas', 'pyarrow'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from kafkaform.cli.main import run\n"
        f"sys.exit(run(['skew', 'a', *{NOBODY}]) + run(['skew', '--from', 'a.json']))\n"
    )
    (tmp_path / "a.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    call = Call(done.returncode, done.stdout, done.stderr).needs(2)
    errors = [line for line in call.said.splitlines() if "not installed" in line]
    assert [line.partition("not installed")[2] for line in errors] == [
        ": pyspark, numpy, pandas, pyarrow"
    ] * 2
    assert call.said.count("hint: `pip install 'kafkaform[spark]'`\n") == 2
    assert (call.out, len(call.said.splitlines())) == ("", 4)


def test_outdated_java_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    env = environment(JAVA_HOME=str(tmp_path / "jdk"), PATH="/nonexistent")
    call = run_in_process("skew", "--from", "a.json", cwd=tmp_path, env=env)
    error, hint = call.read_error()
    assert "Java 17 or later is needed" in error
    assert f"{java} is version 11" in error
    assert "JAVA_HOME" in hint


def test_missing_files_and_clusters_are_reported_before_spark_starts(tmp_path: Path) -> None:
    assert run_in_process("skew", "--from", "a", cwd=tmp_path).read_error()[0].startswith("--from a: ")
    assert run_in_process("skew", "a", cwd=tmp_path).read_error(64)[0] == "no cluster is configured"
