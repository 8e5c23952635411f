"""Packets at the leaves: one tcpdump per leaf, each packet recorded once, at the leaf of its sender.

Only packets with payload are taken (a frame of 67 bytes and more), and only their first 66 bytes: addresses, ports and
lengths. The stamps are nanoseconds of the machine's one wall clock.
"""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from lab.fabric import Fabric, namespace_command
from lab.jobs import wait_for

__all__ = ["Capture"]

SNAP = 66
BUFFER_KB = 131072


class Capture:
    def __init__(self, fabric: Fabric, folder: Path) -> None:
        self._folder = folder
        self._leaves = tuple(fabric.leaves)
        self._processes = []
        for leaf, addresses in fabric.leaves.items():
            sources = " or ".join(f"src host {address}" for address in addresses)
            options = ["-Z", "root", "-i", leaf, "-s", str(SNAP), "-B", str(BUFFER_KB), "--time-stamp-precision=nano"]
            words = ["tcpdump", *options, "-w", str(folder / f"{leaf}.pcap"), f"tcp and greater 67 and ({sources})"]
            with (folder / f"{leaf}.err").open("wb") as errors:
                self._processes.append(
                    subprocess.Popen(namespace_command(fabric.switches, *words), stderr=errors, stdout=errors)
                )
        if not wait_for(self._listening, 15):
            self.stop()
            raise RuntimeError(f"tcpdump does not start: {self._errors(self._leaves[0])[-200:]}")

    def _errors(self, leaf: str) -> str:
        return (self._folder / f"{leaf}.err").read_text(errors="replace")

    def _listening(self) -> bool:
        return all("listening on" in self._errors(leaf) for leaf in self._leaves)

    def stop(self) -> int:
        """Ends the capture; how many packets the kernel dropped."""
        for process in self._processes:
            process.send_signal(signal.SIGINT)
        for process in self._processes:
            process.wait()
        found = [re.search(r"(\d+) packets? dropped by kernel", self._errors(leaf)) for leaf in self._leaves]
        return sum(int(match.group(1)) for match in found if match)
