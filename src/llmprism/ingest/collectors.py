"""Collectors whose output is recognised by its column names, each as a column mapping.

Decoding NetFlow, IPFIX and sFlow is left to the collectors, which do it well; what they write is CSV or JSON and needs
only names and units. A collector that reports a connection once for both directions has two mappings, one per
direction. `a|b` means: column a, or column b where a is absent, NULL or
a date of zeros, which some collectors print for unknown times. The order of the list is the order of trial.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Final

from llmprism.ingest.mapping import REQUIRED, ColumnMapping

__all__ = ["COLLECTORS", "Collector", "collector_named", "mappings_for", "nested_names"]


@dataclass(frozen=True, slots=True)
class Collector:
    """`signature` lists columns that only this collector has together; `mappings` one mapping per direction."""

    name: str
    signature: tuple[str, ...]
    mappings: tuple[str, ...]


_ZEEK: Final = "start_ns=ts:iso,duration_ns=duration:s,protocol=proto"

COLLECTORS: Final = (
    Collector(
        "goflow2",
        ("time_flow_start_ns", "src_addr", "dst_addr"),
        (
            "start_ns=time_flow_start_ns,end_ns=time_flow_end_ns,src=src_addr,dst=dst_addr,sport=src_port,dport=dst_port,"
            "protocol=proto,exporter=sampler_address,sampling=sampling_rate",
        ),
    ),
    Collector(
        "goflow",
        ("TimeFlowStart", "SrcAddr", "DstAddr"),
        (
            "start_ns=TimeFlowStart:s,end_ns=TimeFlowEnd:s,src=SrcAddr,dst=DstAddr,sport=SrcPort,dport=DstPort,"
            "protocol=Proto,bytes=Bytes,packets=Packets,exporter=SamplerAddress,sampling=SamplingRate",
        ),
    ),
    Collector(
        "pmacct",
        ("ip_src", "ip_dst", "bytes"),
        (
            "start_ns=timestamp_start|timestamp_arrival|stamp_inserted:iso,"
            "end_ns=timestamp_end|timestamp_arrival|timestamp_start|stamp_updated:iso,src=ip_src,dst=ip_dst,"
            "sport=port_src,dport=port_dst,protocol=ip_proto,exporter=peer_ip_src,sampling=sampling_rate",
        ),
    ),
    Collector(
        "pmacct-csv",
        ("SRC_IP", "DST_IP", "BYTES"),
        (
            "start_ns=TIMESTAMP_START|TIMESTAMP_ARRIVAL|STAMP_INSERTED:iso,"
            "end_ns=TIMESTAMP_END|TIMESTAMP_ARRIVAL|TIMESTAMP_START|STAMP_UPDATED:iso,src=SRC_IP,dst=DST_IP,"
            "sport=SRC_PORT,dport=DST_PORT,protocol=PROTOCOL,packets=PACKETS,bytes=BYTES,exporter=PEER_SRC_IP,"
            "sampling=SAMPLING_RATE",
        ),
    ),
    Collector(
        "nfdump",
        ("ts", "te", "sa", "da", "ibyt"),
        (
            "start_ns=ts:iso,end_ns=te:iso,src=sa,dst=da,sport=sp,dport=dp,protocol=pr,packets=ipkt,bytes=ibyt,"
            "exporter=ra",
        ),
    ),
    Collector(
        "nfdump-csv",
        ("firstSeen", "duration", "srcAddr", "dstAddr", "bytes"),
        (
            "start_ns=firstSeen:iso,duration_ns=duration:s,src=srcAddr,dst=dstAddr,sport=srcPort,dport=dstPort,protocol=proto",
        ),
    ),
    Collector(
        "nfdump-json",
        ("first", "last", "in_bytes"),
        (
            "start_ns=first:iso,end_ns=last:iso,src=src4_addr|src6_addr,dst=dst4_addr|dst6_addr,sport=src_port,"
            "dport=dst_port,protocol=proto,packets=in_packets,bytes=in_bytes,exporter=ip4_router|ip6_router",
        ),
    ),
    Collector(
        "zeek",
        ("ts", "id.orig_h", "id.resp_h", "orig_bytes"),
        (
            f"{_ZEEK},src=id.orig_h,dst=id.resp_h,sport=id.orig_p,dport=id.resp_p,bytes=orig_bytes,packets=orig_pkts",
            f"{_ZEEK},src=id.resp_h,dst=id.orig_h,sport=id.resp_p,dport=id.orig_p,bytes=resp_bytes,packets=resp_pkts",
        ),
    ),
    Collector(
        "aws-vpc",
        ("srcaddr", "dstaddr", "start", "end", "bytes"),
        ("start_ns=start:s,end_ns=end:s,src=srcaddr,dst=dstaddr,sport=srcport,dport=dstport",),
    ),
    Collector(
        "gcp-vpc",
        ("jsonPayload.connection.src_ip", "jsonPayload.bytes_sent"),
        (
            "start_ns=jsonPayload.start_time:iso,end_ns=jsonPayload.end_time:iso,src=jsonPayload.connection.src_ip,"
            "dst=jsonPayload.connection.dest_ip,sport=jsonPayload.connection.src_port,"
            "dport=jsonPayload.connection.dest_port,protocol=jsonPayload.connection.protocol,"
            "bytes=jsonPayload.bytes_sent,packets=jsonPayload.packets_sent,exporter=jsonPayload.reporter",
        ),
    ),
    Collector(
        "azure-vnet",
        ("FlowStartTime", "SrcIp", "DestIp", "BytesSrcToDest"),
        (
            "start_ns=FlowStartTime:iso,end_ns=FlowEndTime:iso,src=SrcIp,dst=DestIp,sport=SrcPort,dport=DestPort,"
            "bytes=BytesSrcToDest,packets=PacketsSrcToDest",
            "start_ns=FlowStartTime:iso,end_ns=FlowEndTime:iso,src=DestIp,dst=SrcIp,sport=DestPort,dport=SrcPort,"
            "bytes=BytesDestToSrc,packets=PacketsDestToSrc",
        ),
    ),
)


def collector_named(name: str) -> Collector | None:
    return next((collector for collector in COLLECTORS if collector.name == name), None)


@cache
def nested_names() -> frozenset[str]:
    """Dotted columns that collectors use, for formats that have to look for them."""
    texts = (mapping for collector in COLLECTORS for mapping in collector.mappings)
    sources = (source for text in texts for _, source in ColumnMapping.parse(text).sources)
    return frozenset(name for source in sources for name in source.column.split("|") if "." in name)


def mappings_for(names: Collection[str], user: ColumnMapping, forced: Collector | None) -> tuple[ColumnMapping, ...]:
    """How to read a source with these columns: the user's mapping where it suffices, else the collector they belong to.

    What the user maps always wins; optional columns that a collector did not write are left out.
    """
    if forced is None and all(_present(user.source_of(target).column, names) for target in REQUIRED):
        return (user,)
    collector = forced or next((one for one in COLLECTORS if set(one.signature) <= set(names)), None)
    if collector is None:
        return (user,)
    return tuple(_without_absent(ColumnMapping.parse(text), names).merged(user) for text in collector.mappings)


def _present(column: str, names: Collection[str]) -> bool:
    return column in names or any(part in names for part in column.split("|"))


def _without_absent(mapping: ColumnMapping, names: Collection[str]) -> ColumnMapping:
    kept = ((t, source) for t, source in mapping.sources if t in REQUIRED or _present(source.column, names))
    return ColumnMapping(tuple(kept))
