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
def test_skew_format_follows_file_extension(
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


def test_invalid_folder_does_not_stop_named_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 0.1)  # nobody is there, however long it waits
    Project(tmp_path, "", "").topic("a", partitions=1, overrides={"dev": {"partitions": 2}})
    named = run_in_process("skew", "a", *NOBODY, cwd=tmp_path).needs(1)
    assert "not read: the manifests: " in named.err
    assert "127.0.0.1:1" in named.err.splitlines()[-2]
    assert "problem in the input" in run_in_process("skew", *NOBODY, cwd=tmp_path).needs(1).err


def test_missing_spark_extra_is_reported(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('pyspark', 'numpy', 'pandas', 'pyarrow')))\n"
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
    missing = [line.partition("not installed: ")[2] for line in errors]
    assert missing == ["pyspark, numpy, pandas, pyarrow"] * 2
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
