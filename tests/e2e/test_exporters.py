"""Real exporters and collectors replay the real captures; their byte totals per pair must be our packet reader's.

They count whole IP packets (sFlow: whole Ethernet frames), we count payload once. On equal terms, that is with the
headers that are really there and with what TCP sent twice, all pairs agree to the byte.

Two things must be right for that, and neither is about reading what the collectors write:

- pmacctd must not print while it reads a file (`print_refresh_time`): the process that prints is forked from it, and
  when it ends the C library moves the file offset that both share, so that pmacctd reads on in the wrong place.
- sFlow travels over UDP, which has no flow control: sfprobe sends a second's traffic in an instant. The test hands the
  datagrams on to sfacctd as its socket takes them; the numbers of their samples say which packets they hold.
"""

from __future__ import annotations

import gzip
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pytest

from llmprism.ingest import convert_flows

CAPTURES = Path(__file__).parents[2] / "../shared/data/captures"
ETHERNET_HEADER = 14
SFLOW_EXTRA = ETHERNET_HEADER + 4  # and the checksum of the frame
SFLOW_HEADER = 28
FLOW_SAMPLE = 1
Pair = tuple[str, str]
Totals = dict[Pair, int]

pytestmark = pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; run scripts/install-test-deps")


@pytest.fixture(params=["ddp4", "pp4dp2tp2"])
def part(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "part.pcap"
    file.write_bytes(gzip.decompress((CAPTURES / request.param / "part.pcap.gz").read_bytes()))
    return file


@dataclass(frozen=True)
class Wire:
    """What the headers of captured packets say, per directed pair with any payload. Owes nothing to our reader."""

    ip_bytes: Totals
    payload: Totals
    frames: Totals

    @staticmethod
    def of(packets: Iterable[bytes]) -> Wire:
        sizes: dict[Pair, list[int]] = {}
        for packet in packets:
            ip = packet[16 + ETHERNET_HEADER :]
            total = int.from_bytes(ip[2:4], "big")
            sums = sizes.setdefault((socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])), [0, 0, 0])
            for place, size in enumerate((total, total - 20 - (ip[32] >> 4) * 4, total + SFLOW_EXTRA)):
                sums[place] += size
        return Wire(*({pair: sums[place] for pair, sums in sizes.items()} for place in range(3)))


def packets_of(capture: Path) -> list[bytes]:
    """The packets of a pcap file, each with its 16 bytes of record header."""
    data, at, packets = capture.read_bytes(), 24, []
    while at < len(data):
        after = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        packets.append(data[at:after])
        at = after
    return packets


def read_back(files: Sequence[Path], folder: Path) -> Totals:
    """Bytes per directed pair of a collector's files after convert."""
    out = folder / "converted.parquet"
    convert_flows(files, out)
    with duckdb.connect() as connection:
        query = "SELECT src, dst, sum(bytes)::BIGINT FROM read_parquet(?) GROUP BY ALL"
        rows = connection.execute(query, [str(out)]).fetchall()
    return {(src, dst): size for src, dst, size in rows}


def assert_ours(capture: Path, wire: Wire, folder: Path) -> None:
    """Our reader has the same payload per pair, each byte once: what it leaves out is what it says was sent twice."""
    result = convert_flows([capture], folder / "ours.parquet")
    (stats,) = result.packets
    ours = read_back([folder / "ours.parquet"], folder)
    payload = {pair: size for pair, size in wire.payload.items() if size}
    assert ours.keys() == payload.keys()
    assert sum(payload.values()) - sum(ours.values()) == stats.retransmitted_bytes
    assert result.congestion is not None
    signs = zip(result.congestion.src, result.congestion.dst, result.congestion.retransmitted, strict=True)
    repeated = {(src, dst) for src, dst, count in signs if count}
    for pair, size in payload.items():
        assert (0.995 * size <= ours[pair] < size) if pair in repeated else ours[pair] == size, pair


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
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(done: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)


def unread(port: int) -> int | None:
    """Bytes that wait in the UDP socket on this port, if there is one; Linux tells."""
    for line in Path("/proc/net/udp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port:
            return int(fields[4].split(":")[1], 16)
    return None


def softflowd(capture: Path, port: int, version: str = "9") -> None:
    wait_for(lambda: unread(port) is not None)
    # IPFIX with relative times is off when a file is replayed: the exporter's own clock is years away.
    absolute = ("-A", "milli") if version == "10" else ()
    export = ("softflowd", "-r", str(capture), "-n", f"127.0.0.1:{port}", "-v", version, "-d", "-D")
    control = ("-p", str(capture.with_name("softflowd.pid")), "-c", "none")
    subprocess.run([*export, *absolute, *control], check=True, capture_output=True, timeout=20)
    wait_for(lambda: unread(port) == 0)
    time.sleep(1)  # what the collector has taken, it hands on to the process that writes


@pytest.mark.parametrize(
    ("part", "version"), [("ddp4", "5"), ("ddp4", "9"), ("ddp4", "10"), ("pp4dp2tp2", "10")], indirect=["part"]
)
def test_softflowd_and_nfcapd(part: Path, tmp_path: Path, version: str) -> None:
    need("softflowd", "nfcapd", "nfdump")
    store, port = tmp_path / "nfcapd", free_port()
    store.mkdir()
    listen = ("nfcapd", "-l", str(store), "-p", str(port), "-b", "127.0.0.1", "-t", "3600")
    with running(*listen, log=tmp_path / "nfcapd.log"):
        softflowd(part, port, version)
    files = sorted(store.glob("nfcapd.2*"))
    assert files, (tmp_path / "nfcapd.log").read_text(encoding="utf-8")
    wire = Wire.of(packets_of(part))
    assert read_back(files, tmp_path) == wire.ip_bytes
    text = tmp_path / "nfdump.csv"
    with text.open("wb") as out:
        subprocess.run(["nfdump", "-r", str(files[0]), "-o", "csv"], stdout=out, check=True)
    assert read_back([text], tmp_path) == wire.ip_bytes
    assert_ours(part, wire, tmp_path)


def printed(folder: Path, keys: str) -> list[str]:
    """Configuration of pmacct's print plugin: the same records as JSON and as CSV, written once, at the end."""
    lines = ["daemonize: false", "plugins: print[json], print[csv]", f"pidfile: {folder / 'pmacct.pid'}"]
    for output in ("json", "csv"):
        lines += [
            f"aggregate[{output}]: src_host, dst_host, src_port, dst_port, proto, {keys}",
            f"print_output[{output}]: {output}",
            f"print_output_file[{output}]: {folder / output}",
        ]
    return [*lines, "print_refresh_time: 3600", "timestamps_utc: true", "plugin_pipe_size: 134217728"]


def configured(folder: Path, name: str, lines: list[str]) -> str:
    file = folder / name
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def test_pmacctd(part: Path, tmp_path: Path) -> None:
    need("pmacctd")
    lines = [f"pcap_savefile: {part}", *printed(tmp_path, "timestamp_start, timestamp_end")]
    lines += ["timestamps_secs: true"]  # else every packet is a record of its own
    config = configured(tmp_path, "pmacctd.conf", lines)
    subprocess.run(["pmacctd", "-f", config], check=False, capture_output=True, timeout=60, cwd=tmp_path)
    wire = Wire.of(packets_of(part))
    assert read_back([tmp_path / "json"], tmp_path) == wire.ip_bytes
    assert read_back([tmp_path / "csv"], tmp_path) == wire.ip_bytes
    assert_ours(part, wire, tmp_path)


def test_softflowd_and_nfacctd(part: Path, tmp_path: Path) -> None:
    need("softflowd", "nfacctd")
    port = free_port()
    lines = printed(tmp_path, "timestamp_start, timestamp_end, peer_src_ip")
    config = configured(tmp_path, "nfacctd.conf", [*lines, "nfacctd_ip: 127.0.0.1", f"nfacctd_port: {port}"])
    with running("nfacctd", "-f", config, log=tmp_path / "nfacctd.log"):
        softflowd(part, port)
    wire = Wire.of(packets_of(part))
    assert read_back([tmp_path / "json"], tmp_path) == wire.ip_bytes
    assert read_back([tmp_path / "csv"], tmp_path) == wire.ip_bytes


def sflow_datagrams(capture: Path, rate: int) -> list[bytes]:
    """What pmacctd's sfprobe makes of the packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(3)
        target = f"sfprobe_receiver: 127.0.0.1:{receiver.getsockname()[1]}"
        lines = ["daemonize: false", f"pcap_savefile: {capture}", "pcap_savefile_wait: true", "plugins: sfprobe"]
        lines += [f"sampling_rate: {rate}", target, "plugin_pipe_size: 134217728", "plugin_buffer_size: 10240"]
        config = configured(capture.parent, "sfprobe.conf", lines)
        datagrams = []
        with running("pmacctd", "-f", config, log=capture.with_name("sfprobe.log")):
            try:
                while True:
                    datagrams.append(receiver.recv(65_536))
            except TimeoutError:
                return datagrams


def sampled_packets(datagram: bytes) -> Iterator[int]:
    """The numbers of the packets that a datagram of sFlow samples one by one, from 1 on. A slow probe sends counters of
    its interfaces as well, in datagrams and samples of their own."""
    place = SFLOW_HEADER
    for _ in range(int.from_bytes(datagram[place - 4 : place], "big")):
        kind, length, number = struct.unpack_from(">3I", datagram, place)
        if kind == FLOW_SAMPLE:
            yield number
        place += 8 + length


def by_sfacctd(datagrams: Sequence[bytes], folder: Path) -> None:
    port = free_port()
    lines = printed(folder, "timestamp_arrival, peer_src_ip, sampling_rate")
    lines += ["sfacctd_ip: 127.0.0.1", f"sfacctd_port: {port}", "sfacctd_pipe_size: 4194304"]
    lines += ["plugin_buffer_size: 10240", "timestamps_secs: true"]
    config = configured(folder, "sfacctd.conf", lines)
    with running("sfacctd", "-f", config, log=folder / "sfacctd.log"):
        wait_for(lambda: unread(port) is not None)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for place, datagram in enumerate(datagrams):
                sender.sendto(datagram, ("127.0.0.1", port))
                if place % 20 == 0 or place == len(datagrams) - 1:
                    wait_for(lambda: unread(port) == 0)
        time.sleep(1)  # what it has taken, it hands on to the process that prints


def test_sflow_by_sfacctd(part: Path, tmp_path: Path) -> None:
    need("pmacctd", "sfacctd")
    datagrams = sflow_datagrams(part, rate=1)
    by_sfacctd(datagrams, tmp_path)
    packets = packets_of(part)
    numbers = [number for datagram in datagrams for number in sampled_packets(datagram)]
    assert len(numbers) == len(set(numbers)) > 1_000
    sampled = [packets[number - 1] for number in numbers]
    wire = Wire.of(sampled)
    assert read_back([tmp_path / "json"], tmp_path) == wire.frames
    assert read_back([tmp_path / "csv"], tmp_path) == wire.frames
    same = tmp_path / "sampled.pcap"
    same.write_bytes(part.read_bytes()[:24] + b"".join(sampled))
    assert_ours(same, wire, tmp_path)


def test_sampled_sflow_estimates_the_bytes(tmp_path: Path) -> None:
    """One packet in 20: the rate that sfacctd prints multiplies the bytes, and the total comes out near the truth."""
    need("pmacctd", "sfacctd")
    part = tmp_path / "part.pcap"
    part.write_bytes(gzip.decompress((CAPTURES / "ddp4" / "part.pcap.gz").read_bytes()))
    by_sfacctd(sflow_datagrams(part, rate=20), tmp_path)
    estimate = sum(read_back([tmp_path / "json"], tmp_path).values())
    assert 0.9 < estimate / sum(Wire.of(packets_of(part)).frames.values()) < 1.1


@pytest.mark.parametrize("part", ["ddp4"], indirect=True)
def test_tcpdump_pipes_in(part: Path, tmp_path: Path) -> None:
    need("tcpdump")
    dump = subprocess.Popen(
        ["tcpdump", "--nano", "-r", str(part), "-w", "-", "-U", "tcp"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    command = [sys.executable, "-m", "llmprism", "convert", "-", "-o", str(tmp_path / "piped.parquet")]
    subprocess.run(command, stdin=dump.stdout, capture_output=True, check=True)
    assert dump.wait() == 0
    convert_flows([part], tmp_path / "direct.parquet")
    piped, direct = (_columns(tmp_path / name) for name in ("piped.parquet", "direct.parquet"))
    assert piped.keys() == direct.keys()
    for name in piped.keys() - {"exporter"}:
        np.testing.assert_array_equal(piped[name], direct[name])


def _columns(file: Path) -> dict[str, np.ndarray]:
    with duckdb.connect() as connection:
        return connection.execute("SELECT * FROM read_parquet(?) ORDER BY ALL", [str(file)]).fetchnumpy()
