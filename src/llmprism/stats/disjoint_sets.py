"""Connected components of a graph given as two arrays of ends.

Idea. Every node starts as its own set; each edge unites the sets of its ends, the smaller under the larger, and every
look-up halves the path it walks. That makes the whole nearly linear in nodes plus edges (Tarjan and van Leeuwen,
Worst-case Analysis of Set Union Algorithms, J. ACM 31, 1984).

>>> component_labels(6, [0, 4, 1], [1, 5, 3]).tolist()
[0, 0, 1, 0, 2, 2]
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Int64
from llmprism.kernel import kernel

__all__ = ["component_labels", "root_of"]

FEW_ENDS: Final = 8
"""Nodes for each edge from which the ends of the edges are found before they are united: a job has a hundred of the
hundred thousand nodes of a cluster. Either way the labels are the same."""


def component_labels(count: int, left: ArrayLike, right: ArrayLike) -> Int64:
    """For each of `count` nodes the number of its component, counted from 0 in the order of their lowest nodes.

    `left[i]` and `right[i]` are the ends of edge `i`. The labels do not depend on the order or direction of the edges.
    """
    ends_left = np.ascontiguousarray(left, dtype=np.int64)
    ends_right = np.ascontiguousarray(right, dtype=np.int64)
    if count < 0 or ends_left.ndim != 1 or ends_left.shape != ends_right.shape:
        raise ValueError("the two ends must be one-dimensional and of one length, the count not negative")
    for ends in (ends_left, ends_right):
        if ends.size and (ends.min() < 0 or ends.max() >= count):
            raise ValueError(f"an end lies outside 0..{count - 1}")
    if count < FEW_ENDS * ends_left.size:
        labels: Int64 = _labels(count, ends_left, ends_right)
        return labels
    return _labels_of_few(count, ends_left, ends_right)


def _labels_of_few(count: int, left: Int64, right: Int64) -> Int64:
    """The same where most nodes have no edge: only the others are looked at one by one."""
    nodes, ends = np.unique(np.concatenate([left, right]), return_inverse=True)
    among = _labels(nodes.size, ends[: left.size], ends[left.size :])
    lowest = nodes[np.unique(among, return_index=True)[1]]
    others = np.setdiff1d(nodes, lowest, assume_unique=True)  # each is one component less
    labels = np.arange(count)
    labels -= np.repeat(np.arange(others.size + 1), np.diff(others, prepend=0, append=count))
    labels[nodes] = labels[lowest][among]
    return labels


@kernel
def root_of(parent: Int64, node: int) -> int:
    """The node that stands for the set of `node`; halves the path it walks. Callable from other kernels."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel(looks=4)  # at both ends of an edge and at each node, with a loop of its own
def _labels(count: int, left: Int64, right: Int64) -> Int64:
    parent = np.arange(count)
    size = np.ones(count, dtype=np.int64)
    for edge in range(left.size):
        a, b = root_of(parent, left[edge]), root_of(parent, right[edge])
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
    labels = np.full(count, -1, dtype=np.int64)
    named = np.full(count, -1, dtype=np.int64)
    components = 0
    for node in range(count):
        root = root_of(parent, node)
        if named[root] < 0:
            named[root] = components
            components += 1
        labels[node] = named[root]
    return labels
