"""Downloads against a real server: whole, interrupted, refused, changed under way."""

import hashlib
import socket
from functools import partial as bind
from pathlib import Path

import numpy as np
import pytest

from data.web import Site, served
from shortlist.data import download
from shortlist.data.download import Partial, digest_of
from shortlist.errors import InputError, ShortlistError

CONTENT = np.random.default_rng(0).bytes(1_000_000)
fetch = bind(download.fetch, pause_seconds=0.0)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_whole_file_arrives_and_is_told_of(tmp_path: Path, chunked: bool) -> None:
    answer_json = []
    with served(Site(CONTENT, chunked=chunked)) as site:
        part = fetch(
            site.address, tmp_path / "new/folder/set.zip", lambda done, total: answer_json.append((done, total))
        )
    assert part.name == "set.zip.part"
    assert part.read_bytes() == CONTENT
    assert answer_json[-1] == (len(CONTENT), None if chunked else len(CONTENT))
    assert [done for done, _ in answer_json] == sorted(done for done, _ in answer_json)


def test_a_broken_connection_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    with served(Site(CONTENT, cut_after=[300_000, 300_000, 0])) as site:
        with pytest.raises(ShortlistError, match="600,000 bytes are kept for the next attempt"):
            fetch(site.address, tmp_path / "set.zip")
        assert Partial.of(tmp_path / "set.zip").data.read_bytes() == CONTENT[:600_000]
        assert not (tmp_path / "set.zip").exists()
        part = fetch(site.address, tmp_path / "set.zip")
    assert site.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=600000-"]
    assert part.read_bytes() == CONTENT


def test_a_broken_chunked_answer_is_noticed(tmp_path: Path) -> None:
    with served(Site(CONTENT, chunked=True, cut_after=[1000])) as site:
        assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT
    assert len(site.asked) == 2


def test_a_file_that_changed_meanwhile_is_not_spliced(tmp_path: Path) -> None:
    with served(Site(CONTENT, cut_after=[300_000, 0])) as site:
        with pytest.raises(ShortlistError):
            fetch(site.address, tmp_path / "set.zip")
        site.content, site.tag = CONTENT[::-1], '"second"'
        assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_sends_everything_again(tmp_path: Path) -> None:
    with served(Site(CONTENT, ranges=False, cut_after=[300_000])) as site:
        assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT
    assert site.asked == [None, "bytes=300000-"]


def test_bytes_without_a_mark_of_their_version_are_not_kept(tmp_path: Path) -> None:
    with served(Site(CONTENT, tag=None, cut_after=[300_000])) as site:
        with pytest.raises(
            ShortlistError, match=r"interruption \(the connection ended after 300,000 of 1,000,000 bytes\)$"
        ):
            fetch(site.address, tmp_path / "set.zip")
        assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT
    assert site.asked == [None, None]


def test_what_was_complete_is_not_fetched_again(tmp_path: Path) -> None:
    with served(Site(CONTENT)) as site:
        for _ in range(2):
            assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT
    assert site.asked == [None, "bytes=1000000-"]


def test_more_than_the_server_has_is_thrown_away(tmp_path: Path) -> None:
    partial = Partial.of(tmp_path / "set.zip")
    partial.data.write_bytes(CONTENT + b"more")
    partial.tag.write_text('"first"')
    with served(Site(CONTENT)) as site:
        assert fetch(site.address, tmp_path / "set.zip").read_bytes() == CONTENT
    assert site.asked == ["bytes=1000004-", None]


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP 404 Not Found"), (503, "HTTP 503 Service Unavailable")])
def test_a_refusal_is_one_line_and_leaves_nothing(tmp_path: Path, status: int, words: str) -> None:
    with served(Site(CONTENT, status=status)) as site, pytest.raises(ShortlistError, match=words) as caught:
        fetch(site.address, tmp_path / "set.zip")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_web_page_is_no_data(tmp_path: Path) -> None:
    with served(Site(b"<html>", content_type="text/html")) as site, pytest.raises(ShortlistError, match="a web page"):
        fetch(site.address, tmp_path / "set.zip")
    assert list(tmp_path.iterdir()) == []


def test_an_answer_whose_end_cannot_be_known_is_refused(tmp_path: Path) -> None:
    with (
        served(Site(CONTENT, tells_length=False)) as site,
        pytest.raises(ShortlistError, match="with a length"),
    ):
        fetch(site.address, tmp_path / "set.zip")
    assert list(tmp_path.iterdir()) == []


def test_nobody_answering_fails_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ShortlistError, match="interruption"):
        fetch(f"http://127.0.0.1:{port}/set.zip", tmp_path / "set.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="expected a place to write to"):
        fetch("http://127.0.0.1:9/set.zip", tmp_path / "file/set.zip")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    Partial.of(tmp_path / "set.zip").data.symlink_to("/dev/full")
    with (
        served(Site(CONTENT)) as site,
        pytest.raises(ShortlistError, match="cannot be written: No space"),
    ):
        fetch(site.address, tmp_path / "set.zip")


def test_digests(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    for algorithm in ("md5", "sha256"):
        with (tmp_path / "file").open("rb") as stream:
            assert digest_of(stream, algorithm) == hashlib.new(algorithm, CONTENT).hexdigest()
