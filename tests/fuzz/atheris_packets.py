"""Coverage-guided fuzzing of the readers with atheris (not a dependency: `pip install atheris`, needs clang).

python tests/fuzz/atheris_packets.py -max_total_time=600
"""

from __future__ import annotations

import io
import sys

import atheris

with atheris.instrument_imports():
    from llmprism.errors import LLMPrismError
    from llmprism.ingest.packets.reader import PacketReader
    from llmprism.ingest.topology import parse_topology

HEADERS = (b"\x4d\x3c\xb2\xa1\x02\x00\x04\x00" + b"\0" * 8 + b"\0\0\x04\0\x01\0\0\0", b"")


def one_input(data: bytes) -> None:
    if not data:
        return
    try:
        if data[0] % 3 == 2:
            parse_topology(data[1:].decode(errors="replace"), "fuzz")
        else:
            for _ in PacketReader(io.BytesIO(HEADERS[data[0] % 3] + data[1:]), "fuzz").batches():
                pass
    except LLMPrismError:
        pass


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
