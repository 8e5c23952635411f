"""Packet captures → flow records: containers, headers, TCP bursts and RDMA messages, all in one compiled pass.

Nothing is imported here: the kernels of `reader` cost a second, and most runs read no packets.
"""
