"""The sentences of analyses, and the facts that they follow from, in golden files."""

from syrupy.assertion import SnapshotAssertion

from spark_validation.results import to_json
from tests.support.skew.analysis import SCENES, scene
from tests.support.skew.samples import report


def test_scene_sentences_match_golden(golden: SnapshotAssertion) -> None:
    lines = []
    for name in SCENES:
        result = scene(name)
        lines.append(f"## {name}\n")
        for cause in result.causes:
            part = "" if cause.explains is None else f" ({cause.explains:.3f})"
            lines.append(f"- {cause.name}{part}: {cause.evidence}")
        lines += [f"- advice: {sentence}" for sentence in result.advice]
        lines += [f"- note: {note}" for note in result.sample.notes]
        if result.what_if_withheld:
            lines.append(f"- no prediction: {result.what_if_withheld}")
        if result.policy:
            lines += [f"- {result.policy.status}: {reason}" for reason in result.policy.reasons]
        lines.append("")
        to_json(report(result))  # refuses what is not finite
        for found in (result.distinct_keys, result.null_key_share, *(p.share for p in result.partitions)):
            assert 0 <= found.low <= found.value <= found.high
    text = "\n".join(lines)
    assert text == golden(name="sentences.md")
    assert "customer-" not in text, "it shows a key"
