"""Packed bytes → unpacked bytes, as far as they go.

Every packing is read through one stream class that gives out all it could unpack before a file breaks off: a truncated
gzip file is half a log, not no log. The stream never trusts a size that a file states; what it gives out is capped in
bytes and in ratio. Text in UTF-16 is turned into UTF-8 on the way.

After the last byte `damage` says what was wrong with the file, or is None.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any, Final

from llmprism import limits
from llmprism.errors import FormatError

__all__ = ["HEAD_BYTES", "TextStream", "UnpackedStream", "open_unpacked"]

_CHUNK_BYTES: Final = 1 << 18
_OUT_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 1 << 12
"""Bytes at the start of a file that decide what it is."""

_RATIO_FREE_BYTES: Final = 1 << 26
"""64 MiB: below this the ratio does not matter, so that short logs of one repeated line pass."""

_UTF16_NUL_SHARE: Final = 0.3
"""Share of NUL bytes at even or at odd offsets from which text without a byte order mark is taken for UTF-16: Latin
text has nearly half, binary files have them at both."""

_TEXT_NUL_SHARE: Final = 0.02
"""Share of NUL bytes at the other offsets below which it is: characters beyond the first 256 are rare in logs."""

_ZSTD_CHUNK_BYTES: Final = 1 << 14
"""zstd gives out all of a chunk at once: a small chunk bounds what a bomb can make of it."""


def _packing(magic: bytes) -> Callable[[], Any] | None:
    """What makes a decompressor for the packing that these first bytes show; None: not packed."""
    if magic[:2] == b"\x1f\x8b":
        return _gzip
    if magic[:6] == b"\xfd7zXZ\x00":
        return lzma.LZMADecompressor
    if magic[:3] == b"BZh" and magic[4:10] == b"1AY&SY":
        return bz2.BZ2Decompressor
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return _zstd
    return None


def _gzip() -> Any:
    """By Intel's library where it is installed (`llmprism[logs]`), which takes a third of zlib's time."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(wbits=31)
    return isal_zlib.decompressobj(wbits=31)


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise FormatError("a log is zstd-packed: pip install 'llmprism[logs]'") from error
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


class UnpackedStream(io.RawIOBase):
    """The bytes of a file, unpacked where it is packed. `packed_size` is the size of the file on disk."""

    def __init__(self, raw: IO[bytes], packed_size: int) -> None:
        self._raw = raw
        self._packed_size = max(packed_size, 1)
        magic = raw.read(16)
        self._make = _packing(magic)
        self._machine = self._make() if self._make else None
        self._input = magic
        self._ready = memoryview(b"")  # a view: taking a little of it copies only that
        self._begun = False
        self.given = 0
        self.damage: str | None = None

    @property
    def packed(self) -> bool:
        return self._make is not None

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._make is None and not self._input and not self._ready:
            count = int(self._raw.readinto(view) or 0)  # type: ignore[attr-defined]
            self.given += count
            return count
        if not self._ready:
            self._ready = memoryview(self._more(len(view)))
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self.given += count
        return count

    def read(self, size: int = -1) -> bytes:
        """As `readinto`, without the copies that its buffer would cost: what archives are read by."""
        if size < 0 or self._make is None:
            return super().read(size) or b""
        if not self._ready:
            self._ready = memoryview(self._more(size))
        out = bytes(self._ready[:size])
        self._ready = self._ready[size:]
        self.given += len(out)
        return out

    def _more(self, wanted: int) -> bytes:
        """The next bytes, nothing at the end or where the file is broken."""
        if self.damage is not None:
            return b""
        if self._make is None:
            if self._input:
                first, self._input = self._input, b""
                return first
            return self._raw.read(max(min(wanted, 1 << 22), 1))
        if self._is_bomb():
            self.damage = "decompression bomb"
            return b""
        try:
            return self._unpack()
        except FormatError:
            raise
        except Exception as error:  # each packing has its own types
            if not isinstance(error, (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)) and type(
                error
            ).__module__.split(".")[0] not in ("zstandard", "zstd"):
                raise
            self.damage = "broken file"
            return b""

    def _unpack(self) -> bytes:
        while True:
            machine: Any = self._machine
            if machine is None or getattr(machine, "eof", False):
                self._next_member()
                if self._machine is None:
                    return b""
                continue
            held = getattr(machine, "needs_input", True) is False
            at_once = self._make is _zstd
            data = b"" if held else self._input or self._raw.read(_ZSTD_CHUNK_BYTES if at_once else _CHUNK_BYTES)
            if not data and not held:
                self.damage = "truncated file" if self._begun else None
                return b""
            out: bytes = machine.decompress(data) if at_once else machine.decompress(data, _OUT_BYTES)
            self._input = b"" if at_once else getattr(machine, "unconsumed_tail", b"")
            self._begun = True
            if out:
                return out

    def _next_member(self) -> None:
        """Packed files may be several, one after the other; zeros after the last are padding."""
        rest = getattr(self._machine, "unused_data", b"") or self._raw.read(_CHUNK_BYTES)
        rest = rest.lstrip(b"\0")
        while not rest:
            rest = self._raw.read(_CHUNK_BYTES)
            if not rest:
                self._machine = None
                return
            rest = rest.lstrip(b"\0")
        assert self._make is not None  # noqa: S101 (only packed streams come here)
        self._machine, self._input, self._begun = self._make(), rest, False

    def _is_bomb(self) -> bool:
        if self.given > limits.MAX_LOG_DECOMPRESSED_BYTES:
            return True
        return self.given > _RATIO_FREE_BYTES and self.given > limits.MAX_LOG_DECOMPRESSION_RATIO * self._packed_size


def open_unpacked(raw: IO[bytes], packed_size: int) -> UnpackedStream:
    return UnpackedStream(raw, packed_size)


class TextStream(io.RawIOBase):
    """A stream whose first bytes have been looked at (`head`), as UTF-8 where it is UTF-16."""

    def __init__(self, inner: IO[bytes] | io.RawIOBase) -> None:
        self._inner = inner
        head = b""
        while len(head) < HEAD_BYTES and (more := inner.read(HEAD_BYTES - len(head))):
            head += more
        encoding = _utf16(head)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
        self.encoding = encoding or "utf-8"
        self.head = self._text(head)
        self._ready = self.head

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or self._ready or self._decoder is not None:
            return super().read(size) or b""
        return self._inner.read(size) or b""

    def read_all(self, limit: int) -> bytes:
        """The rest of the text, at most `limit` bytes of it."""
        parts: list[bytes] = []
        while limit > 0 and (more := self.read(min(limit, _CHUNK_BYTES))):
            parts.append(more)
            limit -= len(more)
        return b"".join(parts)

    def _text(self, data: bytes) -> bytes:
        return self._decoder.decode(data).encode() if self._decoder else data.removeprefix(codecs.BOM_UTF8)

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        if self._decoder is None and not self._ready:
            return self._inner.readinto(view) or 0  # type: ignore[union-attr]
        while not self._ready:
            data = self._inner.read(_CHUNK_BYTES)
            if not data:
                return 0
            self._ready = self._text(data)
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _utf16(head: bytes) -> str | None:
    half = len(head) // 2
    if half < 2:
        return None
    even, odd = head[0::2].count(0) / half, head[1::2].count(0) / half
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and (odd > 0) != (even > 0):
        return "utf-16"
    if half < 16:
        return None
    if odd > _UTF16_NUL_SHARE and even < _TEXT_NUL_SHARE:
        return "utf-16-le"
    return "utf-16-be" if even > _UTF16_NUL_SHARE and odd < _TEXT_NUL_SHARE else None
