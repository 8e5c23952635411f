"""One rank of a training job: `python -m lab.ranks OPTIONS.json`; RANK, WORLD_SIZE and MASTER_ADDR as torchrun sets."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from lab.ranks.options import read_options

MODULES = {
    "ddp": "lab.ranks.torch_ddp",
    "fsdp": "lab.ranks.torch_fsdp",
    "pipelining": "lab.ranks.torch_pipelining",
    "megatron": "lab.ranks.megatron_core",
    "deepspeed": "lab.ranks.deepspeed_zero",
    "deepspeed-pipeline": "lab.ranks.deepspeed_pipeline",
    "hf-trainer": "lab.ranks.hf_trainer",
    "torchtitan": "lab.ranks.torchtitan_llama",
}


def main() -> None:
    options = read_options(Path(sys.argv[1]))
    os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_DISABLED="true", DS_BUILD_OPS="0")
    if (
        options.tp > 1
    ):  # what Megatron asks for; elsewhere more connections per rank exhaust the GPU's channels under MPS
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    from lab.ranks.session import Session

    session = Session(options)
    importlib.import_module(MODULES[options.framework]).train(session)
    session.leave()


main()
