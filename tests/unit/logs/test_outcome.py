# ruff: noqa: E501 (log lines as they are)
"""Stage, symptom and confidence where logs are short, cut or unreadable."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from llmprism.errors import InputError
from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import load_library
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()
STEPS = [f"step {n} loss 2.0" for n in range(1, 60)]


def run(path: Path, lines: list[str]) -> LogDiagnosis:
    path.write_text("\n".join(lines) + "\n")
    return diagnose_paths([path], library=LIBRARY)


TRAIN_STACK = [
    "NCCL version 2.18.1+cuda12.0",
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 225, in <module>',
    "    main()",
    '  File "/usr/lib/python3/site-packages/transformers/trainer.py", line 2582, in _inner_training_loop',
    "    tr_loss_step = self.training_step(model, inputs)",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
]


@pytest.mark.parametrize(
    ("lines", "stage", "symptom"),
    [
        (TRAIN_STACK, "train", "crash"),
        # NVIDIA/nccl#1730: no other line says that this was training
        (["[rank118]:[E603 17:48:01.005271823 ProcessGroupNCCL.cpp:632] [Rank 118] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2398459, OpType=ALLREDUCE, NumelIn=8652160, NumelOut=8652160, Timeout(ms)=1800000) ran for 1800068 milliseconds before timing out."], "train", "hang"),
        (["{'loss': 2.9043, 'learning_rate': 4.9e-05, 'epoch': 0.02}", "RuntimeError: CUDA error: unspecified launch failure"], "train", "crash"),
        (["NVRM: Xid (PCI:0000:9c:00): 79, pid=3711, GPU has fallen off the bus."], "unknown", "crash"),
        (["RuntimeError: Unable to find address for: eth0"], "init", "launch_failure"),
        (["torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 12/16 clients joined."], "init", "launch_failure"),
        (["RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/322: file write failed"], "checkpoint", "crash"),
        (["slurmstepd: error: pyxis: container start failed with error code: 1"], "launch", "launch_failure"),
    ],
)  # fmt: skip
def test_the_stage_comes_from_evidence(tmp_path: Path, lines: list[str], stage: str, symptom: str) -> None:
    found = run(tmp_path / "job.log", lines)
    assert (found.outcome.value, found.stage.value, found.symptom.value) == ("failed", stage, symptom)


def test_a_run_without_complaint_is_probably_well(tmp_path: Path) -> None:
    assert run(tmp_path / "job.log", STEPS).cause.confidence == 0.7


@pytest.mark.parametrize("lines", [["step 1 loss 2"], STEPS[:4], ["hello"]])
def test_a_short_log_proves_nothing(tmp_path: Path, lines: list[str]) -> None:
    assert run(tmp_path / "job.log", lines).cause.confidence <= 0.5


def test_a_cut_log_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("\n".join(STEPS) + "\nstep 60 lo")
    found = diagnose_paths([tmp_path], library=LIBRARY)
    assert (found.cause.cause_class.value, found.cause.confidence) == ("none", 0.3)
    assert "the last line is unfinished" in found.notes[0]


def test_a_truncated_gzip_is_read_to_its_end_and_proves_nothing(tmp_path: Path) -> None:
    text = "\n".join(f"step {n} loss 2.0 {os.urandom(40).hex()}" for n in range(1, 200_001)).encode()
    packed = gzip.compress(text, 1)
    (tmp_path / "job.log.gz").write_bytes(packed[: len(packed) * 9 // 10])
    found = diagnose_paths([tmp_path / "job.log.gz"], library=LIBRARY)
    assert found.input.bytes > 0.89 * len(text)
    assert found.iteration is not None
    assert found.iteration > 175_000
    assert found.cause.confidence <= 0.5
    assert dict(found.input.dropped)["truncated file"] == 1


@pytest.mark.parametrize(
    "data", [b"", bytes(range(256)) * 100, b"\x7fELF" + os.urandom(5000), b"7z\xbc\xaf\x27\x1c" + os.urandom(4000)]
)
def test_what_cannot_be_read_is_an_error_not_a_verdict(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "job.log").write_bytes(data)
    with pytest.raises(InputError, match="nothing to read"):
        diagnose_paths([tmp_path / "job.log"], library=LIBRARY)


def test_one_unreadable_file_among_others_lowers_the_confidence(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("\n".join(STEPS) + "\n")
    (tmp_path / "rank1.log").write_bytes(os.urandom(5000))
    found = diagnose_paths([tmp_path], library=LIBRARY)
    assert (found.cause.cause_class.value, found.cause.confidence) == ("none", 0.3)
    (tmp_path / "rank0.log").write_text("\n".join([*STEPS, "[after training is done] datetime: 2026-11-15"]) + "\n")
    ended = diagnose_paths([tmp_path], library=LIBRARY)
    assert (ended.outcome.value, 0.3 < ended.cause.confidence < 0.7) == ("success", True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "job.log").write_bytes(("\n".join(STEPS) + "\n").encode(encoding))
    assert diagnose_paths([tmp_path], library=LIBRARY).iteration == 59


def test_zip_and_text_logs_named_json(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for r in range(3):
            archive.writestr(f"job/rank{r}.log", "\n".join(STEPS) + "\n")
    found = diagnose_paths([tmp_path / "logs.zip"], library=LIBRARY)
    assert (found.iteration, found.input.files, found.input.ranks) == (59, 3, 3)
    (tmp_path / "train.json").write_text("\n".join(STEPS) + "\n")
    assert diagnose_paths([tmp_path / "train.json"], library=LIBRARY).iteration == 59


def test_an_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from llmprism.logs import unpack

    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        for r in range(40):
            data = "\n".join(f"step {n} {os.urandom(50).hex()}" for n in range(1, 200)).encode()
            info = tarfile.TarInfo(f"job/rank{r}.log")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    unpacked: list[int] = []
    readinto = unpack.UnpackedStream.readinto
    monkeypatch.setattr(
        unpack.UnpackedStream, "readinto", lambda self, view: unpacked.append(readinto(self, view)) or unpacked[-1]
    )
    found = diagnose_paths([tmp_path / "logs.tar.gz"], library=LIBRARY)
    assert found.input.ranks == 40
    assert sum(unpacked) < 3 * found.input.bytes, "once for the archive and once for each member"
