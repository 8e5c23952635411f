# ruff: noqa: E501
"""Grouping accuracy of the templates on loghub-2k, one generic setting for all systems. `make bench-logs`."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

from llmprism.logs.masking import mask_text
from llmprism.logs.templates import group_shapes

DATA = Path(__file__).parents[1] / "../shared/data/loghub_2k"

DRAIN = {
    "Android": 0.911, "Apache": 1.0, "BGL": 0.963, "HDFS": 0.998, "HPC": 0.887, "Hadoop": 0.948, "HealthApp": 0.780, "Linux": 0.690,
    "Mac": 0.787, "OpenSSH": 0.788, "OpenStack": 0.733, "Proxifier": 0.527, "Spark": 0.920, "Thunderbird": 0.955, "Windows": 0.997, "Zookeeper": 0.967,
}  # fmt: skip
"""Drain as published (Zhu et al., Tools and Benchmarks for Automated Log Parsing, ICSE-SEIP 2019), one setting per system."""


def grouping_accuracy(found: list[str], truth: list[str]) -> float:
    """Share of lines whose group is exactly the true group."""
    mine: dict[str, list[int]] = defaultdict(list)
    right: dict[str, list[int]] = defaultdict(list)
    for line, (group, event) in enumerate(zip(found, truth, strict=True)):
        mine[group].append(line)
        right[event].append(line)
    return sum(len(lines) for lines in mine.values() if right[truth[lines[0]]] == lines) / len(truth)


def accuracy_of(system: Path) -> float:
    with (system / f"{system.name}_2k.log_structured.csv").open(newline="", encoding="utf-8", errors="replace") as file:
        rows = list(csv.DictReader(file))
    masks = [mask_text(row["Content"].encode()).decode("utf-8", "replace") for row in rows]
    groups = group_shapes(masks)
    names = {mask: str(id(template)) for mask, template in groups.items()}
    return grouping_accuracy([names[mask] for mask in masks], [row["EventId"] for row in rows])


def all_systems() -> dict[str, float]:
    return {system.name: accuracy_of(system) for system in sorted(DATA.iterdir()) if system.is_dir()}


def main() -> None:
    if not DATA.is_dir():
        print("no ../shared/data/loghub_2k next to the project")
        return
    accuracy = all_systems()
    print("| system | ours, one setting | Drain, one setting per system |\n| --- | --- | --- |")
    for system, value in accuracy.items():
        print(f"| {system} | {value:.3f} | {DRAIN[system]:.3f} |")
    print(f"| mean | {sum(accuracy.values()) / len(accuracy):.3f} | {sum(DRAIN.values()) / len(DRAIN):.3f} |")


if __name__ == "__main__":
    main()
