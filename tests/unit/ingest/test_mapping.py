"""Column mappings from the command line and from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.errors import InputError, LimitError, LLMPrismError, UsageError
from llmprism.ingest import ColumnMapping, ColumnSource, Unit


def test_parse() -> None:
    mapping = ColumnMapping.parse("start_ns=ts:ms, bytes=octets,src=net:src")
    assert mapping.source_of("start_ns") == ColumnSource("ts", Unit.MS)
    assert mapping.source_of("bytes") == ColumnSource("octets")
    assert mapping.source_of("src") == ColumnSource("net:src")
    assert mapping.source_of("dst") == ColumnSource("dst")
    assert mapping.has("bytes")
    assert not mapping.has("dst")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start_ns", "target=column"),
        ("start_ns=", "target=column"),
        ("speed=x", "start_ns, end_ns"),
        ("src=a,src=b", "twice"),
    ],
)
def test_parse_refuses(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ColumnMapping.parse(text)


def test_file_and_merge(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('[columns]\nstart_ns = "first:s"\nbytes = "octets"\n', encoding="utf-8")
    mapping = ColumnMapping.from_file(file).merged(ColumnMapping.parse("bytes=volume"))
    assert mapping.source_of("start_ns") == ColumnSource("first", Unit.S)
    assert mapping.source_of("bytes") == ColumnSource("volume")


@pytest.mark.parametrize("text", ["", "columns = 3", "[columns]\nbytes = 3", "not toml", '[columns]\nfoo = "x"'])
def test_bad_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "map.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((InputError, UsageError), match=r"map\.toml"):
        ColumnMapping.from_file(file)


def test_missing_and_huge_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such mapping file"):
        ColumnMapping.from_file(tmp_path / "none.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(LimitError):
        ColumnMapping.from_file(tmp_path / "huge.toml")


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        ColumnMapping.parse(text)
    except LLMPrismError as error:
        message = str(error)
        assert message.startswith("--map")
