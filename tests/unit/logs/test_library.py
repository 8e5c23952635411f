# ruff: noqa: E501 (log lines as they are)
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from llmprism.errors import FormatError, InputError
from llmprism.logs.library import Library, load_library, parse_library
from llmprism.logs.shapes import choose_fault

ENTRY = '[[fault]]\nid = "site.x"\npattern = "port .* flapped"\nclass = "network"\n'


@cache
def library() -> Library:
    return load_library()


def test_there_are_enough_entries_and_each_says_what_and_where_from() -> None:
    faults = library().faults
    assert len(faults) >= 150
    assert len({fault.cause for fault in faults}) >= 12
    for fault in faults:
        assert fault.summary, fault.id
        assert fault.source, fault.id
        assert fault.advice or fault.role.value in ("benign", "cascade", "warning"), fault.id


def test_every_example_matches_its_entry() -> None:
    tried = 0
    for fault in library().faults:
        for example in fault.examples:
            tried += 1
            assert fault in library().match(example.encode())[0], fault.id
    assert tried >= 80


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0)", "gpu.xid14x_nonfatal"),
        ("NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 1 caused by previous Xid 149", "gpu.xid45"),
        ("NVRM: Xid (PCI:0000:dc:00): 999, what", "gpu.xid_other"),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32", "nvswitch.sxid_nonfatal"),
        ("OSError: [Errno 28] No space left on device", "storage.no_space"),
    ],
)
def test_the_words_decide_the_severity(line: str, entry: str) -> None:
    fault = choose_fault(library().match(line.encode())[0])
    assert fault is not None
    assert fault.id == entry


def test_healthy_lines_match_nothing_that_counts() -> None:
    for line in (
        "iteration 30/60 | lm loss: 2.1",
        "NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P",
        "word error rate: 12",
    ):
        assert all(fault.role.value == "benign" for fault in library().match(line.encode())[0]), line


def test_a_users_file_adds_and_replaces(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(ENTRY + '\n[[fault]]\nid = "gpu.xid79"\npattern = "never"\nclass = "none"\nrole = "benign"\n')
    merged = load_library([own])
    assert merged.match(b"port 7 has flapped")[0][0].id == "site.x"
    replaced = merged.fault("gpu.xid79")
    assert replaced is not None
    assert replaced.role.value == "benign"


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "[[other]]\nid = 'x'\n",
        "[[fault]]\npattern = 'x'\n",
        "[[fault]]\nid = 'x'\n",
        ENTRY.replace("network", "nonsense"),
        ENTRY + 'colour = "red"\n',
        ENTRY.replace("port .* flapped", "(port"),
        ENTRY + 'role = "king"\n',
        "fault = 3\n",
    ],
)
def test_bad_files_are_refused_with_a_reason(text: str) -> None:
    with pytest.raises(FormatError):
        parse_library(text, "own.toml")


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_library([tmp_path / "absent.toml"])


CITED = re.compile(
    r"https?://\S+|[\w.-]+/[\w.-]+#\d+|[\w.-]+/[\w.-]+ pull \d+|arXiv \d|mlcommons/\w+"
    r"|[\w.-]+/[\w.-]+ [\w./-]+/[\w.*-]+|[\w.-]+\.(?:cpp|cc|py|c|h|go|rst)\b"
)


def test_every_entry_cites_a_source_that_can_be_looked_up() -> None:
    library = load_library()
    without = [entry.id for entry in (*library.faults, *library.markers) if not CITED.search(entry.source)]
    assert without == []


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        # NVIDIA/NVSentinel#155: three lines, no Xid
        ("NVRM: fallen off the bus and is not responding to commands.", "gpu.xid79"),
        ("mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature", "nic.module_error"),
        ("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:210] address family mismatch", "gloo.interface"),
        ("RuntimeError: Unable to find address for: eth0", "gloo.interface"),
        ("init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 39.", "nccl.mismatch"),
        ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "gpu.system_not_ready"),
        ("RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/322: file write failed", "storage.stream_writer"),
        ("RuntimeError: File /home/code/checkpoint/a.pth cannot be opened.", "storage.ckpt_open"),
        ("node:2134736:2285781 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", "nccl.out_of_memory"),
        ("EI0008: The CANN versions are inconsistent: tag [HcomAllReduce_6629421139219749105_0]", "hccl.EI0008"),
        ("EI0015: [PID: 2969] 2025-10-11-15:09:34.713.335 the rank table could not be gathered", "hccl.EI0015"),
        ("[lxbk1127:2330856:0:2330856] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)", "net.ucx_error"),
    ],
)  # fmt: skip
def test_current_wordings(line: str, entry: str) -> None:
    chosen = choose_fault(load_library().match(line.encode())[0])
    assert chosen is not None
    assert chosen.id == entry
