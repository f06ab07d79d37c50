"""Compare plans of 5,000 subjects with raw parallel requests for the same schemas and levels.

Each subject has a schema of some twenty fields, and a manifest with it. The registry is Apicurio, on this
machine; the cluster has no topics. The raw requests are two for each subject, the latest version and the
level, by eight threads of one process, over kept connections (urllib3). "plan" finds every subject as
declared; "plan of a change" finds a new field in the schema of one subject in a hundred, which the registry
checks; "validate" reads the files only; "import" writes them.

Rounds alternate and medians are compared, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, RAW, Figures, compare_medians, measure_process
from benchmarks.table import report_rows
from kafkaform.cluster.schema_registry import CONNECTIONS, MAX_LISTED, open_registry
from kafkaform.core.lock import unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.resources.subject.operations import AlterSubject
from kafkaform.resources.subject.schema import RegisteredSchema
from tests.support.schema_registry import run_registry

if TYPE_CHECKING:
    from pathlib import Path

CALLS = f"""
import json, sys
from concurrent.futures import ThreadPoolExecutor
import urllib3
url, count = sys.argv[1], int(sys.argv[2])
pool = urllib3.PoolManager(maxsize={CONNECTIONS}, block=True)
def read(number):
    name = f"{scene.PREFIX}{{number:05d}}-value"
    for path in (f"subjects/{{name}}/versions/latest", f"config/{{name}}?defaultToGlobal=true"):
        response = pool.request("GET", f"{{url}}/{{path}}")
        assert response.status == 200 and json.loads(response.data), response.data
with ThreadPoolExecutor({CONNECTIONS}) as threads:
    list(threads.map(read, range(count)))
"""

HEADINGS = ("subjects", "", "seconds", "to raw requests", "CPU s", "peak MB")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with scene.start_brokers(1) as (folder, kafka), run_registry(folder / "registry") as url:
        register_schemas(url, options.subjects)
        write_manifests(folder / "all", options.subjects)
        write_manifests(folder / "changed", options.subjects, 100)
        client = {"bootstrap.servers": kafka.bootstrap_servers, "schema.registry.url": url}
        settings = {"apiVersion": "kafkaform/v1", "kind": "Config", "clusters": {"bench": {"client": client}}}
        (folder / "kafkaform.yaml").write_text(json.dumps(settings))
        taken = measure(url, folder, options.subjects, options.rounds)
    rows: list[dict[str, float | str]] = [
        {
            "subjects": options.subjects,
            "way": way,
            "seconds": figures.seconds,
            "ratio": figures.seconds / taken["raw requests"].seconds,
            "cpu": figures.cpu,
            "peak": figures.peak,
        }
        for way, figures in taken.items()
    ]
    report_rows("subjects", HEADINGS, *rows)
    return 0


def build_schema(number: int, *, more: bool = False) -> str:
    """Return the schema of a subject, with one more field if asked."""
    names = [f"field_{index}" for index in range(20 + number % 5 + more)]
    fields = [{"name": name, "type": "long", "default": 0} for name in names]
    return json.dumps({"type": "record", "name": "Record", "fields": fields})


def name_subject(number: int) -> str:
    """Return the name of a subject."""
    return f"{scene.PREFIX}{number:05d}-value"


def register_schemas(url: str, count: int) -> None:
    """Register the schema of each subject."""
    registry = open_registry({"schema.registry.url": url})

    def register(number: int) -> None:
        schema = RegisteredSchema(build_schema(number))
        operation = AlterSubject(
            ResourceRef("Subject", name_subject(number)), schema, "BACKWARD", is_new=True
        )
        (error,) = registry.execute([operation], unguarded)
        if error is not None:
            raise error

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(register, range(count)))


def write_manifests(folder: Path, count: int, every: int = 0) -> None:
    """Write a file for each subject; every so many-th has a schema with one more field."""
    folder.mkdir()
    for number in range(count):
        schema = build_schema(number, more=every > 0 and number % every == 0)
        (folder / f"{number}.yaml").write_text(
            f"apiVersion: kafkaform/v1\nkind: Subject\nmetadata:\n  name: {name_subject(number)}\n"
            f"spec:\n  compatibility: BACKWARD\n  schema: '{schema}'\n"
        )


def measure(url: str, folder: Path, subjects: int, rounds: int) -> dict[str, Figures]:
    """Measure the medians of each command and of the raw requests."""
    config = ("--config", str(folder / "kafkaform.yaml"))

    def plan(manifests: str, expect: int = 0) -> Figures:
        shown = ("--format", "json", "--detailed-exitcode", "--no-strict")
        return measure_process([*KAFKAFORM, "plan", str(folder / manifests), *config, *shown], expect)

    def import_(number: int) -> Figures:
        out = str(folder / f"import-{number}")
        # A list of exactly 1,000 may have been cut by Apicurio, and import says so.
        expect = int(subjects == MAX_LISTED)
        return measure_process([*KAFKAFORM, "import", *config, "--kind", "subject", "--out", out], expect)

    return compare_medians(
        {
            "plan": lambda _: plan("all"),
            "plan of a change": lambda _: plan("changed", 2),
            "validate": lambda _: measure_process([*KAFKAFORM, "validate", str(folder / "all"), *config]),
            "import": import_,
            "raw requests": lambda _: measure_process([*RAW, CALLS, url, str(subjects)]),
        },
        rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
