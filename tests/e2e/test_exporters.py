"""Real exporters and collectors replay a real capture; their byte totals per pair must be our packet reader's.

softflowd must agree per pair. pmacct loses packets inside itself when it reads a file, each time another number: there
everything that it printed must have been read.

They count whole IP packets, we count payload once: 52 bytes of headers per packet are taken off (IPv4 and TCP with
timestamps), and what TCP sent twice (up to 0.3 %) is allowed for.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from llmprism.ingest import convert_flows

PART = Path(__file__).parents[2] / "../shared/data/captures/ddp4/part.pcap.gz"
HEADERS = 52
Totals = dict[tuple[str, str], int]

pytestmark = pytest.mark.skipif(not PART.exists(), reason="the real captures are not here")


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; run scripts/install-test-deps")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    file = tmp_path / "part.pcap"
    file.write_bytes(gzip.decompress(PART.read_bytes()))
    return file


@pytest.fixture
def start(part: Path) -> Path:
    """The first packets only: pmacct reads a file faster than its own plugins take the packets, and then loses some."""
    data, end = part.read_bytes(), 24
    for _ in range(1_500):
        end += 16 + int.from_bytes(data[end + 8 : end + 12], "little")
    file = part.with_name("start.pcap")
    file.write_bytes(data[:end])
    return file


def payload_per_pair(files: list[Path], folder: Path, headers: int) -> Totals:
    """Bytes per directed pair after convert, less the headers; only pairs with training traffic."""
    out = folder / "converted.parquet"
    convert_flows(files, out)
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT src, dst, sum(bytes - {headers} * packets)::BIGINT FROM read_parquet(?) GROUP BY ALL", [str(out)]
        ).fetchall()
    return {(src, dst): size for src, dst, size in rows if size > 1_000_000}


def assert_same(theirs: Totals, ours: Totals, share: float = 0.003) -> None:
    assert len(ours) == 4
    assert theirs.keys() == ours.keys()
    for pair, size in ours.items():
        assert size <= theirs[pair] <= size * (1 + share), pair


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent)
        try:
            time.sleep(1)
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.parametrize("version", ["5", "9", "10"])
def test_softflowd_and_nfcapd(part: Path, tmp_path: Path, version: str) -> None:
    need("softflowd", "nfcapd", "nfdump")
    store, port = tmp_path / "nfcapd", free_port()
    store.mkdir()
    listen = ("nfcapd", "-l", str(store), "-p", str(port), "-b", "127.0.0.1", "-t", "3600")
    with running(*listen, log=tmp_path / "nfcapd.log"):
        # IPFIX with relative times is off when a file is replayed: the exporter's own clock is years away.
        absolute = ("-A", "milli") if version == "10" else ()
        export = ("softflowd", "-r", str(part), "-n", f"127.0.0.1:{port}", "-v", version, "-d", "-D")
        control = ("-p", str(tmp_path / "pid"), "-c", "none")
        subprocess.run([*export, *absolute, *control], check=True, capture_output=True, timeout=20)
        time.sleep(1)
    files = sorted(store.glob("nfcapd.2*"))
    assert files, (tmp_path / "nfcapd.log").read_text(encoding="utf-8")
    ours = payload_per_pair([part], tmp_path, 0)
    assert_same(payload_per_pair(files, tmp_path, HEADERS), ours)
    text = tmp_path / "nfdump.csv"
    with text.open("wb") as out:
        subprocess.run(["nfdump", "-r", str(files[0]), "-o", "csv"], stdout=out, check=True)
    assert_same(payload_per_pair([text], tmp_path, HEADERS), ours)


def pmacctd(folder: Path, part: Path, lines: list[str]) -> None:
    config = folder / "pmacctd.conf"
    common = [
        "daemonize: false",
        f"pcap_savefile: {part}",
        "pcap_savefile_wait: 3",
        f"pidfile: {folder / 'pmacctd.pid'}",
    ]
    config.write_text("\n".join([*common, *lines]) + "\n", encoding="utf-8")
    subprocess.run(["pmacctd", "-f", str(config)], check=False, capture_output=True, timeout=60, cwd=folder)


def printed(folder: Path, name: str, output: str, keys: str) -> list[str]:
    """Configuration of pmacct's print plugin for one file."""
    return [
        f"plugins: print[{name}]",
        f"aggregate[{name}]: src_host, dst_host, src_port, dst_port, proto, {keys}",
        f"print_output[{name}]: {output}",
        f"print_output_file[{name}]: {folder / name}",
        "print_output_file_append: true",
        "print_cache_entries: 300007",
        "print_refresh_time: 2",
        "timestamps_utc: true",
    ]


def assert_read_whole(theirs: Totals, raw: Totals, ours: Totals) -> None:
    """Every byte that pmacct printed was read, and none of it was invented by pmacct."""
    assert theirs == {pair: size for pair, size in raw.items() if size > 1_000_000}
    assert theirs
    for pair, size in theirs.items():
        assert size <= ours[pair] * 1.003


@pytest.mark.parametrize("output", ["json", "csv"])
def test_pmacctd(start: Path, tmp_path: Path, output: str) -> None:
    need("pmacctd")
    pmacctd(tmp_path, start, printed(tmp_path, f"out.{output}", output, "timestamp_start, timestamp_end"))
    raw: Totals = {}
    with (tmp_path / f"out.{output}").open(encoding="utf-8") as lines:
        rows = map(json.loads, lines) if output == "json" else csv.DictReader(lines)
        for row in rows:
            flow = {key.lower(): value for key, value in row.items()}
            pair = (flow.get("ip_src", flow.get("src_ip")), flow.get("ip_dst", flow.get("dst_ip")))
            raw[pair] = raw.get(pair, 0) + int(flow["bytes"]) - HEADERS * int(flow["packets"])
    theirs = payload_per_pair([tmp_path / f"out.{output}"], tmp_path, HEADERS)
    assert_read_whole(theirs, raw, payload_per_pair([start], tmp_path, 0))


def test_sflow_by_sfacctd(start: Path, tmp_path: Path) -> None:
    need("pmacctd", "sfacctd")
    port = free_port()
    config = tmp_path / "sfacctd.conf"
    lines = ["daemonize: false", "sfacctd_ip: 127.0.0.1", f"sfacctd_port: {port}"]
    lines += printed(tmp_path, "out.json", "json", "timestamp_arrival, peer_src_ip, sampling_rate")
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with running("sfacctd", "-f", str(config), log=tmp_path / "sfacctd.log"):
        pmacctd(tmp_path, start, ["plugins: sfprobe", "sampling_rate: 1", f"sfprobe_receiver: 127.0.0.1:{port}"])
        time.sleep(4)
    raw: Totals = {}
    for line in (tmp_path / "out.json").read_text(encoding="utf-8").splitlines():
        flow = json.loads(line)
        pair = (flow["ip_src"], flow["ip_dst"])
        # sFlow counts whole Ethernet frames.
        raw[pair] = raw.get(pair, 0) + flow["bytes"] - (HEADERS + 14) * flow["packets"]
    theirs = payload_per_pair([tmp_path / "out.json"], tmp_path, HEADERS + 14)
    assert_read_whole(theirs, raw, payload_per_pair([start], tmp_path, 0))


def test_tcpdump_pipes_in(part: Path, tmp_path: Path) -> None:
    need("tcpdump")
    code = "import sys; from llmprism.ingest import convert_flows as run; print(run(['-'], sys.argv[1]).counts.used)"
    dump = subprocess.Popen(
        ["tcpdump", "--nano", "-r", str(part), "-w", "-", "-U", "tcp"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    reader = [sys.executable, "-c", code, str(tmp_path / "piped.parquet")]
    result = subprocess.run(reader, stdin=dump.stdout, capture_output=True, check=True)
    assert dump.wait() == 0
    direct = convert_flows([part], tmp_path / "direct.parquet")
    assert int(result.stdout) == direct.counts.used
