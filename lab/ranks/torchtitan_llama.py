"""torchtitan: its Llama model, its parallel dimensions, its own application of FSDP, HSDP and tensor parallelism.

torchtitan's Trainer needs a GPU; what decides about the traffic (mesh, model, wrapping, clipping) is called here as its
Trainer calls it. Release 0.2 runs with a released PyTorch, later ones need a nightly build.
"""

from __future__ import annotations

from typing import Any

import torch
import torchtitan
import torchtitan.distributed.parallel_dims as dimensions
from torch.distributed.fsdp import FSDPModule
from torchtitan.config import JobConfig
from torchtitan.distributed import utils as titan
from torchtitan.models.llama3 import Transformer, TransformerModelArgs, parallelize_llama

from lab.ranks.models import count, random_tokens, spin, token_loss
from lab.ranks.session import Session

__all__ = ["train"]


def train(session: Session) -> None:
    options = session.options
    session.join()
    dimensions.device_type = session.device.type
    shard = session.world // (options.replicas * options.tp)
    parallel = dimensions.ParallelDims(options.replicas, shard, 1, options.tp, 1, 1, 1, session.world)
    config = _config(session)
    arguments = TransformerModelArgs(
        dim=options.hidden, n_layers=options.layers, n_heads=options.heads, vocab_size=options.vocabulary
    )
    arguments.update_from_config(config)
    with torch.device("meta"):
        model: Any = Transformer(arguments)
    parameters = count(model)
    layers = list(model.layers.values())
    parallelize_llama(model, parallel, config)
    for module in model.modules():
        if not session.cuda and isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot scale within a sum
    model.to_empty(device=session.device)
    with torch.no_grad():
        model.init_weights(buffer_device=session.device)
    spin(session, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    session.note_layout(
        parameters,
        _groups(parallel, session.world),
        tp=options.tp,
        dp=session.world // options.tp,
        sharding="fsdp",
        framework=f"torchtitan {getattr(torchtitan, '__version__', '')}".strip(),
    )
    while session.more():
        session.begin()
        for k in range(options.micro_batches):
            model.set_requires_gradient_sync(k == options.micro_batches - 1)
            x = random_tokens(session)
            (token_loss(model(x), x) / options.micro_batches).backward()
        titan.clip_grad_norm_(list(model.parameters()), 1.0, foreach=True)
        session.gradients()
        optimizer.step()
        optimizer.zero_grad()
        session.end()


def _config(session: Session) -> JobConfig:
    """Numbers as 32 bits on the CPU, no recomputation, no compiler."""
    config = JobConfig()
    config.training.seq_len = session.options.sequence
    config.training.mixed_precision_param = "bfloat16" if session.cuda else "float32"
    config.activation_checkpoint.mode = "none"
    config.compile.enable = False
    config.parallelism.disable_loss_parallel = True
    return config


def _groups(parallel: dimensions.ParallelDims, world: int) -> dict[str, list[int]]:
    """The groups as torchtitan's meshes name them; dimensions of one rank are no groups."""
    ranks = {name: parallel.get_optional_mesh(name) for name in ("fsdp", "dp_replicate", "tp")}
    found = {name: mesh.mesh.flatten().tolist() for name, mesh in ranks.items() if mesh is not None}
    groups = {"tp": found["tp"]} if "tp" in found else {}
    if "dp_replicate" in found:
        return {"dp": list(range(world)), "replicate": found["dp_replicate"], "shard": found["fsdp"], **groups}
    return {"dp": found["fsdp"], **groups}
