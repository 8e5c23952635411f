"""A list of who is where, written by a person, a scheduler or a launcher: ranks, host names and addresses.

Lines hold a rank (a bare number, or `rank=3`), a host name, an address, in any order, separated by spaces, commas,
colons or tabs; `slots=8` and comments are skipped. So all of these are read:

    3 server00 10.10.0.1            rank, host, address
    rank 3=server00 slot=1          mpirun's rank file
    10.10.0.1 server00 server00-ib  a hosts file
    server00 slots=8                a host file: ranks fill the hosts in this order
    {"3": "10.10.0.1"}              JSON: rank → address, host → address, or a list of objects

Nothing is looked up anywhere else: no name service.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmprism.errors import FormatError, InputError

__all__ = ["RankList", "parse_rank_list", "read_rank_file"]

MAX_BYTES: Final = 16 << 20
"""A million ranks with names and addresses stay below this."""

_RANK: Final = re.compile(r"^(?:rank)?\s*=?\s*(\d{1,7})$", re.I)
_SETTING: Final = re.compile(r"^(?:slots?|max[-_]slots|gpus?|local_rank|cores?|sockets?)\s*=", re.I)
_NAME: Final = re.compile(r"^[A-Za-z0-9][\w.-]{0,252}$")


@dataclass(frozen=True, slots=True)
class RankList:
    """`address` of ranks and of hosts, `host` of ranks; `order`: hosts in the order of the file."""

    rank_address: dict[int, str]
    rank_host: dict[int, str]
    host_address: dict[str, tuple[str, ...]]
    order: tuple[str, ...] = ()


def read_rank_file(path: Path) -> RankList:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: a list of ranks has at most {MAX_BYTES >> 20} MB")
    try:
        return parse_rank_list(content.decode("utf-8", "replace"))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def parse_rank_list(text: str) -> RankList:
    """FormatError where no line names a rank or a host with an address."""
    rows = _json_rows(text) if text.lstrip().startswith(("{", "[")) else _text_rows(text)
    rank_address: dict[int, str] = {}
    rank_host: dict[int, str] = {}
    host_address: dict[str, tuple[str, ...]] = {}
    order: list[str] = []
    for rank, hosts, addresses in rows:
        for host in hosts:
            host_address[host] = (*host_address.get(host, ()), *addresses)
            order.append(host)
        if rank is not None:
            if addresses:
                rank_address[rank] = addresses[0]
            if hosts:
                rank_host[rank] = hosts[0]
    if not (rank_address or rank_host or order):
        raise FormatError("no line names a rank or a host: write `rank host address`, one per line")
    return RankList(rank_address, rank_host, host_address, tuple(dict.fromkeys(order)))


_Row = tuple[int | None, tuple[str, ...], tuple[str, ...]]


def _text_rows(text: str) -> list[_Row]:
    rows = []
    for line in text.splitlines():
        words = re.split(r"[\s,;\t]+", line.split("#", 1)[0].strip())
        joined = re.sub(r"(?i)\brank\s+(\d+)\s*=\s*", r"\1 ", " ".join(words))
        words = [word for word in joined.split(" ") if word and not _SETTING.match(word)]
        row = _row(words)
        if row is not None:
            rows.append(row)
    return rows


def _row(words: list[str]) -> _Row | None:
    rank: int | None = None
    hosts: list[str] = []
    addresses: list[str] = []
    for word in words:
        if rank is None and not hosts and (match := _RANK.match(word)):
            rank = int(match[1])
        elif _is_address(word):
            addresses.append(word)
        elif _NAME.match(word) and not word.isdecimal() and word.lower() not in ("rank", "host", "address", "node"):
            hosts.append(word)
    return (rank, tuple(hosts), tuple(addresses)) if rank is not None or hosts else None


def _json_rows(text: str) -> list[_Row]:
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    found: list[_Row] = []
    items: list[list[Any]] = []
    if isinstance(document, dict):
        items = [[key, *(value if isinstance(value, list) else [value])] for key, value in document.items()]
    elif isinstance(document, list):
        for entry in document:
            named = entry if isinstance(entry, dict) else {}
            items.append([named.get(key) for key in ("rank", "host", "hostname", "node", "address", "ip")])
    for item in items:
        row = _row([str(word) for word in item if isinstance(word, str | int) and not isinstance(word, bool)])
        if row is not None:
            found.append(row)
    return found


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True
