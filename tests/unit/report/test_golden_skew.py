"""Skew reports in golden files: a scene for each diagnosis, in each format."""

import json
import re
from difflib import unified_diff
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.report.skew import render_skew, render_skew_html, render_skew_markdown
from spark_validation.metrics import metric_rows
from spark_validation.results import SkewReport, SkewVerdict, TopicResult, to_json
from tests.support.golden import format_value, hide_unstable, shorten_lists
from tests.support.skew import samples
from tests.support.skew.analysis import scene
from tests.support.skew.samples import add_unknown_policy, failing, report

CREATED = "2023-11-14T23:30:00Z"
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
    "own_partitioner": ("an own partitioner, many keys",),
}
"""The analyses of each report."""
PAGES = ("hot_key",)
"""The reports that are also kept as Markdown: the documents are the same in all formats."""
WHOLE = ("trimmed",)
"""The reports whose JSON is kept, with the first entries of its lists; of the others, the causes are."""


def build(name: str) -> SkewReport:
    return report(*(scene(part) for part in SCENES[name]), created_at=CREATED)


def build_variants() -> list[tuple[TopicResult, TopicResult]]:
    """Return topics that no analysis above has, each with the one that it differs from."""
    hot, even = samples.hot(), samples.build_balanced()
    heavy = samples.imbalance([5 / 8, 1 / 8, 1 / 8, 1 / 8])
    changes: dict[str, tuple[TopicResult, dict[str, Any]]] = {
        "predictions differ": (hot, {"what_if": samples.what_if(12, 24, ratio=1.02)}),
        "no members": (hot, {"groups": (replace(hot.groups[0], members=(), max_mean_ratio=0.0),)}),
        "a reason alone": (hot, {"policy": SkewVerdict("warn", ("nobody can tell",))}),
        "files": (hot, {"sample": replace(hot.sample, mode="file", records=1, achieved=None)}),
        "sparse": (hot, {"sample": replace(hot.sample, records=800_000, precision=0.01)}),
        "heavy": (even, {"by_bytes": heavy, "causes": ()}),
    }
    return [(base, replace(base, name=name, **extra)) for name, (base, extra) in changes.items()]


def round_numbers(text: str) -> str:
    """Round to six digits: sums of floats differ in their last ones between processors."""
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda match: f"{float(match[0]):.6g}", text)


@pytest.mark.parametrize("name", SCENES)
def test_skew_reports_match_golden(name: str, golden: SnapshotAssertion) -> None:
    made = build(name)
    assert render_skew(made, width=80).plain + "\n" == golden(name=f"{name}.txt")
    if name in PAGES:
        assert render_skew_markdown(made) == golden(name=f"{name}.md")
    document = json.loads(round_numbers(to_json(made)))
    Draft202012Validator(load_schema("skew")).validate(document)
    kept = shorten_lists(document) if name in WHOLE else [topic["causes"] for topic in document["topics"]]
    assert hide_unstable(format_value(kept) + "\n") == golden(name=f"{name}.json")


def test_overview_has_the_worst_topics_first(golden: SnapshotAssertion) -> None:
    """Return the lines above the topics, each of which is shown as in a report of its own."""
    hot, empty, own, balanced = map(scene, ("hot key", "empty", "an own partitioner, many keys", "balanced"))
    made = report(failing(hot), empty, own, add_unknown_policy(balanced), created_at=CREATED)
    text, markdown = render_skew(made, width=80).plain, render_skew_markdown(made)
    assert text.partition("\n\nhot-key: ")[0] + "\n" == golden(name="overview.txt")
    assert markdown.partition("\n\n<details>")[0] + "\n" == golden(name="overview.md")
    alone = render_skew(report(made.topics[1]), width=80).plain
    assert alone.partition("\n\n")[2] in text


def test_skew_variants_match_golden(golden: SnapshotAssertion) -> None:
    """The lines by which each of these topics differs from a usual one of its diagnosis."""
    differences = []
    for base, variant in build_variants():
        before, after = (render_skew(report(topic), width=None).plain for topic in (base, variant))
        lines = unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
        changed = [line for line in list(lines)[2:] if not line.startswith("@@")]
        differences += [f"## {variant.name}", *changed, ""]
    assert "\n".join(differences) == golden(name="variants.txt")


def test_report_from_files_without_topics_matches_golden(golden: SnapshotAssertion) -> None:
    made = replace(report(), cluster_id=None, cluster_name=None)
    assert render_skew(made, width=80).plain + "\n" == golden(name="no_topics.txt")
    assert render_skew_markdown(made) == golden(name="no_topics.md")
    assert "0 topics." in render_skew_html(made)


def test_page_with_earlier_rows_matches_golden(golden: SnapshotAssertion) -> None:
    made = build("hot_key")
    past = replace(made, created_at="2023-11-01T23:30:00Z")
    page = render_skew_html(made, metric_rows(past))
    page = re.sub(r"(?s)<style>.*?</style>", "<style></style>", page)
    page = re.sub(r"sha256-[\w+/=]*", "sha256-HASH", page)
    assert page == golden(name="hot_key.html")
