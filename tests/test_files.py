"""Atomic writes: the previous file or the new one, the umask's permissions, one line per error."""

import errno
import os
from pathlib import Path

import pytest

from shortlist.errors import InputError, WriteError, WriteTargetError
from shortlist.files import atomic_file, json_text, set_default_mode, write_atomically, write_errors


class TestAtomicWrites:
    def test_new_and_replaced_files(self, tmp_path: Path) -> None:
        for content in (b"old", b"new"):
            write_atomically(tmp_path / "file", content)
            assert (tmp_path / "file").read_bytes() == content
            assert [path.name for path in tmp_path.iterdir()] == ["file"]

    @pytest.mark.parametrize("shared", [False, True])
    def test_an_error_keeps_the_previous_file(self, tmp_path: Path, shared: bool) -> None:
        write_atomically(tmp_path / "file", b"old")
        with pytest.raises(KeyboardInterrupt), atomic_file(tmp_path / "file", shared=shared) as draft:  # noqa: PT012
            draft.write_bytes(b"half")
            assert (tmp_path / "file").read_bytes() == b"old"
            raise KeyboardInterrupt
        assert (tmp_path / "file").read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_the_draft_of_a_crashed_write_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / ".file.new").write_bytes(b"left by a crash")
        write_atomically(tmp_path / "file", b"new")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_shared_drafts_have_different_names(self, tmp_path: Path) -> None:
        with atomic_file(tmp_path / "file", shared=True) as one, atomic_file(tmp_path / "file", shared=True) as other:
            assert one != other
            one.write_bytes(b"outer")
            other.write_bytes(b"inner")
        assert (tmp_path / "file").read_bytes() == b"outer"

    def test_permissions_follow_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_atomically(tmp_path / "file", b"")
            folder = tmp_path / "folder"
            folder.mkdir(mode=0o700)
            set_default_mode(folder)
            assert os.umask(0o027) == 0o027  # reading it does not change it
        finally:
            os.umask(before)
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
        assert folder.stat().st_mode & 0o777 == 0o750

    def test_the_file_is_synced_before_it_is_renamed_and_the_folder_after(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = []
        rename = Path.replace
        monkeypatch.setattr("shortlist.files.sync", lambda path: steps.append(f"sync {path.name}"))
        monkeypatch.setattr(Path, "replace", lambda one, other: (steps.append("rename"), rename(one, other))[1])
        write_atomically(tmp_path / "file", b"")
        assert steps == ["sync .file.new", "rename", f"sync {tmp_path.name}"]


class TestErrors:
    @pytest.mark.parametrize("code", [errno.EACCES, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.EEXIST])
    def test_a_wrong_place_is_bad_input(self, code: int) -> None:
        expected = "a: expected a place to write a run to, received"
        with pytest.raises(WriteTargetError, match=expected) as caught, write_errors(Path("a"), "run"):
            raise OSError(code, os.strerror(code))
        assert isinstance(caught.value, InputError)

    def test_a_full_disk_is_a_failure(self) -> None:
        expected = "^a: the run cannot be written: No space left on device$"
        with pytest.raises(WriteError, match=expected) as caught, write_errors(Path("a"), "run"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert not isinstance(caught.value, InputError)

    def test_without_a_kind_of_file(self) -> None:
        with pytest.raises(WriteError, match=r"^a: cannot be written: I/O error$"), write_errors(Path("a")):
            raise OSError(errno.EIO, "I/O error")


def test_json_text() -> None:
    assert json_text({"title": "Zoë"}) == '{\n  "title": "Zoë"\n}\n'
    assert json_text({"title": "Zoë"}, ascii_only=True) == '{\n  "title": "Zo\\u00eb"\n}\n'
