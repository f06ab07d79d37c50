"""`kafkaform new`: a manifest like those of its team."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.project import ROOT, Call, run_in_process


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


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "topic orders.refunds.v1": ("checkout/orders.refunds.v1.yaml", {"partitions": 6, "keyed": True}),
    "topic orders.x --team payments": ("payments/orders.x.yaml", {"keyed": True}),
    "topic orders.refunds.v1 --out topics/new/a.yaml": ("new/a.yaml", {"keyed": True}),
    "group checkout-refunds --reads a --reads b": ("checkout/checkout-refunds.yaml", {"topics": ["a", "b"]}),
    "access User:refunds --team checkout --reads a --writes b": (
        "checkout/refunds.yaml",
        {
            "principals": ["User:refunds"],
            "produces": ["b"],
            "consumes": [{"group": "refunds", "topics": ["a"]}],
        },
    ),
}
"""The path below topics/ and a part of the spec, by the arguments."""


@pytest.mark.parametrize("arguments", CASES)
def test_new_manifest_follows_team_conventions(folder: Path, arguments: str) -> None:
    below, spec = CASES[arguments]
    path = f"topics/{below}"
    call = new(folder, *arguments.split()).needs(0)
    made = read(folder / path)
    assert made["metadata"]["labels"]["team"] == ("payments" if "payments" in arguments else "checkout")
    assert made["spec"].items() >= spec.items()
    assert "replicationFactor" not in made["spec"]  # of the defaults
    schema = (folder / path).read_text().split("$schema=")[1].splitlines()[0]
    assert (folder / path).parent.joinpath(schema).exists()
    assert f"Written: {path}" in call.out
    assert " --target " in call.out.splitlines()[-1]
    run_in_process("validate", cwd=folder).needs(0)
    # Differing labels are left to the author.
    assert path != "topics/checkout/orders.refunds.v1.yaml" or (
        "No label tier: the others have critical, important" in call.out
    )


def test_successor_has_all_values_of_its_predecessor(folder: Path) -> None:
    old = folder / "topics" / "checkout" / "old.yaml"
    old.write_text(
        """apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: old
  labels: {team: checkout, version: 1.10, tier: critical}
  annotations: {kafkaform/allow: "delete of abc: gone", kafkaform/waive.KF111: "short by intent"}
spec:
  partitions: 12
  keyed: true
  recreate: 3dBzWnVfRkWvGk1yQn2c8A
  retention: {time: 7d, bytes: "1GiB"}
  config: {min.cleanable.dirty.ratio: 0.50, cleanup.policy: "delete"}
  overrides:
    dev: {partitions: 3, recreate: 3dBzWnVfRkWvGk1yQn2c8A}
"""
    )
    new(folder, "topic", "new", "--succeeds", "old").needs(0)
    files = (old, old.with_name("new.yaml"))
    before, after = (yaml.load(file.read_text(), yaml.BaseLoader) for file in files)
    del before["metadata"]["annotations"]["kafkaform/allow"]
    del before["spec"]["recreate"], before["spec"]["overrides"]["dev"]["recreate"]
    before["metadata"]["name"] = "new"
    before["spec"]["succeeds"] = "old"
    assert after == before
    run_in_process("validate", cwd=folder).needs(0)


REFUSED = {
    ("topic", "a", "--succeeds", "b"): "kafkaform import --match b",
    ("topic", "orders.v1"): "Topic/orders.v1 is declared in topics/checkout/orders.yaml:4:1",
    ("topic", "carts", "--team", "checkout"): "topics/checkout/carts.yaml exists",
    ("topic", "a", "--team", "x", "--out", "kafkaform.yaml"): "kafkaform.yaml exists",
}
WRONG = {
    ("topic", "zzz"): "--team analytics | catalogue",
    ("topics", "a b", "--team", "x"): "is not a legal topic name",
    ("quota", "a"): "'quota' is not a kind",
    ("topc", "a"): "did you mean 'topic'?",
    ("group", "checkout-x"): "give --reads TOPIC",
    ("access", "checkout-x"): "--writes TOPIC",
    ("topic", "orders.x", "--reads", "a"): "not for topics",
    ("group", "checkout-x", "--reads", "a", "--writes", "b"): "not for groups",
    ("group", "a", "--reads", "a", "--succeeds", "orders.v1"): "--succeeds is for topics",
}


def test_refused_new_writes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for arguments, why in {**REFUSED, **WRONG}.items():
        assert why in new(folder, *arguments).needs(1 if arguments in REFUSED else 64).err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_first_manifests_have_default_values(tmp_path: Path) -> None:
    for arguments in (("topic", "a"), ("access", "a", "--reads", "a"), ("group", "a", "--reads", "a")):
        new(tmp_path, *arguments).needs(0)
    made = {path.relative_to(tmp_path / "topics").as_posix(): read(path) for path in tmp_path.rglob("*.yaml")}
    assert made.keys() == {"a.yaml", "access/a.yaml", "groups/a.yaml"}
    assert made["a.yaml"]["spec"] == {"partitions": 6, "replicationFactor": 3, "keyed": True}
    assert all("labels" not in each["metadata"] for each in made.values())
    run_in_process("validate", cwd=tmp_path).needs(0)
