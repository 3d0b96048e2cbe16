"""Texts that are not what they look like: byte order marks, lone surrogates, numbers written in other ways."""

from pathlib import Path

import pytest

from command import Command, says
from shortlist.data import load
from shortlist.errors import InputError


def test_a_byte_order_mark_in_ndjson(tmp_path: Path) -> None:
    lines = ['{"user": "ann", "item": 1}', '{"user": "ann", "item": 2}', '{"user": "bob", "item": 2}']
    path = tmp_path / "t.ndjson"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join([*lines, '{"user": "bob", "item": 3}']).encode())
    assert load(path, valid_share=0.0).train.user_ids.to_list() == ["ann", "bob"]


def test_lone_surrogates_in_ndjson_do_not_merge_users(tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_text(
        '{"user": "\\ud83d\\ude00", "item": 1}\n{"user": "\\ud800", "item": 2}\n{"user": "\\ud801", "item": 1}\n'
    )
    with pytest.raises(InputError, match="row 2: expected text, received half of a pair of escapes"):
        load(path)


def test_only_canonical_numbers_match_numeric_ids(shortlist: Command, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("user,item\n" + "".join(f"{user},{user + step}\n" for user in range(1, 9) for step in range(4)))
    assert shortlist("train", table, "--model", "popularity", "--out", tmp_path / "run").code == 0
    for user in ("007", "+7", " 7", "7.0"):
        says(shortlist("recommend", tmp_path / "run", "--user", user, "--k", 2), 2, "unknown id")
    assert shortlist("recommend", tmp_path / "run", "--user", "7", "--k", 2).code == 0
