"""Coverage-guided fuzzing of the packet reader and of the capture notes with atheris.

    pip install atheris   # not a dependency: wheels exist for Linux, CPython 3.11 to 3.13
    PYTHONPATH=src:tests/helpers python tests/fuzz/atheris_packets.py -runs=1000000 -timeout=10 -rss_limit_mb=3000

numba is switched off, so that the kernels run as Python, which atheris can see into. `-timeout` is the cap on one
input: a loop without progress ends the run with a report. The seeds are written to a folder given as the last argument,
or to a temporary one.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris
import numpy as np

with atheris.instrument_imports(include=["llmprism"]):
    from llmprism.errors import LLMPrismError
    from llmprism.ingest import capture_notes
    from llmprism.ingest.packets import reader
    from llmprism.ingest.packets.reader import PacketReader
    from llmprism.ingest.topology import parse_topology

import packet_frames as build

reader.FIRST_FLOWS, reader.BATCH_RECORDS, reader.CHUNK_BYTES = 64, 64, 1 << 16
np.seterr(over="ignore")  # the hash wraps on purpose
PCAP = b"\x4d\x3c\xb2\xa1\x02\x00\x04\x00" + b"\0" * 8 + b"\0\0\x04\0\x01\0\0\0"


def one_input(data: bytes) -> None:
    if not data:
        return
    kind, body = data[0] % 4, data[1:]
    try:
        if kind == 3:
            text = body.decode(errors="replace")
            parse_topology(text, "fuzz") if data[0] & 4 else capture_notes.decoded(text, "fuzz")
        else:
            stream = io.BytesIO(PCAP + body if kind == 0 else body)
            for _ in PacketReader(stream, "fuzz").batches():
                pass
    except LLMPrismError:
        pass


def seeds(folder: Path) -> None:
    inner = build.tcp_frame(1000, 100)
    frames = [(10**18 + n, build.erspan2(build.ethernet(p))) for n, p in enumerate(build.write_message(7, 5, 3000))]
    frames += [(10**18 + 9, build.erspan3(inner)), (10**18 + 11, build.vxlan(inner)), (10**18 + 12, inner)]
    frames += [(10**18 + 20, build.ethernet(p)) for p in build.read_response(7, 5, 3000)]
    contents = (b"\0" + build.pcap(frames)[24:], b"\1" + build.pcap(frames, big=True), b"\2" + build.pcapng(frames))
    for number, content in enumerate(contents):
        (folder / f"seed{number}").write_bytes(content)


if __name__ == "__main__":
    corpus = Path(sys.argv[-1]) if len(sys.argv) > 1 and not sys.argv[-1].startswith("-") else Path(tempfile.mkdtemp())
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    arguments = [argument for argument in sys.argv if argument != str(corpus)]
    atheris.Setup([*arguments, str(corpus)], one_input)
    atheris.Fuzz()
