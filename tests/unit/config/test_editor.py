"""Tests of a manifest in an editor, by the schema of editors: typical mistakes, and no false alarm."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.config.starter import write_starter
from kafkaform.core.schema_files import load_schema
from tests.support.cli.project import ROOT
from tests.support.kinds import KIND_CASES
from tests.support.required import program

HEAD = "apiVersion: kafkaform/v1\nkind: {}\nmetadata: {{name: a}}\nspec:\n"
MISTAKES = {
    "names": """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: bad name}  # wrong
spec: {partitons: 3}  # wrong
""",
    "counts": HEAD.format("Topic") + """\
  partitions: '3'  # wrong
  replicationFactor: 0  # wrong
  keyed: maybe  # wrong
""",
    "units": HEAD.format("Topic") + """\
  retention: 7 days  # wrong
  config:
    retention.bytes: 50G  # wrong
    segment.ms: 1y  # wrong
""",
    "configs": HEAD.format("Topic") + """\
  config:
    cleanup.policy: compacted  # wrong
    min.isr: 2  # unknown
    min.insync.replicas: two  # wrong
    preallocate: sometimes  # wrong
    compression.type: zip  # wrong
""",
    "overrides": HEAD.format("Topic") + """\
  overrides:
    dev: {partitions: 1.5, config: {cleanup.policy: remove}}  # wrong
    prod: {retention: a week}  # wrong
""",
    "groups": HEAD.format("ConsumerGroup") + """\
  topics: orders.v1  # wrong
  protocol: share-group  # wrong
  offsets: {initial: newest}  # wrong
  lag: {maxTime: 5 min}  # wrong
  members: {expected: '2'}  # wrong
""",
    "clients": HEAD.format("ConsumerGroup") + """\
  topics: [a]
  client:
    max.poll.interval.ms: 5 minutes  # wrong
    max.poll.records: many  # wrong
    isolation.level: committed  # wrong
""",
    "rights": HEAD.format("Access") + """\
  principals: [checkout]  # wrong
  produce: [x]  # wrong
""",
    "schemas": HEAD.format("Subject") + """\
  schema: '{}'
  schemaType: avro  # wrong
  compatibility: BACK  # wrong
""",
    "kinds": """\
apiVersion: kafkaform/v2
kind: Topik  # wrong
metadata: {name: a}
spec: {}
""",
}  # fmt: skip
"""Files with typical mistakes; only editors show an unknown config, by `deprecationMessage`."""


def list_lines(text: str) -> set[int]:
    """Return the lines of a file with a finding of the schema of editors."""
    schema = load_schema("manifest")
    found = set()
    for document in read_documents(text.encode(), "f", lambda _: None, verbatim=VERBATIM):
        # An editor reads numbers and truth values as YAML does, and not as the text of a config.
        data = next(iter(yaml.safe_load_all(text))) if "---" not in text else document.data
        for error in _list_leaves(Draft202012Validator(schema).iter_errors(data)):
            found |= _list_error_lines(error, document)
    return found


def _list_leaves(errors: Any) -> Iterator[Any]:
    for error in errors:
        if error.context:
            yield from _list_leaves(error.context)
        else:
            yield error


def _list_error_lines(error: Any, document: Any) -> set[int]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        extra = set(error.instance) - set(error.schema.get("properties", {}))
        return {document.locate((*path, name), key=True).line for name in extra}
    return {document.locate(path).line}


def list_marked(text: str, *marks: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith(marks)}


@pytest.mark.parametrize("name", MISTAKES)
def test_typical_mistakes_are_found_by_schema(name: str) -> None:
    expected = list_marked(MISTAKES[name], "# wrong")
    assert expected
    assert expected <= list_lines(MISTAKES[name])


def test_valid_manifests_have_no_finding() -> None:
    files = [*(ROOT / "topics").rglob("*.yaml"), *(ROOT / "docs/examples").rglob("topics/**/*.yaml")]
    assert len(files) > 10
    validator = Draft202012Validator(load_schema("manifest"))
    for file in files:
        for data in yaml.safe_load_all(file.read_text()):
            assert [*validator.iter_errors(data)] == [], file
    for case in KIND_CASES:
        data = {"apiVersion": "kafkaform/v1", "kind": case.kind, "metadata": {"name": "a"}, "spec": case.spec}
        assert [*validator.iter_errors(data)] == [], case.kind


def test_language_server_reports_mistakes(tmp_path: Path) -> None:
    server = program("yaml-language-server")
    write_starter(tmp_path)
    # One file with several documents, as a service has them.
    text = "---\n".join(MISTAKES.values())
    (tmp_path / "topics/mistakes.yaml").write_text(text)
    settings = json.loads((tmp_path / ".vscode/settings.json").read_text())["yaml.schemas"]
    expected = list_marked(text, "# wrong", "# unknown")
    shown = read_diagnostics(server, tmp_path, "topics/mistakes.yaml", settings)
    assert len(expected) == 28
    assert [text.splitlines()[number - 1] for number in sorted(expected - shown)] == []
    assert read_diagnostics(server, tmp_path, "topics/example.yaml", settings) == set()


def read_diagnostics(server: str, root: Path, file: str, schemas: Mapping[str, Any]) -> set[int]:
    """Open a file in a language server, as an editor does; return the lines with a finding."""
    command = [server, "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to_server, from_server = process.stdin, process.stdout

        def send(**message: Any) -> None:
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            to_server.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            to_server.flush()

        def receive() -> dict[str, Any]:
            length = 0
            while header := from_server.readline().strip():
                length = int(header.split(b":")[1]) if header.startswith(b"Content-Length") else length
            message: dict[str, Any] = json.loads(from_server.read(length))
            return message

        client = {"processId": None, "rootUri": root.as_uri()}
        capabilities = {"workspace": {"configuration": True}}
        send(id=1, method="initialize", params={**client, "capabilities": capabilities})
        while receive().get("id") != 1:
            pass
        send(method="initialized", params={})
        document = {"uri": (root / file).as_uri(), "languageId": "yaml", "version": 1}
        opened = {"textDocument": {**document, "text": (root / file).read_text()}}
        send(method="textDocument/didOpen", params=opened)
        while True:
            message = receive()
            if message.get("method") == "workspace/configuration":
                settings = {"validate": True, "schemas": schemas, "schemaStore": {"enable": False}}
                send(id=message["id"], result=[settings] * len(message["params"]["items"]))
            elif message.get("method") == "textDocument/publishDiagnostics":
                process.kill()
                return {each["range"]["start"]["line"] + 1 for each in message["params"]["diagnostics"]}
            elif "id" in message and "method" in message:
                send(id=message["id"], result=None)
