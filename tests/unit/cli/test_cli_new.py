"""`kafkaform new`: a manifest like those of its team."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.project import ROOT, Call, manifest, run_in_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The manifests of this repository, of seven teams."""
    for name in ("topics", "schemas"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "kafkaform.yaml", tmp_path)
    return tmp_path


def new(folder: Path, *arguments: str) -> Call:
    return run_in_process("new", *arguments, cwd=folder)


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return document


CASES: dict[str, tuple[tuple[str, ...], str, dict[str, Any], dict[str, str]]] = {
    "topic": (
        ("topic", "orders.refunds.v1"),
        "topics/checkout/orders.refunds.v1.yaml",
        {"partitions": 6, "keyed": True},
        {"team": "checkout"},
    ),
    "of a team": (
        ("topic", "orders.refunds.v1", "--team", "payments"),
        "topics/payments/orders.refunds.v1.yaml",
        {"keyed": True},
        {"team": "payments"},
    ),
    "group": (
        ("group", "checkout-refunds", "--reads", "orders.v1", "--reads", "payments.v1"),
        "topics/checkout/checkout-refunds.yaml",
        {"topics": ["orders.v1", "payments.v1"]},
        {"team": "checkout"},
    ),
    "access": (
        ("access", "User:refunds", "--team", "checkout", "--reads", "orders.v1", "--writes", "refunds.v1"),
        "topics/checkout/refunds.yaml",
        {
            "principals": ["User:refunds"],
            "produces": ["refunds.v1"],
            "consumes": [{"group": "refunds", "topics": ["orders.v1"]}],
        },
        {"team": "checkout"},
    ),
    "elsewhere": (
        ("topic", "orders.refunds.v1", "--out", "topics/new/a.yaml"),
        "topics/new/a.yaml",
        {"keyed": True},
        {"team": "checkout"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_manifest_is_like_those_of_its_team(folder: Path, case: str) -> None:
    arguments, path, spec, labels = CASES[case]
    call = new(folder, *arguments).needs(0)
    made = read(folder / path)
    assert made["metadata"]["labels"].items() >= labels.items()
    assert made["spec"].items() >= spec.items()
    assert "replicationFactor" not in made["spec"]  # of the defaults
    schema = (folder / path).read_text().split("$schema=")[1].splitlines()[0]
    assert (folder / path).parent.joinpath(schema).exists()
    assert f"Written: {path}" in call.out
    assert " --target " in call.out.splitlines()[-1]
    run_in_process("validate", cwd=folder).needs(0)


def test_differing_labels_are_left_to_the_author(folder: Path) -> None:
    call = new(folder, "topic", "orders.refunds.v1").needs(0)
    assert "No label tier: the others have critical, important" in call.out


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "declared": (("topic", "orders.v1"), 1, "Topic/orders.v1 is declared in topics/checkout/orders.yaml:4:1"),
    "file": (("topic", "carts", "--team", "checkout"), 1, "topics/checkout/carts.yaml exists"),
    "given file": (("topic", "a", "--team", "x", "--out", "kafkaform.yaml"), 1, "kafkaform.yaml exists"),
    "no team": (("topic", "zzz"), 64, "--team analytics | catalogue"),
    "kind": (("topics", "a b", "--team", "x"), 64, "is not a legal topic name"),
    "no kind": (("quota", "a"), 64, "'quota' is not a kind"),
    "like a kind": (("topc", "a"), 64, "did you mean 'topic'?"),
    "no topics": (("group", "checkout-x"), 64, "give --reads TOPIC"),
    "no rights": (("access", "checkout-x"), 64, "--writes TOPIC"),
    "a topic that reads": (("topic", "orders.x", "--reads", "a"), 64, "not for topics"),
    "a group that writes": (("group", "checkout-x", "--reads", "a", "--writes", "b"), 64, "not for groups"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_written_if_refused(folder: Path, case: str) -> None:
    arguments, code, why = REFUSED[case]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    call = new(folder, *arguments).needs(code)
    assert why in call.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_first_manifests_need_no_neighbours(tmp_path: Path) -> None:
    for arguments in (("topic", "a"), ("access", "a", "--reads", "a"), ("group", "a", "--reads", "a")):
        new(tmp_path, *arguments).needs(0)
    topics = tmp_path / "topics"
    made = {path.relative_to(topics).as_posix(): read(path) for path in topics.rglob("*.yaml")}
    assert made.keys() == {"a.yaml", "access/a.yaml", "groups/a.yaml"}
    assert made["a.yaml"]["spec"] == {"partitions": 6, "replicationFactor": 3, "keyed": True}
    assert all("labels" not in each["metadata"] for each in made.values())
    run_in_process("validate", cwd=tmp_path).needs(0)


def test_what_most_topics_have_is_copied_and_profiles_are_named(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    specs: tuple[dict[str, Any], ...] = (
        {"retention": "3d", "partitions": 4},
        {"retention": "3d", "partitions": 4},
        {"partitions": 9},
    )
    for number, spec in enumerate(specs):
        text = manifest(f"a.{number}", {"profile": "short", "replicationFactor": 1, **spec})
        (tmp_path / "topics" / f"{number}.yaml").write_text(text)
    (tmp_path / "kafkaform.yaml").write_text(
        "apiVersion: kafkaform/v1\nkind: Config\nprofiles: {short: {Topic: {keyed: false}}}\n"
    )
    new(tmp_path, "topic", "a.new").needs(0)
    assert read(tmp_path / "topics" / "a.new.yaml")["spec"] == {
        "profile": "short",
        "partitions": 4,
        "replicationFactor": 1,
        "retention": "3d",
    }
