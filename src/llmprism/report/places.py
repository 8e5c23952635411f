"""What an address, a link, a group or a switch is called: its own name, and where it sits where a topology says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmprism.model.finding import Finding, Where, WhereType
from llmprism.model.topology import Nic, Topology
from llmprism.report.kinds import TITLES
from llmprism.report.text import clean

__all__ = ["Places"]

_LISTED_MEMBERS: Final = 4
"""Members of a group named in a line of text; the rest are counted."""

_NOUNS: Final = {
    WhereType.GPU: "GPU",
    WhereType.NIC: "NIC",
    WhereType.LINK: "link",
    WhereType.SWITCH: "switch",
    WhereType.GROUP: "group",
    WhereType.STAGE: "stage",
    WhereType.JOB: "job",
    WhereType.STORAGE: "storage",
}


class Places:
    """Names of places, cleaned for display. Built once per report; lookups are dictionary reads."""

    def __init__(self, topology: Topology | None) -> None:
        self._seats: dict[str, tuple[str, Nic]] = {}
        self._tiers: dict[str, str] = {}
        if topology is not None:
            self._tiers = topology.tier_of()
            for server in topology.servers:
                for nic in server.nics:
                    self._seats[nic.address] = (server.name, nic)

    def spot(self, address: str) -> str | None:
        """`server00 GPU 3` where the topology knows the address."""
        if address not in self._seats:
            return None
        server, nic = self._seats[address]
        return clean(server) if nic.gpu is None else f"{clean(server)} GPU {nic.gpu}"

    def seat(self, address: str) -> str | None:
        """`server00 GPU 3, leaf03`: the spot and the switch it hangs on."""
        spot = self.spot(address)
        if spot is None:
            return None
        switch = self._seats[address][1].switch
        return spot if switch is None else f"{spot}, {clean(switch)}"

    def address(self, address: str) -> str:
        """The address with its seat in brackets."""
        seat = self.seat(address)
        return f"{clean(address)} ({seat})" if seat else clean(address)

    def where(self, where: Where) -> str:
        """The place of a finding, with its noun: `NIC 10.13.0.1 (server00 GPU 3, leaf03)`."""
        noun = _NOUNS[where.type]
        if isinstance(where.id, str):
            if where.type is WhereType.SWITCH and where.id in self._tiers:
                return f"{noun} {clean(where.id)} ({clean(self._tiers[where.id])})"
            return f"{noun} {self.address(where.id)}"
        if where.type is WhereType.LINK and len(where.id) == 2:
            return f"{noun} {clean(where.id[0])} → {clean(where.id[1])}"
        return f"{noun} of {len(where.id)}: {self.members(where.id)}"

    def finding(self, finding: Finding) -> str:
        """The place of a finding without the noun that its title already says: `Slow NIC` is at `10.13.0.1`."""
        noun = _NOUNS[finding.where.type]
        text = self.where(finding.where)
        return text.removeprefix(noun).lstrip() if TITLES[finding.kind].endswith(f" {noun}") else text

    def members(self, addresses: Iterable[str]) -> str:
        """The first few of them, and how many more there are."""
        names = [clean(address) for address in addresses]
        listed = ", ".join(names[:_LISTED_MEMBERS])
        more = len(names) - _LISTED_MEMBERS
        return f"{listed} and {more} more" if more > 0 else listed
