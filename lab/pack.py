"""A recorded run to a case: `flows.parquet`, `topology.json`, `truth.json.gz`, `logs.tar.gz`, a slice of the packets.

Paths of the machine are taken out of the logs. A run that fails a check leaves no case.
"""

from __future__ import annotations

import gzip
import io
import ipaddress
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lab.checks import check_capture
from lab.notes import read_job, read_run
from lab.step_bytes import deviation_of_job
from lab.truth import Window, steady_times, truth_document, window_of

__all__ = ["pack"]

CLEANERS = (
    (re.compile(r"(?:/[\w.+-]+)+/(?=lib(?:64)?/python3)"), "/usr/"),
    (re.compile(r"(?:/[\w.+-]+)+/(?=lab/)"), "/workspace/"),
    (re.compile(r"(?:/[\w.+-]+)+/py/(?=megatron|deepspeed|opt)"), "/usr/lib/python3/site-packages/"),
    (re.compile(r"/tmp/[\w./-]+"), "/scratch"),
)
MAX_LOG_BYTES = 200_000

MAX_STEP_BYTE_DEVIATION = 0.1
"""ZeRO-3, whose prefetch crosses the ends of steps, reaches 0.03; a step counted twice 1."""

Arrays = dict[str, NDArray[Any]]


def pack(folder: Path, out: Path) -> list[str]:
    """Writes the case and returns no problem, or writes nothing and returns what is wrong."""
    run = read_run(folder)
    jobs = [read_job(folder, run, name) for name in run["placement"]]
    if not all(job.ranks for job in jobs):
        return [f"job {job.name} never began" for job in jobs if not job.ranks]
    window = window_of(run, jobs)
    records = _visible_records(run, _load(folder / "flows.npz"), window)
    names = _names(records)
    steady = {job.name: _pair_bytes(records, names, steady_times(job, window)) for job in jobs}
    truth = truth_document(run, jobs, window, steady, _pair_bytes(records, names, [window]))
    problems = check_capture(run, jobs, truth, steady)
    problems += _check_step_bytes(truth, records, names)
    if problems:
        return problems
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    _write_flows(records, names, run["fabric"]["leaf_of"], out / "flows.parquet")
    (out / "topology.json").write_text(json.dumps(run["fabric"]["topology"], indent=1) + "\n", encoding="utf-8")
    (out / "truth.json.gz").write_bytes(gzip.compress(json.dumps(truth, sort_keys=True).encode(), 9, mtime=0))
    _write_logs(folder, out / "logs.tar.gz")
    if (folder / "slice.pcap.gz").exists():
        shutil.copy(folder / "slice.pcap.gz", out / "part.pcap.gz")
    return []


def _check_step_bytes(truth: dict[str, Any], records: Arrays, names: dict[int, str]) -> list[str]:
    number_of = {name: number for number, name in names.items()}
    problems = []
    for job in truth["jobs"]:
        deviation = deviation_of_job(job, records, number_of)
        if deviation is not None and deviation > MAX_STEP_BYTE_DEVIATION:
            problems.append(f"job {job['id']}: bytes per step vary by {deviation:.0%}: stamps and traffic do not agree")
    return problems


def _load(path: Path) -> Arrays:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def _names(records: Arrays) -> dict[int, str]:
    numbers = np.unique(np.r_[records["src"], records["dst"]])
    return {int(number): str(ipaddress.ip_address(int(number))) for number in numbers}


def _visible_records(run: dict[str, Any], records: Arrays, window: Window) -> Arrays:
    """Records that lie inside the window and reach a switch: NVLink carries what stays inside a server."""
    kept = (records["start_ns"] >= window[0]) & (records["end_ns"] <= window[1])
    if run["scenario"]["fabric"]["nvlink"]:
        server = {
            int(ipaddress.ip_address(nic["address"])): i
            for i, item in enumerate(run["fabric"]["topology"]["servers"])
            for nic in item["nics"]
        }
        ends = [np.array([server.get(int(a), -1 - k) for a in records[c]]) for k, c in enumerate(("src", "dst"))]
        kept &= ends[0] != ends[1]
    return {name: values[kept] for name, values in records.items()}


def _pair_bytes(records: Arrays, names: dict[int, str], times: list[Window]) -> dict[tuple[str, str], int]:
    """Bytes of each directed pair in records that begin in one of the times."""
    kept = np.zeros(len(records["bytes"]), bool)
    for start, end in times:
        kept |= (records["start_ns"] >= start) & (records["start_ns"] < end)
    both = (records["src"][kept] << 32) | records["dst"][kept]
    pairs, where = np.unique(both, return_inverse=True)
    totals = np.bincount(where, weights=records["bytes"][kept], minlength=len(pairs))
    return {
        (names[int(pair) >> 32], names[int(pair) & 0xFFFFFFFF]): int(total)
        for pair, total in zip(pairs, totals, strict=True)
    }


def _write_flows(records: Arrays, names: dict[int, str], leaf_of: dict[str, str], path: Path) -> None:
    """The contract's columns, in the order in which an exporter would send them."""
    order = np.argsort(records["end_ns"], kind="stable")
    data = {name: values[order] for name, values in records.items()}
    both = (data["src"] << 32) | data["dst"]
    pairs, where = np.unique(both, return_inverse=True)
    paths = []
    for pair in pairs.tolist():
        a, b = leaf_of[names[pair >> 32]], leaf_of[names[pair & 0xFFFFFFFF]]
        paths.append([a] if a == b else [a, "spine0", b])

    def text(column: str) -> Any:
        numbers, index = np.unique(data[column], return_inverse=True)
        known = pa.array([names[int(number)] for number in numbers], pa.string())
        return known.take(pa.array(index.astype(np.int32)))

    table = pa.table(
        {
            "start_ns": pa.array(data["start_ns"], pa.int64()),
            "end_ns": pa.array(data["end_ns"], pa.int64()),
            "src": text("src"),
            "dst": text("dst"),
            "sport": pa.array(data["sport"].astype(np.uint16)),
            "dport": pa.array(data["dport"].astype(np.uint16)),
            "protocol": pa.array(np.full(len(order), 6, np.uint8)),
            "bytes": pa.array(data["bytes"], pa.int64()),
            "packets": pa.array(data["packets"], pa.int64()),
            "switches": pa.array(paths, pa.list_(pa.string())).take(pa.array(where.astype(np.int32))),
        }
    )
    times = dict.fromkeys(("start_ns", "end_ns"), "DELTA_BINARY_PACKED")
    dictionary = [name for name in table.column_names if name not in times]
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=dictionary, column_encoding=times
    )


def _write_logs(folder: Path, path: Path) -> None:
    """What the ranks printed; a long log keeps its beginning and its end."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for log in sorted(folder.glob("jobs/*/rank*.log")):
            text = log.read_text(errors="replace")
            if len(text) > MAX_LOG_BYTES:
                text = text[: MAX_LOG_BYTES // 2] + "\n...\n" + text[-MAX_LOG_BYTES // 2 :]
            for pattern, replacement in CLEANERS:
                text = pattern.sub(replacement, text)
            data = text.encode()
            entry = tarfile.TarInfo(f"{log.parent.name}/{log.name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
