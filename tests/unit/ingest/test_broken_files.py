"""A wrong or broken file: one line that names the file, where it is broken, and what was expected there."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

import packet_frames as build
from llmprism.errors import LLMPrismError
from llmprism.ingest import read_flows, zstd

FRAMES = [(10**18 + 1_000 * n, build.tcp_frame(100 * n, 100)) for n in range(2_000)]
PCAP, PCAPNG = build.pcap(FRAMES), build.pcapng(FRAMES)
ROWS = "start_ns,end_ns,src,dst,bytes\n" + "".join(f"{n},{n + 5},a,b,{n * 7919 % 1009 + 1}\n" for n in range(20_000))
OBJECTS = "".join(f'{{"start_ns": {n}, "end_ns": {n + 5}, "src": "a", "dst": "b", "bytes": 9}}\n' for n in range(9_000))

BROKEN = {
    "cut pcap header": (PCAP[:20], r"byte 20 of 24"),
    "pcap of Bluetooth": (PCAP[:20] + b"\xc9\0\0\0" + PCAP[24:], r"byte 20 .*expected Ethernet"),
    "pcap length": (PCAP[:32] + b"\xff\xff\xff\x7f" + PCAP[36:], r"at byte 24: expected a header"),
    "pcapng order": (PCAPNG[:8] + b"\0\0\0\0" + PCAPNG[12:], r"at byte 0: no byte-order mark"),
    "pcapng block": (PCAPNG[:32] + b"\5\0\0\0" + PCAPNG[36:], r"at byte 28: its length is 5"),
    "cut pcap.gz": (gzip.compress(PCAP, mtime=0)[:-2_000], r"beyond byte \d+ of the \(decompressed\) packets"),
    "cut pcap.zst": (zstandard.compress(PCAP)[:-200], r"expected a whole frame at byte 0 of \d+"),
    "damaged gzip": (gzip.compress(PCAP, mtime=0)[:10] + b"\xff" * 50, r"broken gzip data before byte \d+"),
    "damaged zstd": (zstandard.compress(PCAP)[:40] + b"\xff" * 50, r"byte \d+"),
    "cut Parquet": (b"PAR1" + b"x" * 500, r"expected PAR1 again at byte 500"),
    "no Parquet": (b"PAR1" + b"x" * 500 + b"PAR1", r"[Pp]arquet"),
    "binary": (b"\x7fELF\2\1\1\0" + b"\1\2\3" * 99, r"a zero at byte 7\); expected CSV, JSON Lines, a P"),
    "no header": (b"\xff\xfe\xfd,1,2\n", r"the first line is not text; expected a CSV header"),
    "repeated names": (b"a,a,b\n1,2,3\n", r"the first line is not a CSV header"),
    "other columns": (b"ts,te\n1,2\n", r"start_ns.*--map"),
    "cut csv.gz": (gzip.compress(ROWS.encode())[:-5_000], r"gzip data .*byte \d+"),
    "cut jsonl.gz": (gzip.compress(OBJECTS.encode())[:-5_000], r"gzip data .*byte \d+"),
    "cut csv.zst": (zstandard.compress(ROWS.encode())[:-900], r"expected a whole frame at byte 0 of \d+"),
    "cut array": (b"[" + OBJECTS.replace("\n", ",").encode(), r"truncated JSON array: expected \] at byte \d+"),
    "no object": (b"[1, 2, 3]", r"start_ns|none of|no records"),
    "empty": (b"", r"is empty; expected flow records or packets"),
    "blank": (
        b"\n\n \n",
        r"holds no records; expected CSV, JSON Lines, a Parquet file, an nfcapd .* or a packet capture",
    ),
    "nfcapd": (b"\x0c\xa5\1\0" + b"\0" * 300, r"nfdump"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_clear_line(tmp_path: Path, name: str) -> None:
    content, expected = BROKEN[name]
    file = tmp_path / "broken file"
    file.write_bytes(content)
    with pytest.raises(LLMPrismError) as caught:
        read_flows([file])
    line = str(caught.value)
    assert line.startswith(f"{file}: "), line
    assert "\n" not in line
    assert re.search(expected, line), line


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "standard input: is empty; expected a pcap"),
        (b"ts,te\n1,2\n", "no pcap or pcapng magic number at byte 0"),
        (gzip.compress(b"ts,te\n1,2\n", mtime=0), "no pcap or pcapng magic number at byte 0"),
        (gzip.compress(PCAP, mtime=0)[:-2_000], "standard input: cannot be read beyond byte"),
        (zstandard.compress(PCAP)[:30] + b"\xff" * 99, "standard input: "),
        (PCAP[:32] + b"\xff\xff\xff\x7f" + PCAP[36:], "standard input: broken packet record at byte 24"),
    ],
)
def test_standard_input(data: bytes, expected: str) -> None:
    script = (
        "import sys\nfrom llmprism.errors import LLMPrismError\nfrom llmprism.ingest import read_flows\n"
        "try:\n    read_flows(['-'])\nexcept LLMPrismError as error:\n    sys.exit(str(error))"
    )
    result = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=False)
    assert result.returncode == 1, result.stdout
    assert expected in result.stderr.decode()
    assert result.stderr.decode().count("\n") == 1


def test_zstd_packets_without_the_package_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "capture.pcap.zst"
    file.write_bytes(zstandard.compress(PCAP))
    (tmp_path / "flows.csv.zst").write_bytes(zstandard.compress(ROWS.encode()))
    monkeypatch.setattr(zstd, "_installed", lambda: False)
    with pytest.raises(LLMPrismError, match=r"pip install 'llmprism\[zstd\]'") as caught:
        read_flows([file])
    assert str(caught.value).startswith(f"{file}: ")
    with pytest.raises(LLMPrismError, match=r"standard input.*pip install 'llmprism\[zstd\]'"):
        zstd.zstd_stream(file.open("rb"), "standard input")
    assert read_flows([tmp_path / "flows.csv.zst"]).counts.used == 20_000
