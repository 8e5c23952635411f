from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.errors import FormatError, InputError
from llmprism.verdict.rank_file import MAX_BYTES, parse_rank_list, read_rank_file


@pytest.mark.parametrize(
    "text",
    [
        "3 server00 10.10.0.1",
        "rank=3, server00, 10.10.0.1  # the slow one",
        "rank,host,address\n3,server00,10.10.0.1\n",
        '{"3": ["server00", "10.10.0.1"]}',
        '[{"rank": 3, "host": "server00", "address": "10.10.0.1"}]',
    ],
)
def test_ranks_with_host_and_address(text: str) -> None:
    found = parse_rank_list(text)
    assert found.rank_address == {3: "10.10.0.1"}
    assert found.rank_host == {3: "server00"}


def test_a_rank_file_of_mpirun() -> None:
    found = parse_rank_list("rank 0=server01 slot=0\nrank 1=server00 slot=1\n")
    assert found.rank_host == {0: "server01", 1: "server00"}


def test_a_hosts_file_and_a_host_file() -> None:
    assert parse_rank_list("10.1.0.1 a a-ib\nfe80::1 b\n").host_address["a-ib"] == ("10.1.0.1",)
    assert parse_rank_list("b slots=8\na slots=8\n").order == ("b", "a")


@pytest.mark.parametrize("text", ["", "# nothing\n", "{", '{"a": {"b": 1}', "[" * 100_000, "\x00\x01"])
def test_what_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_rank_list(text)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent"):
        read_rank_file(tmp_path / "absent")
    (tmp_path / "large").write_bytes(b"a" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="at most"):
        read_rank_file(tmp_path / "large")
    (tmp_path / "bad").write_text("?\n")
    with pytest.raises(FormatError, match="bad"):
        read_rank_file(tmp_path / "bad")
