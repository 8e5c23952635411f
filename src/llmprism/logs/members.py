"""Who is in the job: which rank and node each writer is, how large the world is, whose address is whose.

Evidence, strongest first: a tag with the global rank (`[rank3]:`, `[1,3]<stdout>`), `srun -l` numbers when plausible,
NCCL's own `rank 3 nranks 8` of the largest communicator, Lightning's `GLOBAL_RANK`, torchrun's `global_ranks` of a
node, a file name where the lines do not contradict it. A file whose tagged lines all come from one rank belongs to
that rank altogether. The *actors* that later steps compare are ranks where ranks are known, else nodes, else files;
lines of launchers belong to no actor.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from llmprism.arrays import Int32
from llmprism.logs.joblog import JobLog
from llmprism.logs.launcher_ranks import hosts_of_ranks, ranks_of_nodes
from llmprism.logs.launcher_reports import ExitReport, Launcher, read_launcher_reports

__all__ = ["PEER_ADDRESS", "Actor", "LogMembers", "identify_members"]


_MIN_LINES_PER_LISTED_RANK: Final = 2.0
"""Numbers before lines that occur once each are line numbers, not ranks."""

_MAX_NAMED_RANK: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Actor:
    rank: int | None
    node: str | None

    @property
    def label(self) -> str:
        if self.rank is not None:
            return f"rank {self.rank}" + (f" on {self.node}" if self.node else "")
        return self.node or "unknown writer"


@dataclass(slots=True)
class LogMembers:
    """`actor_of_writer` is -1 for writers that are no actor. `world` is the number of ranks the job has, if known."""

    actors: list[Actor]
    actor_of_writer: Int32
    world: int | None
    address_actor: dict[str, int]
    exits: list[ExitReport] = field(default_factory=list)
    addresses: dict[int, set[str]] = field(default_factory=dict)
    """Addresses that each actor printed as its own."""
    named: dict[int, set[str]] = field(default_factory=dict)
    """Addresses of others that each actor's lines name: those it talked to."""

    @property
    def by_rank(self) -> dict[int, int]:
        return {actor.rank: number for number, actor in enumerate(self.actors) if actor.rank is not None}

    @property
    def nodes(self) -> set[str]:
        return {actor.node for actor in self.actors if actor.node}


_NCCL_RANK: Final = re.compile(r"\brank (\d{1,9}) n[rR]anks (\d{1,9})")
_LIGHTNING_RANK: Final = re.compile(r"GLOBAL_RANK: (\d{1,9}), MEMBER: \d+/(\d{1,9})")
_NODE_RANK: Final = re.compile(r"\bnode rank (\d{1,9})\b")
_OWN_LINE: Final = re.compile(r"(?:Bootstrap ?: Using|NET/Socket : Using|OOB) ")
_ADDRESS: Final = re.compile(r":(\d+\.\d+\.\d+\.\d+)<|:\[?([0-9a-fA-F]*:[0-9a-fA-F:]+)(?:%\w+)?\]?<")
_LOCAL_ADDRESS: Final = re.compile(r"127\.|169\.254\.|0\.0\.0\.0|::1$|fe80:")
PEER_ADDRESS: Final = re.compile(r"(?:from|to|peer|remote|with|[Rr]ead error|[Ww]rite error)\s+\[?(\d+\.\d+\.\d+\.\d+)")
"""The address of a peer in a line about trouble with it, by NCCL, Gloo and c10d."""


def identify_members(log: JobLog) -> LogMembers:
    """Ranks, nodes and actors of a job."""
    rank_of_writer, worlds = _ranks_from_tags(log), []
    texts = _texts_by_writer(log)
    for writer, lines in texts.items():
        rank, world = _rank_from_texts(lines)
        if world:
            worlds.append(world)
        if rank is not None and world == max(worlds, default=0):
            rank_of_writer.setdefault(writer, rank)
    ranks_of_nodes(log, texts, rank_of_writer)
    _ranks_from_file_names(log, rank_of_writer)
    _share_within_process(log, rank_of_writer)
    _share_within_file(log, rank_of_writer)
    exits = read_launcher_reports(log)
    task_nodes = hosts_of_ranks(texts)
    task_nodes |= {report.rank: report.node for report in exits if report.rank is not None and report.node}
    _rank_from_report(log, rank_of_writer, exits)
    _rank_of_the_missing_file(log, rank_of_writer)
    node_of_writer = _nodes(log)
    actors, actor_of_writer = _actors(log, rank_of_writer, node_of_writer, task_nodes)
    ranks = [actor.rank for actor in actors if actor.rank is not None]
    world = max([*worlds, len(ranks)], default=0)
    members = LogMembers(actors, actor_of_writer, world or None, {}, exits)
    _own_addresses(members, texts)
    return members


def _ranks_from_tags(log: JobLog) -> dict[int, int]:
    listed: dict[int, int] = {}
    ranks: dict[int, int] = {}
    for number, writer in enumerate(log.writers):
        identity = writer.identity
        if identity.rank is not None and identity.rank < _MAX_NAMED_RANK:
            ranks[number] = identity.rank
        elif identity.listed_rank is not None:
            listed[number] = identity.listed_rank
    if listed:
        distinct = set(listed.values())
        lines = sum(int(log.writer_lines[number]) for number in listed)
        dense = max(distinct) < 2 * len(distinct) + 8
        if dense and lines >= _MIN_LINES_PER_LISTED_RANK * len(distinct):
            ranks = {**listed, **ranks}
    return ranks


def _ranks_from_file_names(log: JobLog, ranks: dict[int, int]) -> None:
    """The rank in a file's name belongs to its lines unless these name other ranks themselves."""
    in_lines: dict[int, set[int]] = defaultdict(set)
    for number, rank in ranks.items():
        in_lines[log.writers[number].file].add(rank)
    for number, writer in enumerate(log.writers):
        named = log.file_identity[writer.file].rank
        if named is not None and number not in ranks and in_lines[writer.file] <= {named}:
            ranks[number] = named


def _texts_by_writer(log: JobLog) -> dict[int, list[str]]:
    grouped: dict[int, list[str]] = defaultdict(list)
    writers = log.rows.writer
    for row, text in log.texts.items():
        grouped[int(writers[row])].append(text)
    return grouped


def _rank_from_texts(lines: list[str]) -> tuple[int | None, int | None]:
    """(rank, world) as the writer's own lines say, from the largest communicator."""
    best: tuple[int, int] | None = None
    named: int | None = None
    for text in lines:
        if match := _NCCL_RANK.search(text) or _LIGHTNING_RANK.search(text):
            rank, world = int(match[1]), int(match[2])
            if best is None or world > best[1]:
                best = (rank, world)
        elif match := _NODE_RANK.search(text):
            named = int(match[1])
    if best:
        return best
    return named, None


def _share_within_process(log: JobLog, ranks: dict[int, int]) -> None:
    """Writers of one process, or of one local rank of a file, have one rank."""
    known: dict[tuple[int, str], set[int]] = defaultdict(set)
    keys: dict[int, list[tuple[int, str]]] = {}
    for number, writer in enumerate(log.writers):
        own = [(-1, writer.identity.process)] if writer.identity.process else []
        local = writer.identity.local_rank
        local = log.file_identity[writer.file].local_rank if local is None else local
        if local is not None:
            own.append((writer.file, f"local {local}"))
        keys[number] = own
        if number in ranks:
            for key in own:
                known[key].add(ranks[number])
    for number, own in keys.items():
        for key in own:
            if number not in ranks and len(known[key]) == 1:
                ranks[number] = next(iter(known[key]))


def _share_within_file(log: JobLog, ranks: dict[int, int]) -> None:
    in_file: dict[int, set[int]] = defaultdict(set)
    listed: set[int] = set()
    for number, writer in enumerate(log.writers):
        if number in ranks:
            in_file[writer.file].add(ranks[number])
        if writer.identity.listed_rank is not None:
            listed.add(writer.file)
    several_files = len(log.files) > 1
    for number, writer in enumerate(log.writers):
        found = in_file[writer.file]
        if number not in ranks and len(found) == 1 and several_files and writer.file not in listed:
            ranks[number] = next(iter(found))


def _rank_from_report(log: JobLog, ranks: dict[int, int], exits: list[ExitReport]) -> None:
    """A node's file without any rank whose launcher reports the failure of one rank only is taken for that rank."""
    ranked = {log.writers[number].file for number in ranks}
    named: dict[int, set[int]] = defaultdict(set)
    for report in exits:
        if report.rank is not None and report.launcher is Launcher.TORCHRUN:
            named[report.file].add(report.rank)
    for number, writer in enumerate(log.writers):
        if len(log.files) > 1 and writer.file not in ranked and len(named[writer.file]) == 1:
            ranks[number] = next(iter(named[writer.file]))


def _rank_of_the_missing_file(log: JobLog, ranks: dict[int, int]) -> None:
    """Where every node's file but one belongs to one rank, the last file belongs to the rank that is missing."""
    if any(identity.node is None for identity in log.file_identity) or len(log.files) < 3:
        return
    in_file: dict[int, set[int]] = defaultdict(set)
    for number, rank in ranks.items():
        in_file[log.writers[number].file].add(rank)
    without = [file for file in range(len(log.files)) if not in_file[file]]
    missing = set(range(len(log.files))) - set(ranks.values())
    if len(without) == 1 and len(missing) == 1 and all(len(found) <= 1 for found in in_file.values()):
        for number, writer in enumerate(log.writers):
            if writer.file == without[0]:
                ranks[number] = next(iter(missing))


def _nodes(log: JobLog) -> dict[int, str]:
    """Node of each writer: the file name's, unless its lines name several nodes; else what the lines say."""
    names = [identity.node for identity in log.file_identity]
    in_file: dict[int, set[str]] = defaultdict(set)
    for writer in log.writers:
        if writer.identity.node and writer.identity.node != names[writer.file]:
            in_file[writer.file].add(writer.identity.node)
    nodes: dict[int, str] = {}
    for number, writer in enumerate(log.writers):
        several = len(in_file[writer.file]) > 1
        own = writer.identity.node if several else names[writer.file] or writer.identity.node
        if own is None and len(in_file[writer.file]) == 1:
            own = next(iter(in_file[writer.file]))
        if own:
            nodes[number] = own
    return nodes


def _actors(
    log: JobLog, ranks: dict[int, int], nodes: dict[int, str], task_nodes: dict[int, str]
) -> tuple[list[Actor], Int32]:
    actor_of_writer = np.full(len(log.writers), -1, dtype=np.int32)
    distinct = sorted(set(ranks.values()))
    if len(distinct) >= 2:
        node_of_rank: dict[int, str] = dict(task_nodes)
        for number, rank in ranks.items():
            if number in nodes:
                node_of_rank[rank] = nodes[number]
        place = {rank: number for number, rank in enumerate(distinct)}
        for number, rank in ranks.items():
            actor_of_writer[number] = place[rank]
        return [Actor(rank, node_of_rank.get(rank)) for rank in distinct], actor_of_writer
    labels: dict[str, int] = {}
    actors: list[Actor] = []
    separate = len(log.files) > 1 or len(set(nodes.values())) > 1
    if not separate:
        return [], actor_of_writer
    for number, writer in enumerate(log.writers):
        label = nodes.get(number) or log.files[writer.file].name
        if label not in labels:
            labels[label] = len(actors)
            actors.append(Actor(ranks.get(number), label))
        actor_of_writer[number] = labels[label]
    return actors, actor_of_writer


def _own_addresses(members: LogMembers, texts: dict[int, list[str]]) -> None:
    for writer, lines in texts.items():
        actor = int(members.actor_of_writer[writer])
        if actor < 0:
            continue
        for text in lines:
            if _OWN_LINE.search(text):
                for match in _ADDRESS.finditer(text):
                    address = match[1] or match[2]
                    if not _LOCAL_ADDRESS.match(address):
                        members.address_actor.setdefault(address, actor)
                        members.addresses.setdefault(actor, set()).add(address)
            elif peer := PEER_ADDRESS.search(text):
                members.named.setdefault(actor, set()).add(peer[1])
