"""Bytes → transfers and Topology. One file per format; everything that reads flow records comes through here.

The road of a record, from a file to a transfer:

    sources, formats which files, of which compression and format, by their first bytes
    csv_text, json_lines, parquet, nfcapd, packet_capture (packets/)
                     one file per format (`file_format.Format`), listed in `formats.FORMATS`: how a file of it is
                     recognised, and a scan, with an SQL expression for every column of the contract
    collectors, mapping, resolve, columns
                     which column is which, in which unit; usable or not, with the reason
    relation         all scans as one SQL relation `records`
    interning        names → integers, as the records stream by (number_stream, key_numbers)
    flow_table       order (record_order), duplicates, table: the core, the same for every way of reading
    transfers        records of one message → a transfer (records_as_transfers: each taken for one, as the paper does)

Three ways to go it: `whole_read` (all records at once), `bucketed_read` (one bucket of pairs after the other, kept in
`bucket_store`, so that memory is bounded), `spark_bucket` (a bucket that Spark brought together). Off the road:
`convert` and `accept` write records out again, `extract` picks some, `fitness` and `suitability` judge them,
`topology` and `topology_check` read where the addresses are. `database` is the private DuckDB that scans run in;
`capture_notes`, `fresh_memory` and `zstd` are small helpers.
"""

from llmprism.ingest.bucketed_read import read_transfers
from llmprism.ingest.convert import Conversion, convert_flows
from llmprism.ingest.mapping import ColumnMapping, ColumnSource, Unit
from llmprism.ingest.topology import read_topology
from llmprism.ingest.transfers import assemble_transfers
from llmprism.ingest.whole_read import read_flows

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
