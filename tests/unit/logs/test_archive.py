"""Archives read forwards: every member whole, read or left, and what is there of one that breaks off."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from llmprism.logs.archive import read_members

NAMES = ["job/rank0.log", "job/empty.log", f"job/{'deep/' * 30}rank1.log", "job/even.log"]
TEXTS = [b"a line\n" * 9_000, b"", b"another\n" * 100, b"x" * 1024]


class OnlyForward(io.RawIOBase):
    """A stream that cannot go anywhere and gives a little at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        return self._data.readinto(memoryview(target)[:700])


def archive(form: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as tar:
        folder = tarfile.TarInfo("job")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, text in zip(NAMES, TEXTS, strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return packed.getvalue()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_member_is_read_whole(form: int) -> None:
    found = [(member.name, inner.read()) for member, inner in read_members(OnlyForward(archive(form)))]
    assert found == list(zip(NAMES, TEXTS, strict=True))


def test_members_may_be_left_unread_or_half_read() -> None:
    heads = [inner.read(3) for _, inner in read_members(OnlyForward(archive(tarfile.PAX_FORMAT)))]
    assert heads == [text[:3] for text in TEXTS]
    names = [member.name for member, _ in read_members(OnlyForward(archive(tarfile.PAX_FORMAT)))]
    assert names == NAMES


def test_an_archive_that_breaks_off_gives_what_it_has_and_says_so() -> None:
    cut = archive(tarfile.GNU_FORMAT)[:20_000]
    read: list[bytes] = []

    def take() -> None:
        read.extend(inner.read() for _, inner in read_members(OnlyForward(cut)))

    with pytest.raises(tarfile.TarError):
        take()
    assert len(read) == 1
    assert TEXTS[0].startswith(read[0])
    assert len(read[0]) > 15_000


def test_a_member_that_claims_more_than_there_is_makes_no_bytes() -> None:
    info = tarfile.TarInfo("rank0.log")
    info.size = 1 << 40
    claimed = info.tobuf(tarfile.GNU_FORMAT) + b"only this\n"
    members = read_members(OnlyForward(claimed))
    _, inner = next(members)
    assert inner.read(1 << 20) == b"only this\n"
