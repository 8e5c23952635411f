"""The members of a tar archive in one pass, read straight into the reader's buffer.

tarfile's own streams copy every byte four times on its way to the caller. Here tarfile reads headers only, from a
stream that can only go forward, and a member's bytes go from the unpacked stream to whoever asks for them.
Members are taken as they are stored: sparse files, whose headers may claim any size, are not filled up with zeros.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import IO, Any, Final, cast

__all__ = ["read_members"]

_SKIP_BYTES: Final = 1 << 16
"""What is read at once where bytes are passed over."""


class _FullReads(io.RawIOBase):
    """A stream whose `read` gives all that was requested, unless it ends."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return self.readall()
        out = bytearray(size)
        view, filled = memoryview(out), 0
        while filled < size and (count := self.readinto(view[filled:])):
            filled += count
        return bytes(view[:filled])


class _ForwardStream(_FullReads):
    """A stream that knows where it is and goes to a later place by reading on."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream = stream
        self._at = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._at:
            raise OSError("an archive is read forwards")
        scratch = memoryview(bytearray(_SKIP_BYTES))
        while self._at < offset and self.readinto(scratch[: min(_SKIP_BYTES, offset - self._at)]):
            pass
        return self._at

    def readinto(self, target: Any) -> int:
        count = int(self._stream.readinto(target) or 0)
        self._at += count
        return count


class _Member(_FullReads):
    """The bytes of one member; it must be read, or left, before the next one."""

    def __init__(self, archive: _ForwardStream, size: int) -> None:
        self._archive = archive
        self._left = size

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = self._archive.readinto(view[: self._left]) if self._left else 0
        self._left -= count
        return count


def read_members(stream: io.RawIOBase) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The files of an archive with their bytes, in the archive's own order. Raises TarError where it is broken."""
    forward = _ForwardStream(stream)
    with tarfile.open(fileobj=cast(IO[bytes], forward), mode="r:") as archive:
        for member in archive:
            if member.isfile():
                forward.seek(member.offset_data)
                yield member, cast(IO[bytes], _Member(forward, member.size))
