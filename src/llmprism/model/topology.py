"""Where the NICs are: servers, the switch each NIC hangs on, the tiers of the switches. Always optional."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Nic", "Server", "Switch", "Topology"]


@dataclass(frozen=True, slots=True)
class Nic:
    address: str
    gpu: int | None = None
    switch: str | None = None


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    nics: tuple[Nic, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    name: str
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    servers: tuple[Server, ...] = ()
    switches: tuple[Switch, ...] = ()

    def server_of(self) -> dict[str, str]:
        """Address → server name."""
        return {nic.address: server.name for server in self.servers for nic in server.nics}

    def slot_of(self) -> dict[str, int]:
        """Address → index of its GPU within the server, where that is known."""
        return {nic.address: nic.gpu for server in self.servers for nic in server.nics if nic.gpu is not None}

    def switch_of(self) -> dict[str, str]:
        """Address → name of the switch its NIC hangs on."""
        return {nic.address: nic.switch for server in self.servers for nic in server.nics if nic.switch is not None}

    def tier_of(self) -> dict[str, str]:
        """Switch name → tier."""
        return {switch.name: switch.tier for switch in self.switches if switch.tier is not None}
