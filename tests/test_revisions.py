"""A file through git's history, in a repository made for it; nothing of the checkout is written."""

import subprocess
from pathlib import Path

import pytest

from assay.errors import UsageError
from assay.record import Unavailable
from assay.revisions import commit_of, is_ancestor, revisions

FILE = Path("kernels/one.py")


def git(*arguments: str) -> str:
    settled = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settled, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(text: str | None, subject: str) -> str:
    """Commit the file with this text, or without it, and return the commit."""
    if text is None:
        FILE.unlink()
    else:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "--message", subject)
    return git("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch", "main")


def contents(good: str, bad: str) -> list[bytes | Unavailable]:
    return [one.content for one in revisions(good, bad, FILE)]


def test_every_commit_that_touched_the_file_oldest_first() -> None:
    first = commit("1", "First")
    commit("2", "Second")
    Path("other").write_text("x")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Not about it")
    last = commit("3", "Third")
    found = revisions(first, last, FILE)
    assert [one.content for one in found] == [b"1", b"2", b"3"]
    assert [one.subject for one in found] == ["First", "Second", "Third"]
    assert found[0].sha == first
    assert contents(last, first) == [b"3", b"2", b"1"]


def test_in_a_folder_of_the_repository_the_path_is_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("inner/kernels").mkdir(parents=True)
    monkeypatch.chdir("inner")
    first = commit("1", "First")
    last = commit("2", "Second")
    assert contents(first, last) == [b"1", b"2"]


def test_where_the_file_is_gone_there_is_no_content() -> None:
    first = commit("1", "First")
    commit(None, "Removed")
    last = commit("1", "Restored")
    middle = contents(first, last)[1]
    assert middle == Unavailable(reason="there is no kernels/one.py in this commit")


def test_a_merge_is_one_change_of_the_line_it_goes_into() -> None:
    first = commit("1", "First")
    git("checkout", "--quiet", "-b", "side")
    commit("2", "On the side")
    commit("3", "On the side too")
    git("checkout", "--quiet", "main")
    Path("other").write_text("x")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Meanwhile")
    git("merge", "--quiet", "--no-ff", "--message", "Merge", "side")
    assert contents(first, "main") == [b"1", b"3"]


def test_the_checkout_is_not_touched() -> None:
    first = commit("1", "First")
    last = commit("2", "Second")
    FILE.write_text("edited")
    Path("new").write_text("untracked")
    index = Path(".git/index").read_bytes()
    revisions(first, last, FILE)
    assert FILE.read_text() == "edited"
    assert Path(".git/index").read_bytes() == index
    assert git("rev-parse", "HEAD") == last


def test_bytes_are_those_of_the_commit_whatever_a_checkout_would_make_of_them() -> None:
    first = commit("1", "First")
    Path(".gitattributes").write_text("*.py diff=shout text eol=crlf\n")
    git("config", "diff.shout.textconv", "tr a-z A-Z <")
    last = commit("line\n", "Second")
    assert contents(first, last)[-1] == b"line\n"


@pytest.mark.parametrize("revision", ["nowhere", "--help", "-n1", "HEAD~9", "", "HEAD:kernels"])
def test_what_is_no_commit_is_refused(revision: str) -> None:
    commit("1", "First")
    with pytest.raises(UsageError, match="expected a commit of this checkout"):
        commit_of(revision)


def test_lines_that_never_meet_in_order_are_refused() -> None:
    commit("1", "First")
    git("checkout", "--quiet", "-b", "side")
    side = commit("2", "Side")
    git("checkout", "--quiet", "main")
    main = commit("3", "Main")
    assert not is_ancestor(side, main)
    with pytest.raises(UsageError, match="to come before the other"):
        revisions(side, main, FILE)


def test_a_file_that_nothing_touched_is_refused() -> None:
    first = commit("1", "First")
    Path("other").write_text("x")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Not about it")
    with pytest.raises(UsageError, match=r"kernels/one\.py: expected a commit between .* that touched it, found none"):
        revisions(first, "HEAD", FILE)


def test_without_git_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="git: cannot be run"):
        commit_of("HEAD")
