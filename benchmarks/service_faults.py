"""Claim: torn writes, a full disk and a database that is away for a minute change nothing in the results.

Plays the same capture once undisturbed and once through each fault, and compares everything that is left behind. A
full disk is a small tmpfs of its own, so that part needs root; PostgreSQL is Debian's, started on loopback.
Usage: python benchmarks/service_faults.py [torn] [disk] [postgresql] [--away SECONDS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from outages import Postgres, SmallDisk
from running_service import ROOT, Service, compared

CAPTURE = ROOT / "examples" / "slow_nic"
RECORDS = 63_929
DISK_MB = 24


def undisturbed(folder: Path) -> dict[str, Any]:
    service = Service(folder, CAPTURE)
    service.get("/healthz")
    service.send(8.0)
    made = service.results(0)
    service.stop()
    return made


def sending(service: Service, speed: float) -> threading.Thread:
    sender = threading.Thread(target=service.send, args=(speed,), daemon=True)
    sender.start()
    return sender


# -- torn writes ------------------------------------------------------------------------------------------------------


def tear(data: Path, chance: random.Random) -> None:
    """Leaves what a power cut in the middle of a write leaves: halves of files that no row names, half a WAL frame."""
    segments = [path for path in (data / "flows").rglob("*.parquet") if path.stat().st_size > 100]
    if segments:
        whole = chance.choice(segments).read_bytes()
        half = whole[: chance.randrange(4, len(whole))]
        (segments[0].parent / f"{chance.randrange(10**9):032x}.parquet").write_bytes(half)
        (data / "incoming" / "torn.parquet").write_bytes(half)
        (data / "incoming" / "look-torn").mkdir(exist_ok=True)
        (data / "incoming" / "look-torn" / "look.parquet").write_bytes(half)
        (data / "bodies" / "torn").write_bytes(half)
    log = data / "llmprism.db-wal"
    if log.exists():
        with log.open("ab") as file:
            file.write(chance.randbytes(chance.randrange(1, 4096)))


def torn(folder: Path, calm: dict[str, Any]) -> bool:
    service = Service(folder / "data", CAPTURE)
    service.get("/healthz")
    sender = sending(service, 0.6)
    chance = random.Random(3)
    times = 0
    while sender.is_alive():
        time.sleep(chance.uniform(1.0, 3.0))
        service.kill()
        tear(folder / "data", chance)
        times += 1
        service.start()
        service.get("/healthz")
    made = service.results(calm["windows"][0]["end_ns"])
    service.stop()
    print(f"torn writes: {times} times", flush=True)
    return compared(calm, made)


# -- a full disk ------------------------------------------------------------------------------------------------------


def disk(folder: Path, calm: dict[str, Any]) -> bool:
    small = SmallDisk(folder / "small", DISK_MB)
    service = Service(small.folder / "data", CAPTURE)
    try:
        return _on_small_disk(service, small, calm)
    finally:
        service.stop()
        small.close()


def _on_small_disk(service: Service, small: SmallDisk, calm: dict[str, Any]) -> bool:
    service.get("/healthz")
    sender = sending(service, 2.0)
    service.until(lambda: service.get("/api/v1/windows")["items"], 120)
    small.away()
    said = service.until(lambda: service.ready()[1], 60)
    print(f"disk full: /readyz says {said}", flush=True)
    time.sleep(10)
    before = _stored(service)
    small.back()
    service.until(lambda: service.ready()[0], 90)
    sender.join()
    made = service.results(calm["windows"][0]["end_ns"])
    (source,) = made["sources"]
    exact = source["received"] == source["stored"] + sum(source["dropped"].values()) and source["stored"] == RECORDS
    print(f"   stored {before:,} when full, {source['stored']:,} of {RECORDS:,} afterwards", flush=True)
    print(f"   received {source['received']:,}, turned away {source['dropped']}: exact {exact}", flush=True)
    return compared(calm, made, but=("sources",)) and exact


def _stored(service: Service) -> int:
    return sum(int(source.get("stored", 0)) for source in service.get("/api/v1/sources")["items"])


# -- PostgreSQL away --------------------------------------------------------------------------------------------------


def postgresql(folder: Path, calm: dict[str, Any], away_s: float) -> bool:
    database = Postgres()
    try:
        service = Service(folder / "data", CAPTURE, STORE__URL=database.url)
        service.get("/healthz")
        sender = sending(service, 2.0)
        service.until(lambda: service.get("/api/v1/windows")["items"], 120)
        database.away()
        said = service.until(lambda: service.ready()[1], 60)
        print(f"PostgreSQL away for {away_s:.0f} s: /readyz says {said[0][:120]}", flush=True)
        time.sleep(away_s)
        database.back()
        service.until(lambda: service.ready()[0], 90)
        sender.join()
        made = service.results(calm["windows"][0]["end_ns"])
        service.stop()
    finally:
        database.close()
    return compared(calm, made)


def main() -> None:
    arguments = sys.argv[1:]
    away_s = 60.0
    if "--away" in arguments:
        at = arguments.index("--away")
        away_s = float(arguments[at + 1])
        del arguments[at : at + 2]
    chosen = arguments or ["torn", "disk", "postgresql"]
    with tempfile.TemporaryDirectory() as name:
        folders = {part: Path(name) / part for part in ("calm", *chosen)}
        for folder in folders.values():
            folder.mkdir()
        calm = undisturbed(folders["calm"] / "data")
        print(f"undisturbed: {', '.join(f'{len(value)} {key}' for key, value in calm.items())}", flush=True)
        good = True
        if "torn" in chosen:
            good &= torn(folders["torn"], calm)
        if "disk" in chosen:
            good &= disk(folders["disk"], calm)
        if "postgresql" in chosen:
            good &= postgresql(folders["postgresql"], calm, away_s)
    sys.exit(not good)


if __name__ == "__main__":
    main()
