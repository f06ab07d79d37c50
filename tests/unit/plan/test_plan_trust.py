import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kafkaform import __version__
from kafkaform.core.errors import PlanFileError
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import plan_from_json, plan_to_json, sign
from kafkaform.plan.plan_header import CLOCKS_DIFFER, PlanHeader
from kafkaform.plan.plan_signature import Purpose, SignedFor, signature_member
from kafkaform.plan.plan_trust import Checkout, TrustRequirements, check_trust
from kafkaform.vcs.repository import Repository
from tests.support.github.git_work import Work

HEAD = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
NOW = datetime(2025, 6, 8, 12, 0, 0, tzinfo=UTC)
MADE = PlanHeader(__version__, HEAD, "prod", "prod", "2025-06-08T11:00:00Z")
KEY = Ed25519PrivateKey.generate()
KEYS = (KEY.public_key(),)


def check(made: PlanHeader, *keys: Any, **terms: Any) -> None:
    check_trust(made, TrustRequirements(*keys, **terms), now=NOW, file="plan.json")


def read_refusal(made: PlanHeader, *keys: Any, **terms: Any) -> PlanFileError:
    with pytest.raises(PlanFileError) as error:
        check(made, *keys, **terms)
    assert error.value.message.startswith("plan.json: ")
    assert error.value.message.isprintable()
    assert error.value.hint
    return error.value


def test_missing_signature_is_reported_first() -> None:
    bad = replace(MADE, tool_version="9.0.0", created_at="2031-13-01T00:00:00Z", commit=OTHER)
    error = read_refusal(bad, KEYS, max_age=timedelta(0), checkout=Checkout(HEAD))
    assert "the plan is not signed" in error.message


def test_signed_plan_meets_all_terms() -> None:
    made = sign_header(Purpose.APPLY)
    check(made, KEYS, max_age=timedelta(hours=1), checkout=Checkout(HEAD))
    assert "not trusted here" in read_refusal(made, ()).message


def sign_header(purpose: Purpose, made: PlanHeader = MADE) -> PlanHeader:
    """Return the signature of a plan with this header."""
    signed_for = SignedFor(purpose, "refs/heads/main")
    return plan_from_json(sign(plan_to_json(Plan("c"), made), KEY, signed_for), "plan.json")[1]


def test_plan_signed_for_review_is_not_applied() -> None:
    error = read_refusal(sign_header(Purpose.REVIEW), KEYS)
    assert "signed for review, not for apply" in error.message
    assert "apply --reviewed" in str(error.hint)
    for purpose in Purpose:
        check(sign_header(purpose), KEYS, frozenset(Purpose))


@pytest.mark.parametrize("purposes", [frozenset({Purpose.APPLY}), frozenset(Purpose)])
def test_signature_without_purpose_is_refused(purposes: frozenset[Purpose]) -> None:
    document = json.loads(plan_to_json(Plan("c"), MADE))
    signed = json.dumps({**document, "signature": signature_member(document, KEY)})
    made = plan_from_json(signed, "plan.json")[1]
    assert "not for a stated purpose" in read_refusal(made, KEYS, purposes).message
    check(made)  # where nobody asks for a signature


def test_signed_plan_must_be_of_merged_commit(tmp_path: Path) -> None:
    work = Work(tmp_path)
    first = work.commit(**{"topics/a.yaml": "a"})
    work.git("checkout", "-q", "-b", "other")
    unmerged = work.commit(**{"topics/a.yaml": "b"})
    work.git("checkout", "-q", "main")
    head = work.commit(**{"topics/b.yaml": "b"})
    repository = Repository.find(tmp_path)

    def sign_commit(commit: str | None) -> PlanHeader:
        return sign_header(Purpose.APPLY, replace(MADE, commit=commit))

    for commit in (first, head):
        check(sign_commit(commit), KEYS, repository=repository)
    elsewhere = "which is not merged into the checked-out commit"
    for unknown, message in {
        # Whatever ref the plan says that it is of: that is its signer's word.
        unmerged: f"from commit {unmerged[:12]}, {elsewhere} {head[:12]}",
        "f" * 40: "is not a commit in the Git repository",
        "other": f"from commit other, {elsewhere}",
        "main": f"from commit main, {elsewhere}",
        "--all": "is not a commit in the Git repository",
        f"{head}-dirty": "from files that differ from commit",
        None: "does not contain the commit",
    }.items():
        assert message in read_refusal(sign_commit(unknown), KEYS, repository=repository).message, unknown
    check(replace(MADE, commit=unmerged), repository=repository)  # nobody asks for a signature


def test_checked_out_ref_is_read(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.commit(a="1")
    repository = Repository.find(tmp_path)
    assert repository.read_ref() == "refs/heads/main"
    work.commit(a="2")
    work.git("checkout", "-q", "--detach")
    assert repository.read_ref() == "refs/heads/main"
    work.git("update-ref", "refs/remotes/pull/12/merge", "HEAD")
    assert repository.read_ref() is None  # either could be meant
    work.git("checkout", "-q", "--detach", "HEAD^")
    assert repository.read_ref() is None
    work.git("update-ref", "refs/remotes/pull/13/merge", "HEAD")
    assert repository.read_ref() == "refs/remotes/pull/13/merge"


def test_plan_of_another_version_is_refused_by_name() -> None:
    error = read_refusal(replace(MADE, tool_version="7.2.1\x1b[2J"))
    assert r"made by kafkaform 7.2.1\x1b[2J, and this is" in error.message


@pytest.mark.parametrize(
    ("created", "max_age", "age", "limit"),
    [
        ("2025-06-08T11:00:00Z", timedelta(minutes=59), "60 minutes", "59 minutes"),
        ("2025-06-01T12:00:00Z", timedelta(hours=24), "7 days", "24 hours"),
        ("2025-06-08T11:59:58.5Z", timedelta(seconds=1), "1 second", "1 second"),
        ("1999-01-01T00:00:00Z", timedelta(days=3000), "9,655 days", "3,000 days"),
    ],
)
def test_old_plan_is_refused(created: str, max_age: timedelta, age: str, limit: str) -> None:
    error = read_refusal(replace(MADE, created_at=created), max_age=max_age)
    assert f"the plan is {age} old; the maximum age is {limit}" in error.message
    assert "--max-age" in str(error.hint)


def test_ages_are_measured_with_some_tolerance() -> None:
    check(MADE, max_age=timedelta(hours=1))
    # Clocks may differ a little.
    ahead = (NOW + CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%SZ")
    check(replace(MADE, created_at=ahead), max_age=timedelta(0))
    later = (NOW + CLOCKS_DIFFER + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    error = read_refusal(replace(MADE, created_at=later), max_age=timedelta(days=1))
    assert "a creation time in the future: 2025-06-08T12:05:01Z" in error.message


@pytest.mark.parametrize("created", ["2025-13-01T00:00:00Z", "2025-06-08T24:00:00Z", "0000-01-01T00:00:00Z"])
def test_invalid_time_is_refused(created: str) -> None:
    error = read_refusal(replace(MADE, created_at=created), max_age=timedelta(days=1))
    assert f"invalid creation time {created}" in error.message


@pytest.mark.parametrize(
    ("commit", "checkout", "message"),
    [
        (None, Checkout(HEAD), "does not contain the commit"),
        (OTHER, Checkout(HEAD), f"from commit {OTHER[:12]}, but {HEAD[:12]} is checked out"),
        (HEAD[:12], Checkout(HEAD), f"from commit {HEAD[:12]}, but {HEAD[:12]} is checked out"),
        (f"{HEAD}-dirty", Checkout(HEAD), f"from files that differ from commit {HEAD[:12]}"),
        (f"{HEAD}-dirty", Checkout(f"{HEAD}-dirty"), f"from files that differ from commit {HEAD[:12]}"),
        ("", Checkout(HEAD), f"from commit , but {HEAD[:12]} is checked out"),
        ("\x1b[2J" + HEAD, Checkout(HEAD), r"from commit \x1b[2J01234567, but"),
        (HEAD, Checkout(HEAD, ("a.yaml", "b\n.yaml", *"cdefg")), r"a.yaml, b\n.yaml, c, d, e and 2 more"),
    ],
)
def test_plan_from_another_commit_is_refused(commit: str | None, checkout: Checkout, message: str) -> None:
    error = read_refusal(replace(MADE, commit=commit), checkout=checkout)
    assert message in error.message


def test_checkout_lists_edited_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    work = Work(tmp_path)
    commit = work.commit(**{"topics/a.yaml": "a", "kafkaform.yaml": "c", "README.md": "r"})
    paths = [tmp_path / "topics", tmp_path / "kafkaform.yaml"]
    work.write("README.md", "edited")
    assert Checkout.read(Repository.find(tmp_path), paths) == Checkout(commit)
    work.write("kafkaform.yaml", "edited")
    work.write("topics/b.yaml", "new")
    here = Checkout.read(Repository.find(tmp_path), paths)
    assert here == Checkout(commit, ("kafkaform.yaml", "topics/b.yaml"))
