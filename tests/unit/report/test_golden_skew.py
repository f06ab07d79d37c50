"""Skew reports in golden files: a scene for each diagnosis, in each format."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.report.skew import render_skew, render_skew_html, render_skew_markdown
from spark_validation.metrics import metric_rows
from spark_validation.results import SkewFinding, SkewReport, SkewVerdict, to_json
from tests.support.golden import hide_unstable
from tests.support.skew import samples
from tests.support.skew.analysis import scene
from tests.support.skew.samples import failing, report, warned

SCENES = {
    "balanced": ("balanced",),
    "hot_key": ("hot key",),
    "hot_by_bytes": ("hot by bytes",),
    "few_keys": ("few keys",),
    "null_keys": ("null keys on one partition",),
    "mixed_partitioners": ("mixed partitioners",),
    "repartitioned": ("repartitioned",),
    "bursty": ("bursty",),
    "too_little_data": ("too little data",),
    "empty": ("empty",),
    "keys_withheld": ("compacted, keys withheld",),
    "trimmed": ("only some records kept",),
    "policy": ("policy broken",),
    "unknown": ("a period not known", "bytes not known"),
    "several": ("hot key", "empty", "an own partitioner, many keys", "balanced"),
}
"""The analyses of each report."""
PAGES = ("hot_key", "several")
"""The reports that are also kept as Markdown: the documents are the same in all formats."""
WHOLE = "trimmed"
"""The report whose JSON is kept whole, a thousand lines; of the others, the causes are."""


def build(name: str) -> SkewReport:
    topics = [scene(part) for part in SCENES[name]]
    if name == "several":
        topics[0], topics[3] = failing(topics[0]), warned(topics[3])
    return report(*topics, created_at="2023-11-14T23:30:00Z")


def build_samples() -> SkewReport:
    """A report of made-up topics, for what no analysis above has."""
    hot, mixed, empty = samples.hot(), samples.mixed("mixed"), samples.empty("empty, with a note")
    apart = replace(mixed, partitions=samples.balanced().partitions, hot_keys=())
    own = {"murmur2": 0.08, "crc32": 0.08, "fnv1a": 0.08, "other": 0.77}
    once = [replace(one, sampled_records=one.distinct_keys, null_records=0) for one in apart.partitions]
    unnamed = SkewFinding("KF505", "warning", "null keys on a keyed topic")
    topics = (
        *samples.everything(),
        samples.withheld(),
        failing(replace(empty, sample=replace(empty.sample, notes=("retention deleted everything",)))),
        replace(hot, name="predictions differ", what_if=samples.what_if(12, 24, ratio=1.02)),
        replace(hot, name="an empty key", hot_keys=(samples.key("", 0.2, [4]),)),
        replace(hot, name="no members", groups=(replace(hot.groups[0], members=(), max_mean_ratio=0.0),)),
        replace(hot, name="a reason alone", policy=SkewVerdict("warn", ("nobody can tell",))),
        replace(hot, name="a finding without its topic", findings=(unnamed,)),
        replace(hot, name="no hot keys", hot_keys=()),
        replace(samples.bursty("no bursty key"), hot_keys=()),
        replace(mixed, name="too few repeats", partitions=tuple(once), hot_keys=()),
        replace(apart, name="keys stay"),
        replace(apart, name="keys stay, by an own partitioner", partitioners=own),
        replace(
            samples.balanced("heavy"), by_bytes=samples.imbalance([5 / 8, 1 / 8, 1 / 8, 1 / 8]), causes=()
        ),
        replace(hot, name="files", sample=replace(hot.sample, mode="file", records=1, achieved=None)),
        replace(hot, name="sparse", sample=replace(hot.sample, records=800_000, precision=0.01)),
    )
    return replace(report(*topics), cluster_name=None)


def round_numbers(text: str) -> str:
    """Round to six digits: sums of floats differ in their last ones between processors."""
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda match: f"{float(match[0]):.6g}", text)


@pytest.mark.parametrize("name", SCENES)
def test_text_markdown_and_json(name: str, golden: SnapshotAssertion) -> None:
    made = build(name)
    assert render_skew(made, width=80).plain + "\n" == golden(name=f"{name}.txt")
    if name in PAGES:
        assert render_skew_markdown(made) == golden(name=f"{name}.md")
    document = to_json(made)
    Draft202012Validator(load_schema("skew")).validate(json.loads(document))
    if name != WHOLE:
        causes = [topic["causes"] for topic in json.loads(document)["topics"]]
        document = json.dumps(causes, indent=2, ensure_ascii=False) + "\n"
    assert hide_unstable(round_numbers(document)) == golden(name=f"{name}.json")


def test_made_up_topics(golden: SnapshotAssertion) -> None:
    made = build_samples()
    assert render_skew(made, width=None).plain + "\n" == golden(name="samples.txt")


def test_records_from_files_and_no_topics(golden: SnapshotAssertion) -> None:
    made = replace(report(), cluster_id=None, cluster_name=None)
    assert render_skew(made, width=80).plain + "\n" == golden(name="no_topics.txt")
    assert render_skew_markdown(made) == golden(name="no_topics.md")
    assert "0 topics." in render_skew_html(made)


def test_a_page_with_a_past(golden: SnapshotAssertion) -> None:
    made = build("hot_key")
    past = replace(made, created_at="2023-11-01T23:30:00Z")
    page = render_skew_html(made, metric_rows(past))
    page = re.sub(r"(?s)<style>.*?</style>", "<style></style>", page)
    page = re.sub(r"sha256-[\w+/=]*", "sha256-HASH", page)
    assert page == golden(name="hot_key.html")
