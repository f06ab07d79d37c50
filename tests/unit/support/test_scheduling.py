"""The order of the tests' work, and what their folders promise."""

from pathlib import Path

import pytest

from tests.conftest import GROUP_CLUSTERS, HEAVY, SPARK, get_group

ROOT = Path(__file__).parents[3]
CONFTEST = """
import pytest
from tests.conftest import pytest_collection_modifyitems, pytest_configure

kafka, kafka3 = (pytest.fixture(lambda: None, name=name) for name in ("kafka", "kafka3"))

@pytest.fixture
def three(kafka3):
    pass
"""
NIGHTLY = "import pytest\n@pytest.mark.nightly\ndef test_it(): pass\n"
pytest_plugins = "pytester"


def test_heavy_files_are_separate_groups() -> None:
    """A file that needs a shared cluster is begun with the others that do."""
    files = [name for name in HEAVY if name not in {SPARK, *GROUP_CLUSTERS}]
    assert [name for name in files if not (ROOT / "tests" / name).exists()] == []
    assert [get_group(f"tests/{name}", ROOT) for name in files] == files


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("unit/test_a.py", "def test_it(kafka): pass\n", "a unit test starts no broker"),
        ("kafka/test_a.py", "def test_it(three): pass\n", "does not name the cluster that it needs"),
        ("nightly/test_a.py", "def test_it(): pass\n", "say why it is nightly"),
        ("kafka/test_a.py", NIGHTLY, "say why it is nightly"),
    ],
)
def test_folder_rules_are_enforced(pytester: pytest.Pytester, file: str, text: str, message: str) -> None:
    test = pytester.path / "tests" / file
    test.parent.mkdir(parents=True)
    test.write_text(text)
    pytester.makeconftest(CONFTEST)
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stdout.str() + done.stderr.str()
