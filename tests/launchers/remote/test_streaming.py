"""A rank's folder as it travels: what arrives is what was written, in the order that makes an announcement true."""

import os
from pathlib import Path

import pytest

from tfscale.suite.launchers import procfs
from tfscale.suite.launchers.remote.hosted import workspace
from tfscale.suite.launchers.remote.streaming import PIECE, Copy, Feed, Piece


def sent(feed: Feed, final: bool = False) -> list[Piece]:
    return [Piece.of(piece.document()) for piece in feed.pieces(final=final)]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_what_an_event_tells_of_comes_before_it(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    feed, copy = Feed(here), Copy(there)
    (here / "log.txt").write_text("a line\n")
    assert [piece.path for piece in sent(feed)] == ["log.txt"]
    (here / "result.json").write_text("{}")
    assert sent(feed) == []  # nobody has told of it yet: it may be half of what it will be
    (here / "plugins/profile").mkdir(parents=True)
    (here / "plugins/profile/h.xplane.pb").write_bytes(os.urandom(PIECE * 2 + 17))
    (here / "events.jsonl").write_text('{"event": "phase", "name": "written"}\n')
    pieces = sent(feed)
    assert [p.path for p in pieces if p.path != "plugins/profile/h.xplane.pb"] == ["result.json", "events.jsonl"]
    assert pieces[-1].path == "events.jsonl"
    (here / "log.txt").write_text("a line\nand another\n")
    pieces += sent(feed, final=True)
    copy.take(Piece("log.txt", 0, b"a line\n", last=True))
    for piece in pieces:
        copy.take(piece)
        copy.take(piece) if piece.path == "log.txt" else None  # twice is once
    assert contents(there) == contents(here)
    assert sent(feed, final=True) == []


def test_a_file_that_changes_is_sent_again_whole(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    feed, copy = Feed(here), Copy(there)
    for text in ("one", "three", ""):
        (here / "result.json").write_text(text)
        for piece in sent(feed, final=True):
            copy.take(piece)
        assert contents(there) == {"result.json": text.encode()}


def test_what_is_being_written_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / ".result.json.12.tmp").write_text("half")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert sent(Feed(tmp_path), final=True) == []


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "", "a\0b"])
def test_no_piece_leaves_the_folder(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no path within"):
        Copy(tmp_path / "rank0").take(Piece(path, 0, b"x", last=True))
    assert not (tmp_path / "out").exists()


def test_a_piece_that_does_not_follow_is_refused(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    for name in ("log.txt", "result.json"):
        with pytest.raises(ValueError, match=name):
            copy.take(Piece(name, 5, b"x", last=True))


def test_the_workspace_of_an_agent_that_was_killed_is_removed(tmp_path: Path) -> None:
    started = procfs.started(os.getpid())
    (tmp_path / f"tfscale-agent-{os.getpid()}-{started}-live").mkdir()
    (tmp_path / f"tfscale-agent-{os.getpid()}-1-dead").mkdir()
    (tmp_path / "tfscale-agent-mine").mkdir()
    made = workspace(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"tfscale-agent-{os.getpid()}-{started}-live", "tfscale-agent-mine", made.name}
