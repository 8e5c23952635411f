"""`python -m lab run SCENARIO OUT [--gpu]`: one labelled capture; `... --help` lists what else there is.

`record` needs root, ip, tc, ethtool, tcpdump and PyTorch; `pack` needs the project's own packages. `run` does both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path

from lab.draw import PLANTED, draw_scenario
from lab.scenario import FOLDER, ScenarioError, read_scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("run", "record, pack and check"), ("record", "record only: packets, notes and logs")):
        command = commands.add_parser(name, help=text)
        command.add_argument("scenario", help="a name in lab/scenarios or a TOML file")
        command.add_argument("out", type=Path)
        command.add_argument("--gpu", action="store_true", help="NCCL on one CUDA GPU; else gloo on the CPU")
        command.add_argument("--tag", default="lp", help="first letters of the namespaces (default: lp)")
    command = commands.add_parser("extract", help="packets of a recorded run to flow records")
    command.add_argument("folder", type=Path)
    command = commands.add_parser("pack", help="a recorded run to a case: flows, topology, truth, logs")
    command.add_argument("folder", type=Path)
    command.add_argument("out", type=Path)
    command = commands.add_parser("index", help="write the index of a folder of cases; prints the datasheet's table")
    command.add_argument("folder", type=Path)
    command = commands.add_parser("until", help="when the collector of a case stopped, for `llmprism diagnose --until`")
    command.add_argument("folder", type=Path)
    command = commands.add_parser("draw", help="a random scenario as TOML")
    command.add_argument("seed", type=int)
    command.add_argument("--gpu", action="store_true", help="for NCCL on one CUDA GPU; else for gloo on the CPU")
    command.add_argument(
        "--fault", default="", choices=("none", *PLANTED), help="a strong fault of this kind; else the seed decides"
    )
    commands.add_parser("list", help="names of the scenarios")
    command = commands.add_parser("clean", help="remove what a lab that was killed left behind")
    command.add_argument("--tag", default="lp")
    arguments = parser.parse_args()
    try:
        return _run(arguments)
    except (ScenarioError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything that was made is removed", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "list":
        print("\n".join(sorted(path.stem for path in FOLDER.glob("*.toml"))))
    elif arguments.command == "draw":
        from llmprism.toml_text import toml_text

        print(toml_text(draw_scenario(arguments.seed, gpu=arguments.gpu, fault=arguments.fault)), end="")
    elif arguments.command == "clean":
        from lab.fabric import remove

        remove(arguments.tag)
    elif arguments.command == "extract":
        _extract(arguments.folder)
    elif arguments.command == "index":
        from lab.index import table, write_index

        print(table(write_index(arguments.folder)))
    elif arguments.command == "until":
        print(json.loads(gzip.decompress((arguments.folder / "truth.json.gz").read_bytes()))["window"]["end_ns"])
    elif arguments.command == "pack":
        return _pack(arguments.folder, arguments.out)
    elif arguments.command == "record":
        _record(arguments, arguments.out)
    else:
        with tempfile.TemporaryDirectory(prefix="lab-") as work:
            folder = Path(work) / "run"
            _record(arguments, folder)
            _extract(folder)
            return _pack(folder, arguments.out)
    return 0


def _record(arguments: argparse.Namespace, folder: Path) -> None:
    from lab.record import record

    scenario = read_scenario(arguments.scenario)
    run = record(scenario, folder, arguments.gpu, arguments.tag)
    seconds = (run["end"] - run["start"]) / 1e9
    print(f"{scenario.name}: {seconds:.0f} s recorded, {run['dropped_packets']} packets dropped", flush=True)
    for name in run["failed"]:
        print(f"{scenario.name}: job {name} failed", flush=True)


def _extract(folder: Path) -> None:
    from lab.extract import extract

    fabric = json.loads((folder / "run.json").read_text())["scenario"]["fabric"]
    records = extract(folder, fabric["gap_us"], fabric["slice_ms"])
    print(f"{folder.name}: {len(records['bytes'])} flow records, {records['bytes'].sum() / 1e9:.2f} GB", flush=True)


def _pack(folder: Path, out: Path) -> int:
    from lab.pack import pack

    problems = pack(folder, out)
    for problem in problems:
        print(f"{out.name}: {problem}")
    return 1 if problems else 0


sys.exit(main())
