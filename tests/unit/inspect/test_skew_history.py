"""The folder of earlier reports: nothing is overwritten, and what is damaged is told and left out."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkaform.core.errors import KafkaformError
from kafkaform.inspect import skew_folder, skew_input
from kafkaform.inspect.skew_folder import keep_report
from kafkaform.plan.skew_report import parse_skew_report
from spark_validation.results import SkewReport
from tests.support.plans.audit import Story
from tests.support.skew import scenes


def report(second: int, *names: str, cluster_id: str | None = "memory") -> SkewReport:
    return scenes.report(
        *(scenes.empty(name) for name in names),
        cluster_id=cluster_id,
        created_at=f"2026-11-01T00:00:{second:02}Z",
    )


def test_reports_of_cluster_and_topic_are_sorted_by_time(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    kept = [report(second, "a") for second in (3, 1, 2)]
    for entry in [*kept, report(4, "b"), report(5, "a", cluster_id="other"), report(6, "b", "a")]:
        keep_report(folder, entry)
    found = skew_folder.read_reports(folder, "memory", {"a", "c"})
    assert [entry.created_at[-3:-1] for entry in found.reports] == ["01", "02", "03", "06"]
    assert found.reports[0] == kept[1]
    assert not found.damaged
    of_file = report(7, "a", cluster_id=None)
    keep_report(folder, of_file)
    assert skew_folder.read_reports(folder, "memory", {"a", "c"}) == found
    assert [*skew_folder.read_reports(folder, None, {"a"}).reports] == [of_file]


def test_kept_reports_are_not_overwritten(tmp_path: Path) -> None:
    names = [
        keep_report(tmp_path, item).name for item in (report(1, "a"), report(1, "a", "b"), report(1, "c"))
    ]
    stem = "skew-20261101T000001Z"
    assert names == [f"{stem}.json", f"{stem}-2.json", f"{stem}-3.json"]
    kept = [parse_skew_report((tmp_path / name).read_text(), name) for name in names]
    assert [len(entry.topics) for entry in kept] == [1, 2, 1]


def test_damaged_report_is_noted_and_skipped(tmp_path: Path) -> None:
    good = keep_report(tmp_path, report(1, "a"))
    (tmp_path / "skew-0.json").write_text("{")
    (tmp_path / "skew-1.json").write_text(good.read_text().replace('"name": "a"', '"nam": "a"'))
    (tmp_path / "skew-2.json").write_text(
        good.read_text().replace('"format_version": 1', '"format_version": 99')
    )
    (tmp_path / "notes.json").write_text("not a report, and not called one")
    found = skew_folder.read_reports(tmp_path, "memory", {"a"})
    assert len(found.reports) == 1
    assert [line.partition(": ")[0].rpartition("/")[2].partition(":")[0] for line in found.damaged] == [
        "skew-0.json",
        "skew-1.json",
        "skew-2.json",
    ]
    assert all("\n" not in line for line in found.damaged)


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: str) -> None:
        raise KafkaformError(f"cannot write {path}: no space")

    with monkeypatch.context() as patched:
        patched.setattr(skew_folder, "write_file", full)
        with pytest.raises(KafkaformError, match="no space"):
            keep_report(tmp_path, report(1, "a"))
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").write_text("")
    with pytest.raises(KafkaformError, match=r"cannot write into .*file"):
        keep_report(tmp_path / "file", report(1, "a"))


def build_report(second: int, count: int, cluster_id: str = "memory") -> SkewReport:
    return scenes.report(
        scenes.build_result("a", partitions=count),
        cluster_id=cluster_id,
        created_at=f"2026-11-01T00:00:{second:02}Z",
    )


def increases(story: Story, *reports: SkewReport, topic: str = "a") -> list[tuple[int, int, str, str, str]]:
    def format_time(milliseconds: int) -> str:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%d %H:%M:%S")

    found = skew_input.find_recorded_increases(story.entries, reports, "memory", topic)
    return [
        (item.before, item.after, format_time(item.since_ms), format_time(item.until_ms), item.source)
        for item in found
    ]


def test_partition_increases_are_found_in_record_and_reports() -> None:
    story = Story()
    story.add("update", "a", {"partitions": (6, 12), "config.retention.ms": ("1", "2")})
    story.add("update", "a", {"partitions": (12, 24)}, result="failed", done=())
    story.add("update", "b", {"partitions": (1, 2)})
    applied = (6, 12, "03 12:00:00", "03 12:00:00", "the audit record")
    assert [(*increase[:2], increase[4]) for increase in increases(story)] == [(*applied[:2], applied[4])]
    reports = [build_report(1, 3), build_report(2, 3), build_report(4, 6), build_report(5, 9, "other")]
    found = increases(story, *reports, build_report(6, 12))
    assert found[0] == (3, 6, "01 00:00:02", "01 00:00:04", "earlier skew reports")
    # What the record dates to the second is not told once more.
    assert [item[:2] for item in found] == [(3, 6), (6, 12)]
    assert found[1][4] == "the audit record"


def test_increases_before_recreation_are_ignored() -> None:
    story = Story()
    story.add("update", "a", {"partitions": (6, 12)})
    story.add("create", "a", {"partitions": (None, 3)})
    assert increases(story, build_report(1, 3), build_report(2, 6)) == []
    story.add("update", "a", {"partitions": (3, 4)})
    assert [increase[:2] for increase in increases(story)] == [(3, 4)]
