"""Feeds mutated packets and capture files to the packet reader; a crash, an error that is not ours, or a hang fails.

    PYTHONPATH=src:tests/helpers python tests/fuzz/mutate_packets.py 1000000

The long run, on the compiled kernels; tests/fuzz/atheris_packets.py is the guided one, tests/fuzz/mutate_files.py the
one for whole files of all formats. One capture in ten is mutated as a whole besides. Prints how many packets and files
it ran, what the reader made of them, and the peak memory, which is capped while it runs.
"""

from __future__ import annotations

import io
import random
import resource
import sys
import time
from collections import Counter

import packet_frames as build
from llmprism.errors import LLMPrismError
from llmprism.ingest.packets.reader import PacketReader

MEMORY_BYTES = 3 << 30
PACKETS_PER_FILE = 500
SECONDS_PER_FILE = 10.0
INNER = build.tcp_frame(1000, 100)
SEEDS = [
    INNER,
    build.ethernet(INNER[14:], vlans=[0x88A8, 0x8100]),
    build.erspan2(INNER),
    build.erspan3(INNER, platform=True),
    build.vxlan(INNER),
    build.ethernet(build.ipv6("fe80::1", "fe80::2", 6, build.tcp(1, 2, 3, b"x" * 40)), 0x86DD),
    *(build.erspan2(build.ethernet(packet)) for packet in build.write_message(7, 5, 4000)),
    *(build.ethernet(packet) for packet in build.send_message(8, 5, 3000)),
    *(build.ethernet(packet) for packet in build.read_response(9, 2**24 - 2, 4000)),
    build.ethernet(build.roce(build.ACKNOWLEDGE, 3, 2, syndrome=0x60)),
    build.ethernet(build.roce(build.CNP, 3, 0)),
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(0, 6)):
        choice = rng.random()
        place = rng.randrange(len(changed)) if changed else 0
        if choice < 0.6 and changed:
            changed[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif choice < 0.8:
            del changed[place : place + rng.randint(1, 40)]
        else:
            changed[place:place] = rng.randbytes(rng.randint(1, 20))
    return bytes(changed)


def one_file(rng: random.Random, packets: int = PACKETS_PER_FILE) -> bytes:
    frames, now = [], 1_794_706_221_000_000_000
    for _ in range(packets):
        now += rng.choice((1, 1_000, 600_000, -5_000))
        frames.append((now, mutated(rng, rng.choice(SEEDS))))
    link = rng.choice((1, 1, 1, 0, 12, 101, 113, 276))
    if rng.random() < 0.5:
        data = build.pcap(frames, link=link, big=rng.random() < 0.5, nano=rng.random() < 0.5)
    else:
        resolution = rng.choice((None, 6, 9, 158))
        data = build.pcapng(frames, link=link, big=rng.random() < 0.5, resolution=resolution)
    return mutated(rng, data) if rng.random() < 0.1 else data


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    rng, outcome, packets, files = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0), Counter[str](), 0, 0
    for writer in (build.pcap, build.pcapng):  # compiles the kernels, which is no part of the time limit
        list(PacketReader(io.BytesIO(writer([(1, INNER)])), "warm").batches())
    while packets < wanted:
        data = one_file(rng)
        begin = time.monotonic()
        reader = PacketReader(io.BytesIO(data), "fuzz")
        try:
            records = sum(batch.shape[0] for batch in reader.batches())
            outcome["records"] += records
        except LLMPrismError as error:
            outcome[type(error).__name__] += 1
        if time.monotonic() - begin > SECONDS_PER_FILE:
            sys.exit(f"file {files} took more than {SECONDS_PER_FILE} s")
        packets += PACKETS_PER_FILE
        files += 1
        outcome["packets read"] += reader.stats().packets
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    sys.stdout.write(f"{packets:,} mutated packets in {files:,} files: {dict(outcome)}; peak memory {peak:,.0f} MB\n")


if __name__ == "__main__":
    main()
