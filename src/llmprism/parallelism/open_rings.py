"""Rings of gradients whose hops are shared with something else.

A ring sends one way, and every member passes on what it gets. Where context-parallel or expert-parallel ranks are
neighbours on the ring of their gradients, the hop between them also carries their exchange, both ways and often many
times as much; by itself it looks like a link between two stages. But the other hops of the ring then make open paths: a
member that receives and sends nothing on, another that sends and receives nothing. The link between such two members,
which carries more one way than the other by just what the ring carries, is the missing hop. Nothing in training ends
like this, so all ends of the paths of one ring find each other, or none.

A ring and the exchange of its neighbours cannot be a pipeline: members of one ring hold the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.parallelism.channels import Amounts
from llmprism.parallelism.features import Links

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["SharedHops", "shared_hops"]

SAME_RING: Final = 0.05
"""Difference of the logarithms of the bytes per step of two hops of one ring."""

MORE: Final = 0.5
"""Share of a ring's bytes by which a shared hop carries more one way than the other at least, in the median: nearer to
what the ring adds than to nothing. Uneven routing makes single links differ."""

JOINED: Final = 0.9
"""Share of the open ends of a ring that must find each other."""


@dataclass(frozen=True, slots=True)
class SharedHops:
    """Links that are a hop of a ring and carry an exchange besides; `upward` says that the hop goes from low to high,
    `ring` what it carries of the link's bytes per step, `pure` which links are hops and nothing else."""

    links: Bool
    upward: Bool
    ring: Float64
    pure: Bool


def shared_hops(links: Links, amounts: Amounts, one_way: Bool) -> SharedHops:
    count = links.low.size
    found = SharedHops(
        np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.bool_),
        np.zeros(count),
        np.zeros(count, dtype=np.bool_),
    )
    members, low, high = links.numbered_ends()
    hops = np.flatnonzero(one_way)
    level = np.log(np.maximum(np.maximum(amounts.there, amounts.back), 1e-9))
    hops = hops[np.argsort(level[hops], kind="stable")]
    for own in np.split(hops, np.flatnonzero(np.diff(level[hops]) > SAME_RING) + 1):
        if own.size:
            _close(members, low, high, amounts, own, found)
    return found


def _close(members: int, low: Int64, high: Int64, amounts: Amounts, own: Int64, found: SharedHops) -> None:
    """Marks the shared hops of the rings of these one-way links, if they close all of their open paths."""
    upward = amounts.there[own] > amounts.back[own]
    src, dst = np.where(upward, low[own], high[own]), np.where(upward, high[own], low[own])
    sends, receives = np.bincount(src, minlength=members), np.bincount(dst, minlength=members)
    if sends.max() > 1 or receives.max() > 1:
        return  # several rings of one amount
    first, last = (sends == 1) & (receives == 0), (sends == 0) & (receives == 1)
    if not first.any():
        return
    ring = float(np.median(np.maximum(amounts.there[own], amounts.back[own])))
    fits_up = last[low] & first[high] & (amounts.there >= (1.0 - MORE) * ring)
    fits_down = last[high] & first[low] & (amounts.back >= (1.0 - MORE) * ring)
    more = np.where(fits_up, amounts.there - amounts.back, amounts.back - amounts.there) / ring
    tried = np.flatnonzero((fits_up ^ fits_down) & (np.minimum(amounts.there, amounts.back) > 0.0))
    tried = tried[np.argsort(np.abs(more[tried] - 1.0), kind="stable")]
    chosen, taken = [], set[tuple[str, int]]()
    for link in tried.tolist():  # the nearest to what the ring adds comes first; every end is joined once
        end, start = (low[link], high[link]) if fits_up[link] else (high[link], low[link])
        if ("end", int(end)) not in taken and ("start", int(start)) not in taken:
            taken |= {("end", int(end)), ("start", int(start))}
            chosen.append(link)
    if len(chosen) < JOINED * first.sum() or len(chosen) < 1 or np.median(more[chosen]) < MORE:
        return
    found.links[chosen] = True
    found.upward[chosen] = fits_up[chosen]
    found.ring[chosen] = ring
    found.pure[own] = True
