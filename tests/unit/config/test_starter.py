"""`kafkaform init`: a starter repository that works, and that never costs anybody a file."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaform.cli.init import init
from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import read_settings
from kafkaform.config.starter import EditorHelp, write_schemas, write_starter
from kafkaform.core.errors import KafkaformError
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import GROUP

FILES = {
    "kafkaform.yaml",
    "topics/example.yaml",
    "topics/example-group.yaml",
    "schemas/config.schema.json",
    "schemas/manifest.schema.json",
    ".vscode/settings.json",
    ".gitignore",
}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_manifests_load_in_each_environment(tmp_path: Path) -> None:
    write_starter(tmp_path)
    settings = read_settings(tmp_path / "kafkaform.yaml")
    assert settings.environments == ("dev",)
    replication = {}
    # And in the one that the commented cluster has.
    for environment in (*settings.environments, "prod"):
        desired = load(settings.manifests, settings.build_context(environment))
        topics = [d for d in desired if d.ref.kind == "Topic"]
        assert len(topics) == 2
        replication[environment] = {(d.state or {})["replicationFactor"] for d in topics}
        (group,) = [d for d in desired if d.ref.kind == "ConsumerGroup"]
        assert set(GROUP.reads(group.intent)) <= {topic.ref.name for topic in topics}
    assert replication == {"dev": {1}, "prod": {3}}


def test_commented_settings_of_starter_can_be_uncommented(tmp_path: Path) -> None:
    write_starter(tmp_path)
    path = tmp_path / "kafkaform.yaml"
    text = path.read_text("utf-8")
    assert "The first line that\n    # `kafkaform plan` prints shows it" in text
    lines = text.replace("    # clusterId: ", "    clusterId: ").splitlines()
    start = lines.index("  # prod:")
    end = lines.index("", start)
    lines[start:end] = [line.replace("# ", "", 1) for line in lines[start:end]]
    path.write_text("\n".join(lines), "utf-8")
    dev, prod = read_settings(path).clusters.values()
    assert dev.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert dev.client.describe() == {"bootstrap.servers": "127.0.0.1:9092"}
    assert prod.environment == "prod"
    assert "partition-increase-compacted" in prod.forbid


@pytest.mark.parametrize("present", sorted(FILES - {".gitignore"}))
def test_existing_file_stops_starter(tmp_path: Path, present: str) -> None:
    (tmp_path / present).parent.mkdir(exist_ok=True)
    (tmp_path / present).write_text("mine", "utf-8")
    before = files_below(tmp_path)
    with pytest.raises(KafkaformError, match="nothing was written") as caught:
        write_starter(tmp_path)
    assert present in caught.value.message
    assert str(caught.value.hint).startswith("give another folder, or add --schemas")
    assert files_below(tmp_path) == before


def test_starter_files_are_removed_after_failed_write(tmp_path: Path) -> None:
    (tmp_path / "schemas").write_text("a file where a folder has to be", "utf-8")
    for folder in (tmp_path, tmp_path / "schemas"):
        with pytest.raises(KafkaformError, match="cannot write"):
            write_starter(folder)
    assert set(files_below(tmp_path)) == {"schemas"}


def test_file_created_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda _path: False)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "manifest.schema.json").write_text("mine", "utf-8")
    before = files_below(tmp_path)
    with pytest.raises(KafkaformError, match=r"manifest\.schema\.json: File exists"):
        write_starter(tmp_path)
    assert files_below(tmp_path) == before


def test_init_works_in_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gitignore").write_text("mine\n", "utf-8")
    result = CliRunner().invoke(init, [])
    assert result.exit_code == 0
    assert "cd " not in result.stdout
    assert "It should contain: .kafkaform/, plan.json" in result.stdout
    assert (tmp_path / ".gitignore").read_text("utf-8") == "mine\n"
    assert set(files_below(tmp_path)) == FILES


def test_existing_repository_gets_schemas_and_modelines(tmp_path: Path) -> None:
    write_starter(tmp_path)
    for path in (tmp_path / "schemas").iterdir():
        path.unlink()
    (tmp_path / ".vscode/settings.json").unlink()
    (tmp_path / "schemas/manifest.schema.json").write_text('{"$id": "urn:kafkaform:v1:old"}', "utf-8")
    head = "apiVersion: kafkaform/v1\nkind: {}\nmetadata: {{name: a}}\nspec: {{}}\n"
    texts = {
        "kafkaform.yaml": "apiVersion: kafkaform/v1\nkind: Config\n",
        "topics/access/a.yaml": head.format("Access").replace("\n", "\r\n"),
        "topics/both.yaml": head.format("Topic") + "---\n" + head.format("User"),
        "topics/broken.yaml": "a: [\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    before = files_below(tmp_path)
    written = write_schemas(tmp_path)
    schemas = {"config.schema.json", "manifest.schema.json", "settings.json"}
    assert {path.name for path in written.schemas} == schemas
    assert {path.name for path in written.linked} == {
        "kafkaform.yaml",
        *("a.yaml", "both.yaml", "broken.yaml"),
    }
    after = files_below(tmp_path)
    mark = "# yaml-language-server: $schema="
    assert (
        after["kafkaform.yaml"].decode() == f"{mark}schemas/config.schema.json\n\n{texts['kafkaform.yaml']}"
    )
    line = f"{mark}../../schemas/manifest.schema.json\r\n\r\n"
    assert after["topics/access/a.yaml"].decode() == line + texts["topics/access/a.yaml"]
    assert after["topics/example.yaml"] == before["topics/example.yaml"]
    assert json.loads(after["schemas/manifest.schema.json"]) == load_schema("manifest")
    assert "topics/**/*.yaml" in after[".vscode/settings.json"].decode()
    assert write_schemas(tmp_path) == EditorHelp((), ())
    assert files_below(tmp_path) == after


def test_foreign_schema_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "manifest.schema.json").write_text("mine", "utf-8")
    result = CliRunner().invoke(init, [str(tmp_path), "--schemas"])
    assert isinstance(result.exception, KafkaformError)
    assert files_below(tmp_path) == {"schemas/manifest.schema.json": b"mine"}
