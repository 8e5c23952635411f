"""Topology files from what operators already have: LLDP, Slurm, a CSV, an Ansible inventory."""

from llmprism.ingest.topologies.inventory import topology_from_inventory
from llmprism.ingest.topologies.lldp import HostFiles, topology_from_lldp
from llmprism.ingest.topologies.slurm import parse_hosts, topology_from_slurm
from llmprism.ingest.topologies.table import topology_from_csv

__all__ = [
    "HostFiles",
    "parse_hosts",
    "topology_from_csv",
    "topology_from_inventory",
    "topology_from_lldp",
    "topology_from_slurm",
]
