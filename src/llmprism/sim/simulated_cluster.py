"""The cluster: servers, NIC addresses, leaves, spines, and the path that each connection takes.

One NIC per GPU. In a rail-optimised pod GPU g of every server hangs on the pod's leaf g, so same-rail traffic inside a
pod stays on one leaf; in a plain leaf-spine a server's NICs share a leaf. ECMP picks the spine of a connection by a
hash of its ends and port, as switches do: two connections of a pair may take different spines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int32
from llmprism.model import Nic, Server, Switch, Topology
from llmprism.sim.scenario import ClusterSpec

__all__ = ["SimulatedCluster", "build_cluster"]


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """NIC ids are `server * gpus_per_server + gpu`, then storage nodes, the monitor, inference nodes, their gateway.

    `leaf_of` gives the leaf of each NIC; switch ids are the leaves, then the spines.
    """

    spec: ClusterSpec
    addresses: tuple[str, ...]
    leaf_of: Int32
    leaves: tuple[str, ...]
    spines: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return self.spec.servers * self.spec.gpus_per_server

    @property
    def storage(self) -> range:
        """NIC ids of the storage nodes."""
        return range(self.gpus, self.gpus + self.spec.storage_nodes)

    @property
    def monitor(self) -> int | None:
        return self.gpus + self.spec.storage_nodes if self.spec.monitoring else None

    @property
    def inference(self) -> range:
        """NIC ids of the nodes that serve requests."""
        first = self.gpus + self.spec.storage_nodes + int(self.spec.monitoring)
        return range(first, first + self.spec.inference_nodes)

    @property
    def switches(self) -> tuple[str, ...]:
        return self.leaves + self.spines

    def server_of(self, nic: int) -> int:
        return nic // self.spec.gpus_per_server

    def link(self, leaf: int, spine: int) -> int:
        """Id of the link between a leaf and a spine (spine counted from 0)."""
        return leaf * len(self.spines) + spine

    def topology(self) -> Topology:
        """The topology file's content: GPU servers and switches (storage nodes are not in it)."""
        per_server = self.spec.gpus_per_server
        servers = tuple(
            Server(
                f"server{server:04d}",
                tuple(
                    Nic(self.addresses[nic], nic - server * per_server, self.leaves[self.leaf_of[nic]])
                    for nic in range(server * per_server, (server + 1) * per_server)
                ),
            )
            for server in range(self.spec.servers)
        )
        tiers = tuple(Switch(name, "leaf") for name in self.leaves) + tuple(Switch(n, "spine") for n in self.spines)
        return Topology(servers, tiers)


def build_cluster(spec: ClusterSpec) -> SimulatedCluster:
    per_server = spec.gpus_per_server
    gpu_ids = np.arange(spec.servers * per_server)
    server, gpu = gpu_ids // per_server, gpu_ids % per_server
    pod = server // spec.servers_per_pod
    pods = int(pod.max()) + 1
    if spec.fabric == "rail":
        leaf = pod * per_server + gpu
        leaves = tuple(f"pod{p}-leaf{g}" for p in range(pods) for g in range(per_server))
    else:
        leaf = pod
        leaves = tuple(f"leaf{p:03d}" for p in range(pods))
    extra = spec.storage_nodes + int(spec.monitoring) + spec.inference_nodes + int(spec.inference_nodes > 0)
    leaf_of = np.concatenate((leaf, np.arange(extra) % len(leaves))).astype(np.int32)
    addresses = [_address(spec.address_plan, int(s), int(g), per_server) for s, g in zip(server, gpu, strict=True)]
    addresses += [f"10.250.0.{i + 1}" for i in range(spec.storage_nodes)]
    addresses += ["10.251.0.1"] * spec.monitoring
    addresses += [f"10.252.0.{i + 1}" for i in range(spec.inference_nodes)]
    addresses += ["10.253.0.1"] * (spec.inference_nodes > 0)
    spines = tuple(f"spine{i:02d}" for i in range(max(spec.spines, 1)))
    return SimulatedCluster(spec, tuple(addresses), leaf_of, leaves, spines)


def _address(plan: str, server: int, gpu: int, per_server: int) -> str:
    if plan == "server":
        host = server * per_server + gpu
        return f"172.{16 + host // 64000}.{host // 250 % 256}.{host % 250 + 1}"
    if plan == "ipv6":
        return f"fd00:{server + 1:x}::{gpu + 1:x}"
    return f"10.{10 + gpu}.{server // 250}.{server % 250 + 1}"
