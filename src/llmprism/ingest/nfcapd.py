"""Files of nfcapd, read by calling nfdump where it is installed: its binary format is its own business."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

from llmprism.errors import FormatError
from llmprism.ingest.file_format import Compression, Format, SourceFile
from llmprism.ingest.json_lines import JSON_LINES
from llmprism.ingest.sources import head_of

__all__ = ["NFCAPD"]

MAGIC: Final = b"\x0c\xa5"

TIMEOUT_SECONDS: Final = 600
"""nfdump reads millions of records a second; ten minutes is a file far beyond our own caps."""


def _dumped(source: SourceFile, folder: Path) -> SourceFile:
    """The file as JSON in `folder`, as a source of its own. Times are printed in UTC."""
    program = shutil.which("nfdump")
    if program is None:
        raise FormatError(f"{source.path}: an nfcapd file; install nfdump, or convert it with nfdump -o json")
    target = folder / f"{len(list(folder.iterdir()))}.nfdump.json"
    command = [program, "-6", "-r", str(source.path), "-o", "json"]
    environment = {**os.environ, "TZ": "UTC"}
    try:
        with target.open("wb") as out:
            # The program is found on PATH and the file name is one argument: nothing is interpreted by a shell.
            result = subprocess.run(  # noqa: S603
                command, stdout=out, stderr=subprocess.PIPE, env=environment, timeout=TIMEOUT_SECONDS, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FormatError(f"{source.path}: nfdump could not be run ({error.__class__.__name__})") from None
    if result.returncode or not target.stat().st_size:
        reason = " ".join(result.stderr.decode(errors="replace").split())[:160]
        raise FormatError(f"{source.path}: nfdump cannot read it ({reason or 'no output'})")
    _, head = head_of(target)
    return replace(source, path=target, format=JSON_LINES, compression=Compression.NONE, head=head)


NFCAPD: Final = Format(
    "nfcapd", "an nfcapd file", lambda head: head.startswith(MAGIC), JSON_LINES.scans, prepare=_dumped
)
