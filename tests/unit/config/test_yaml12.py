"""YAML by the 1.2 core schema, and everything that a file can do to its reader."""

import json
import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.yaml12 import MAX_BYTES, Data, Document, Unquoted, read_documents
from kafkaform.config.manifests.yaml_hazards import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_FILE_NODES,
    MAX_NODES,
    LimitedComposer,
)
from kafkaform.core.errors import Problem
from kafkaform.core.model import Location
from tests.support.golden import list_texts


def read(raw: bytes | str, verbatim: frozenset[str] | None = frozenset()) -> tuple[list[Document], list[str]]:
    problems: list[Problem] = []
    data = raw.encode() if isinstance(raw, str) else raw
    documents = read_documents(data, "f", problems.append, verbatim=verbatim)
    return documents, [str(problem) for problem in problems]


def parse_one(raw: bytes | str, verbatim: frozenset[str] | None = frozenset()) -> Data:
    documents, problems = read(raw, verbatim)
    assert problems == []
    assert len(documents) == 1
    return documents[0].data


def list_problems(raw: bytes | str) -> list[str]:
    documents, problems = read(raw)
    assert documents == []
    return problems


CORE: list[tuple[Data, str]] = [
    (None, "~ null Null NULL"),
    (True, "true True TRUE"),
    (False, "false False FALSE"),
    (0, "0"),
    (12, "12 +12"),
    (-12, "-12"),
    (10, "010 0010"),
    (8, "0o10"),
    (16, "0x10"),
    (255, "0xFf"),
    (int("9" * 30), "9" * 30),
    (12.0, "12.0 12."),
    (0.5, ".5 0.50"),
    (-0.5, "-.5"),
    (1000.0, "1e3"),
    (0.001, "1E-3"),
    (150.0, "+1.5e+2"),
    ([None], "-"),
    ("12", "'12'"),
    ("null", '"null"'),
    ("", "''"),
]
"""Values, and plain scalars that mean them."""
CORE_TEXTS = [
    *("nULL", "none", "yes", "no", "on", "off", "y", "n", "tRUE", "0o8", "-0o7", "-0x10", "0b11", "1_000"),
    *("1:30", "190:20:30", ".", "e3", ".e3", "1e", ".inf", "-.INF", ".nan", "1e400", "1" * 5000),
    *("2024-01-02", "1.2.3", "\u0661\u0662", "=", "7d"),
]
"""Plain scalars that are text."""
SCALARS = [
    *((text, value) for value, texts in CORE for text in texts.split()),
    *((text, text) for text in CORE_TEXTS),
    *(("", None), (">-\n  12\n", "12"), ("|\n  12\n", "12\n")),
]


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[repr(text[:20]) for text, _ in SCALARS])
def test_plain_scalars_follow_the_core_schema(text: str, value: Data) -> None:
    # As an item of a list, where "-" is one more list.
    assert repr(parse_one(f"- {text}\n")) == repr([value])


@pytest.mark.parametrize("text", ["010", "0.50", "1:30", "0x10", "true", "no", "1e3", "1_000", "12.0", "+1"])
def test_scalars_below_verbatim_key_keep_text(text: str) -> None:
    assert parse_one(f"config: {{a: {text}, b: [{text}]}}", frozenset({"config"})) == {
        "config": {"a": text, "b": [text]}
    }
    everywhere = parse_one(f"- {text}\n- '{text}'", None)
    assert isinstance(everywhere, list)
    assert [(type(value), value) for value in everywhere] == [(Unquoted, text), (str, text)]


def test_keys_are_text_and_null_stays_null_below_verbatim_key() -> None:
    data = parse_one("config: {a: null, b: ~, c: , d: 'null', e: ''}", frozenset({"config"}))
    assert data == {"config": {"a": None, "b": None, "c": None, "d": "null", "e": ""}}
    assert parse_one("1: a\ntrue: b\nnull: c\n0.50: d\n? e\n: f") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "0.50": "d",
        "e": "f",
    }


def test_documents_and_locations_are_read() -> None:
    assert parse_one(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - 2\r\n") == {"a": 1, "b": [2]}
    documents, _ = read(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - 2\r\n")
    assert documents[0].locate(["a"]) == Location("f", 1, 4)
    assert documents[0].locate(["b", 0]) == Location("f", 3, 5)
    documents, problems = read("---\na: {b: [x, {c: é}]}\n---\n# nothing\n---\n- 1\n")
    assert problems == []
    assert [d.data for d in documents] == [{"a": {"b": ["x", {"c": "é"}]}}, None, [1]]
    first, _, last = documents
    assert first.locate() == Location("f", 2, 1)
    assert first.locate(["a", "b", 1, "c"]) == Location("f", 2, 16)
    assert first.locate(["a", "b", 1, "c"], key=True) == Location("f", 2, 13)
    assert first.locate(["a", "nope", "deeper"]) == Location("f", 2, 4)
    assert first.locate(["a", "b", 7]) == Location("f", 2, 8)
    assert first.locate(["a", "b", 1], key=True) == first.locate(["a", "b", 1]) == Location("f", 2, 12)
    assert first.locate(["nope"], key=True) == first.locate()
    assert (first.find(["a", "b"]), first.find(["a", "c"])) == (Location("f", 2, 5), None)
    assert (first.has(["a", "b"]), first.has(["a", "c"])) == (True, False)
    assert last.locate([0]) == Location("f", 6, 3)
    assert [text for _, _, text in first.walk_texts()] == ["a", "b", "x", "c", "é"]
    # What looks like a template is text to those who write it below an alias.
    assert parse_one("a: &x 1\nb: |\n  {% if x %}\nc: *x\n") == {"a": 1, "b": "{% if x %}\n", "c": 1}
    assert read("") == ([], [])
    assert read("# only\n# comments\n") == ([], [])
    assert [d.data for d in read("---\n---\n---\n")[0]] == [None, None, None]


REFUSED: dict[str, bytes | str] = {
    "tab": "a:\n\tb: 1\n",
    "tab after spaces": "a:\n  \tb: 1\n",
    "tab that is not the fault": "key:\tvalue: x",
    "duplicate key": "a: 1\nb: 2\na: 3\n'a': 4\n",
    "duplicate keys deep down": "x:\n- {a: 1, a: 2}\n",
    "merge key": "a: &a {b: 1}\nc:\n  <<: *a\n",
    "merge key without an alias": "a:\n  <<: {b: 1}\n",
    "python object": "a: !!python/object/apply:os.system [ls]\n",
    "include": "a: !include x.yaml\n",
    "core tag": "a: !!str 12\n",
    "tag of a key": "!!str a: 12\n",
    "tag of a mapping": "!!map {a: 1}\n",
    "binary": "a: !!binary aGk=\n",
    "key that is a list": "? [a]\n: 1\n",
    "key that is a mapping": "{{a: b}: c}\n",
    "recursive alias": "a: &a [*a]\n",
    "recursive alias in a mapping": "a: &a\n  b: {c: *a}\n",
    "unknown alias": "a: *b\n",
    "control character": "a: 1\nb: é\x01\n",
    "control character after a byte order mark": b"\xef\xbb\xbfa: \x00\n",
    "latin-1": "a: é\nb: é ü\n".encode().replace("ü".encode(), b"\xfc"),
    "latin-1 after a byte order mark": b"\xef\xbb\xbfa: \xff",
    "utf-16": "a: 1\n".encode("utf-16"),
    "surrogate": b"a: \xed\xa0\x80",
    "bracket": "\r\ra: ]",
    "open quote": "a: 'x",
    "at sign": "a: @x",
}


SPEC = "spec:\n  partitions: 3\n"

SLIPS = {
    "indented too little": SPEC + " replicationFactor: 1\n",
    "indented too much": SPEC + "    replicationFactor: 1\n",
    "no space after a colon": "spec:\n  partitions:3\n  replicationFactor: 1\n",
    "no space above an empty line": "spec:\n  partitions:3\n\n  replicationFactor: 1\n",
    "a colon in a value": "note: this: is bad\n",
    "a colon after a quoted key": "'a': b: c\n",
    "a colon after a quoted key of the second line": "x: 1\n'a': b: c\n",
    "no key": ": a\n",
    "a quote that is closed in the next line": "k: 'x\n'b: 2\n",
    "a bracket that is closed twice": "b: {\n}]\n",
    "indented unlike the lines around an empty one": "a:\n    b: 1\n\n  d: 2\n",
    "the first line indented": " a: 1\nb: 2\n",
    "an item among keys": "a: 1\n- b\n",
    "a brace that is never closed": "spec: {a: 1, b: 2\n",
    "four dashes": "a: 1\n----\n",
    "a directive without a document": "%YAML 1.2\na: 1\n",
    "indented unlike the lines around a comment": "a:\n    b: 1\n  # c\n  d: 2\n",
    "a word alone": "a: 1\nword\nb: 2\n",
    "a Windows path": 'a: "C:\\data"\n',
}


def test_invalid_yaml_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {name: list_problems(raw) for name, raw in {**REFUSED, **SLIPS}.items()}
    assert list_texts(texts) == golden(name="invalid.txt")


def test_problem_does_not_hide_other_documents() -> None:
    documents, problems = read("a: !x 1\n---\nb: 2\n---\nc: 1\nc: 2\n---\nd: ]\n")
    assert [d.data for d in documents] == [{"b": 2}]
    assert [p.split(": ")[0] for p in problems] == ["f:1:4", "f:6:1", "f:8:4"]
    (problem,) = list_problems(f"? {'k' * 5000}\n: 1\n? {'k' * 5000}\n: 2\n")
    assert len(problem) < 200
    assert parse_one("'<<': 1\n\"<<a\": 2\n") == {"<<": 1, "<<a": 2}
    assert MAX_BYTES == 5 * 2**20
    (problem,) = list_problems(b"a: " + b"x" * 10_000_000)
    assert "5 MiB" in problem
    assert parse_one(b"a: " + b"x" * (MAX_BYTES - 3)) == {"a": "x" * (MAX_BYTES - 3)}


def bomb(levels: int) -> str:
    """Nine times nine times nine values."""
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines)


def test_aliases_and_nesting_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = list_problems(bomb(30))
    assert problem.startswith("f:1:1: aliases expand to ")
    assert isinstance(parse_one(bomb(4)), dict)
    assert parse_one("a: &x [1]\nb: *x\nc: *x\n") == {"a": [1], "b": [1], "c": [1]}
    (problem,) = list_problems("a: &x [1]\nb: *x\nc: [*x, *x]\nd: !include e\n")
    assert problem.startswith("f:4:4: ")

    # A chain of aliases is as deep as what it stands for.
    def chain(length: int) -> str:
        links = [f"x{i}: &x{i} [*x{i - 1}]" for i in range(1, length)]
        return "\n".join(["x0: &x0 [1]", *links])

    assert isinstance(parse_one(chain(MAX_DEPTH - 1)), dict)
    (problem,) = list_problems(chain(MAX_DEPTH))
    assert f"nested more than {MAX_DEPTH} deep" in problem
    assert parse_one("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)
    over = MAX_DEPTH + 1
    for aside in ("", "[1], 2, "):
        (problem,) = list_problems("[" + aside + "[" * MAX_DEPTH + "1" + "]" * over)
        assert f"nested more than {MAX_DEPTH} deep" in problem
    # Many brackets side by side are no nesting.
    assert parse_one("[" + "[]," * 1000 + "]") == [[]] * 1000
    (document,), _ = read(bomb(3))
    for limit, problems in ((document.size, 0), (document.size - 1, 1)):
        monkeypatch.setattr("kafkaform.config.manifests.yaml_hazards.MAX_NODES", limit)
        assert len(read(bomb(3))[1]) == problems


@pytest.fixture
def nodes_built(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each node that the parser began to build."""
    built: list[None] = []

    class Counting(LimitedComposer):
        def descend_resolver(self, parent: yaml.Node | None, index: object) -> None:
            super().descend_resolver(parent, index)
            built.append(None)

    monkeypatch.setattr("kafkaform.config.manifests.yaml12.LimitedComposer", Counting)
    return built


FEWER = 5_000
"""Values of a document, in the place of MAX_NODES: a parser in Python takes seconds for those."""
FLAT_BOMBS = {
    "list": "a: [" + "1," * (4 * FEWER) + "1]\n",
    "items": "a:\n" + "- 1\n" * (2 * FEWER),
    "keys": "".join(f"k{i}: 1\n" for i in range(FEWER)),
    "tags": "a: [" + "!x 1," * (2 * FEWER) + "1]\n",
}


@pytest.mark.parametrize("text", FLAT_BOMBS.values(), ids=FLAT_BOMBS.keys())
def test_document_with_too_many_values_is_refused_early(
    text: str, nodes_built: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (MAX_NODES, MAX_FILE_NODES, MAX_DOCUMENTS) == (250_000, 1_000_000, 20_000)
    monkeypatch.setattr("kafkaform.config.manifests.yaml_hazards.MAX_NODES", FEWER)
    (problem,) = list_problems(text)
    assert f"more than {FEWER:,} values" in problem
    assert len(nodes_built) == FEWER


def test_deep_nesting_is_refused_early(nodes_built: list[None]) -> None:
    (problem,) = list_problems("[" * 100_000)
    assert f"nested more than {MAX_DEPTH} deep" in problem
    assert len(nodes_built) == MAX_DEPTH + 1


def test_too_many_documents_are_refused_early(nodes_built: list[None]) -> None:
    documents, problems = read("---\n" * (10 * MAX_DOCUMENTS))
    assert len(documents) == MAX_DOCUMENTS
    (problem,) = problems
    assert f"more than {MAX_DOCUMENTS:,} documents" in problem
    assert len(nodes_built) == MAX_DOCUMENTS + 1


@pytest.mark.parametrize("anchor", ["", "&a "], ids=["without aliases", "with aliases"])
def test_values_are_limited(anchor: str, nodes_built: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 20_000
    monkeypatch.setattr("kafkaform.config.manifests.yaml_hazards.MAX_FILE_NODES", limit)
    each = 1_000
    document = f"[{anchor}1{',1' * (each - 2)}]\n---\n"  # and the list itself
    _, problems = read(document * (2 * limit // each))
    (problem,) = problems
    assert f"more than {limit:,} values" in problem
    assert len(nodes_built) == limit + 1  # the root of a document has no place to name yet


def test_expanded_aliases_count_as_values(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 100_000
    monkeypatch.setattr("kafkaform.config.manifests.yaml_hazards.MAX_FILE_NODES", limit)
    documents, problems = read((bomb(4) + "\n---\n") * 1_000)
    (problem,) = problems
    assert f"more than {limit:,} values" in problem
    assert sum(document.size for document in documents) < limit + documents[0].size


def test_locating_values_takes_linear_work() -> None:
    def calls(keys: int) -> int:
        (document,) = read("".join(f"k{i}: [1]\nj{i}: 1\n" for i in range(keys)))[0]
        count = 0

        def profile(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)
        try:
            for i in range(keys):
                assert document.locate([f"k{i}", 0]).line == 2 * i + 1
        finally:
            sys.setprofile(None)
        return count

    assert calls(400) <= 4 * calls(100) + 50  # where four times as much work for each would be 16 times


DEEP = {
    "brackets": "[" * 100_000,
    "braces": "{a: " * 100_000,
    "dashes": "- " * 100_000,
    "wide dashes": "a:\n" + "-  " * 100_000,
    "question marks": "? " * 100_000,
    "pairs in brackets": "[a: " * 100_000,
    "indentation": "\n".join(" " * i + "a:" for i in range(2_000)),
    "sequences at no indentation": "\n".join(f"{' ' * i}-\n{' ' * i} a:" for i in range(2_000)),
}


def test_deep_nesting_does_not_crash_the_interpreter() -> None:
    # In a process of its own: an overflow of the C stack would take pytest with it.
    script = (
        "import json, sys; from kafkaform.config.manifests.yaml12 import read_documents\n"
        "for text in json.load(sys.stdin):\n"
        "    found = []; read_documents(text.encode(), 'f', found.append)\n"
        "    print(found[0].message, flush=True)"
    )
    texts = json.dumps([*DEEP.values()])
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, input=texts, capture_output=True, text=True, check=False)
    messages = dict(zip(DEEP, done.stdout.splitlines(), strict=False))
    assert done.returncode == 0, (messages, done.stderr)
    assert messages.keys() == DEEP.keys()
    assert {*messages.values()} <= {
        f"collections are nested more than {MAX_DEPTH} deep",
        "not valid YAML: while scanning a simple key could not find expected ':'",
    }


CHARACTERS = "a[]{},|>'\"#1~\\@`é\n\t\r\x00\x85\u2028\ufeff"
YAML_BITES = [
    *CHARACTERS,
    *("b: ", ": ", "- ", "? ", "\n  ", "&a ", "*a", "!t ", "!!str ", "---\n", "...\n", "%YAML 1.2\n", "<<: "),
]
YAML_LIKE = st.lists(st.sampled_from(YAML_BITES), max_size=40).map(lambda bites: "".join(bites).encode())


@given(st.binary(max_size=200) | YAML_LIKE)
@example(b"\xef\xbb\xbf")
@example(b"%YAML 9.9\n---\na")
@example(b"&a &b c")
@example(b"? ? ?")
@example(b"a: *a")
@example(b"- &a\n- *a")
@example(b"!<> a")
def test_any_bytes_give_documents_or_problems(raw: bytes) -> None:
    problems: list[Problem] = []
    for document in read_documents(raw, "f", problems.append):
        document.locate(["a", 0])
        list(document.walk_texts())
    for problem in problems:
        assert problem.location is not None
        assert problem.location.line >= 1
        assert problem.location.column >= 1
        assert "\n" not in str(problem)
