"""The lab: real training frameworks on a fabric of network namespaces, recorded with exact truth (see README.md).

The folder order is the data's order: scenario -> fabric -> jobs and faults -> capture -> extract -> truth -> pack.
The lab is no part of the wheel; on the machine that records it needs the standard library, numpy and PyTorch only.
"""
