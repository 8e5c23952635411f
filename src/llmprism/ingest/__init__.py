"""Bytes → FlowTable and Topology. One file per format; everything that reads flow records comes through here."""

from llmprism.ingest.assembled import read_transfers
from llmprism.ingest.convert import Conversion, convert_flows
from llmprism.ingest.flows import read_flows
from llmprism.ingest.mapping import ColumnMapping, ColumnSource, Unit
from llmprism.ingest.topology import read_topology
from llmprism.ingest.transfers import assemble_transfers

__all__ = [
    "ColumnMapping",
    "ColumnSource",
    "Conversion",
    "Unit",
    "assemble_transfers",
    "convert_flows",
    "read_flows",
    "read_topology",
    "read_transfers",
]
