"""The order of the tests' work, and what their folders promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import GROUP_CLUSTERS, HEAVY, SPARK, get_group

ROOT = Path(__file__).parents[3]
CONFTEST = """
import pytest
from tests.conftest import pytest_collection_modifyitems, pytest_configure

@pytest.fixture
def kafka():
    pass

@pytest.fixture
def kafka3():
    pass

@pytest.fixture
def three(kafka3):
    pass
"""


NIGHTLY = "import pytest\n@pytest.mark.nightly{}\ndef test_it(): pass\n"
pytest_plugins = "pytester"


def test_heavy_files_are_separate_groups() -> None:
    """A file that needs a shared cluster is begun with the others that do."""
    files = [name for name in HEAVY if name not in {SPARK, *GROUP_CLUSTERS}]
    assert [name for name in files if not (ROOT / "tests" / name).exists()] == []
    assert [get_group(f"tests/{name}", ROOT) for name in files] == files


def outcomes_in(pytester: pytest.Pytester, files: dict[str, str], *options: str) -> pytest.RunResult:
    """The same within this process, which has imported everything already."""
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        pytester.path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        pytester.path.joinpath(name).write_text(text)
    return pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib", *options)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("unit/test_a.py", "def test_it(kafka): pass\n", "a unit test starts no broker"),
        ("kafka/test_a.py", "def test_it(three): pass\n", "does not name the cluster that it needs"),
        ("nightly/test_a.py", "def test_it(): pass\n", "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY.format(""), "say why it is nightly"),
    ],
)
def test_folder_rules_are_enforced(pytester: pytest.Pytester, file: str, text: str, message: str) -> None:
    done = outcomes_in(pytester, {f"tests/{file}": text})
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()
