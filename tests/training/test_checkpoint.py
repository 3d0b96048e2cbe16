"""Checkpoints are written whole, and read only if they are what was written."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import shortlist
from shortlist.errors import InputError, ShortlistError
from shortlist.training.checkpoint import Checkpoint, config_diff, load, save


def checkpoint(fill: float = 1.5) -> Checkpoint:
    g = torch.Generator().manual_seed(0)
    tensors = {
        "model/user": torch.randn(7, 3, generator=g) * fill,
        "model/item": torch.randn(4, 3, generator=g, dtype=torch.float64),
        "optimizer/last.0": torch.arange(7, dtype=torch.int32),
        "optimizer/step": torch.tensor(12),
        "best/mask": torch.tensor([True, False]),
        "thresholds/value": torch.zeros(0),
    }
    facts = {"identity": {"seed": 3, "loss": {"tau": 0.2}}, "progress": {"epoch": 12, "best_value": -float("inf")}}
    return Checkpoint(tensors, facts)


def same(one: Checkpoint, other: Checkpoint) -> bool:
    return one.facts == other.facts and all(
        name in other.tensors and tensor.dtype == other.tensors[name].dtype and torch.equal(tensor, other.tensors[name])
        for name, tensor in one.tensors.items()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.safetensors"


def message_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: expected ")
    assert "received" in message
    assert "\n" not in message
    return message


def load_or_none(path: Path) -> Checkpoint | None:
    try:
        return load(path)
    except InputError:
        return None


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root may write everywhere: be nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


class TestRoundTrip:
    def test_gives_back_what_was_saved(self, path: Path) -> None:
        save(path, checkpoint())
        assert same(load(path), checkpoint())
        assert same(checkpoint(), load(path))

    def test_replaces_the_one_before_and_leaves_nothing_beside_it(self, path: Path) -> None:
        save(path, checkpoint(1.0))
        save(path, checkpoint(2.0))
        assert same(load(path), checkpoint(2.0))
        assert names_in(path.parent) == [path.name]

    def test_makes_the_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "checkpoint.safetensors"
        save(path, checkpoint())
        assert same(load(path), checkpoint())

    def test_takes_tensors_that_are_parts_or_views(self, path: Path) -> None:
        whole = torch.arange(12.0).view(3, 4).requires_grad_()
        save(path, Checkpoint({"columns": whole[:, 1:3], "turned": whole.T}, {}))
        assert torch.equal(load(path).tensors["columns"], whole[:, 1:3])
        assert torch.equal(load(path).tensors["turned"], whole.T)

    def test_same_content_same_bytes(self, path: Path) -> None:
        save(path, checkpoint())
        first = path.read_bytes()
        save(path, checkpoint())
        assert path.read_bytes() == first

    def test_is_a_plain_safetensors_file(self, path: Path) -> None:
        save(path, checkpoint())
        with safe_open(path, framework="np") as file:
            assert json.loads(file.metadata()["facts"])["identity"] == {"seed": 3, "loss": {"tau": 0.2}}


class TestDamage:
    def test_missing(self, path: Path) -> None:
        assert message_of(path) == f"{path}: expected a checkpoint to resume from, received nothing"

    def test_cut_short(self, path: Path) -> None:
        save(path, checkpoint())
        whole = path.read_bytes()
        for length in {0, 1, 7, 8, 9, *range(10, len(whole), 13), len(whole) - 1}:
            path.write_bytes(whole[:length])
            message_of(path)

    def test_grown(self, path: Path) -> None:
        save(path, checkpoint())
        path.write_bytes(path.read_bytes() + b"\0")
        message_of(path)

    def test_one_byte_changed_anywhere(self, path: Path) -> None:
        """Refused, or without consequence: a blank between two words of the header may become another blank."""
        save(path, checkpoint())
        whole = path.read_bytes()
        harmless = 0
        for place in range(len(whole)):
            altered = bytearray(whole)
            altered[place] ^= (0x01, 0x08, 0x20, 0x80)[place % 4]
            path.write_bytes(altered)
            taken = load_or_none(path)
            assert taken is None or same(taken, checkpoint()), f"byte {place}"
            harmless += taken is not None
        assert harmless < 8

    @pytest.mark.parametrize(
        ("written", "altered"), [(b'"F32"', b'"I32"'), (b"[7,3]", b"[3,7]"), (b'epoch\\": 12', b'epoch\\": 13')]
    )
    def test_what_is_said_about_tensors_is_altered(self, path: Path, written: bytes, altered: bytes) -> None:
        save(path, checkpoint())
        whole = path.read_bytes()
        assert written in whole
        path.write_bytes(whole.replace(written, altered, 1))
        assert message_of(path).endswith("expected the checkpoint as it was written, received an altered file")

    @pytest.mark.parametrize(
        "content", [b"", b"not a checkpoint", b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 64, b"\x10\0\0\0\0\0\0\0" + b"[" * 16]
    )
    def test_something_else(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        message_of(path)

    def test_a_folder(self, path: Path) -> None:
        path.mkdir()
        message_of(path)


class TestFailedWrites:
    def test_a_place_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ShortlistError, match="the checkpoint cannot be written") as caught:
            save(tmp_path / "file" / "checkpoint.safetensors", checkpoint())
        assert "\n" not in str(caught.value)

    def test_a_path_that_is_a_folder(self, path: Path) -> None:
        (path / "inside").mkdir(parents=True)
        with pytest.raises(ShortlistError, match="the checkpoint cannot be written"):
            save(path, checkpoint())
        assert names_in(path.parent) == [path.name]

    def test_a_folder_that_may_not_be_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint.safetensors"
            save(path, checkpoint(1.0))
            path.parent.chmod(0o555)
            with as_somebody_else(), pytest.raises(ShortlistError, match=r"cannot be written: .*Permission denied"):
                save(path, checkpoint(2.0))
            path.parent.chmod(0o700)
            assert same(load(path), checkpoint(1.0))
            assert names_in(path.parent) == [path.name]

    def test_a_full_disk_keeps_the_old_one(self, path: Path) -> None:
        """Files may not grow beyond 4 KB in this process; the next checkpoint would be a hundred."""
        save(path, checkpoint())
        program = f"""
import resource, torch
from pathlib import Path
from shortlist.errors import ShortlistError
from shortlist.training.checkpoint import Checkpoint, save
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save(Path({str(path)!r}), Checkpoint({{"a": torch.zeros(25_000)}}, {{}}))
except ShortlistError as problem:
    print("refused:", problem)
"""
        answer = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(Path(shortlist.__file__).parents[1])},
        )
        assert answer.stdout.startswith(f"refused: {path}: the checkpoint cannot be written: ")
        assert answer.stdout.count("\n") == 1
        assert same(load(path), checkpoint())
        assert names_in(path.parent) == [path.name]

    def test_a_small_disk_that_is_really_full(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("no file system of a given size can be mounted here")
        try:
            path = disk / "checkpoint.safetensors"
            save(path, checkpoint())
            with pytest.raises(ShortlistError, match="the checkpoint cannot be written"):
                save(path, Checkpoint({"a": torch.zeros(25_000)}, {}))
            assert same(load(path), checkpoint())
            assert names_in(disk) == [path.name]
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_a_stop_between_writing_and_renaming_keeps_the_old_one(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save(path, checkpoint(1.0))

        def stop(self: Path, target: Path) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stop)
            with pytest.raises(KeyboardInterrupt):
                save(path, checkpoint(2.0))
        assert same(load(path), checkpoint(1.0))
        save(path, checkpoint(3.0))
        assert same(load(path), checkpoint(3.0))
        assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("saved", "given", "words"),
    [
        ({}, {}, None),
        ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}, None),
        ({"a": 1}, {"a": 2}, "a: expected 1, received 2"),
        ({"a": 1}, {}, "a: expected 1, received None"),
        ({}, {"a": 1}, "a: expected None, received 1"),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 1, "d": 3}}}, "a.b.d: expected 2, received 3"),
        ({"a": {"b": 1}}, {"a": 5}, "a: expected {'b': 1}, received 5"),
        ({"a": 5}, {"a": {"b": 1}}, "a: expected 5, received {'b': 1}"),
    ],
)
def test_first_difference_in_words(saved: dict[str, object], given: dict[str, object], words: str | None) -> None:
    assert config_diff(saved, given) == words
