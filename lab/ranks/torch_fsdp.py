"""PyTorch FSDP2: one sharding group, replicas of sharding groups (HSDP), or context parallelism inside them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from lab.ranks.models import Stage, count, random_tokens, spin, token_loss
from lab.ranks.session import Session

__all__ = ["train"]


def train(session: Session) -> None:
    options = session.options
    session.join()
    mesh, context_mesh, groups = _meshes(session)
    model: Any = Stage(session, options.layers, first=True, last=True).to(session.device)
    parameters = count(model)
    layers = list(model.blocks)
    spin(session, layers)
    dtype = torch.bfloat16 if session.cuda else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    session.note_layout(
        parameters,
        groups,
        dp=session.world // options.cp,
        cp=options.cp,
        sharding="fsdp",
        framework="torch HSDP" if options.replicas > 1 else "torch FSDP2",
    )
    while session.more():
        session.begin()
        for k in range(options.micro_batches):
            last = k == options.micro_batches - 1
            model.set_requires_gradient_sync(last)
            model.set_is_last_backward(last)
            x = random_tokens(session)
            y = x.clone()
            with _split(context_mesh, [x, y]):
                (token_loss(model(x), y) / options.micro_batches).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.gradients()
        optimizer.step()
        optimizer.zero_grad()
        session.end()


def _meshes(session: Session) -> tuple[Any, Any, dict[str, list[int]]]:
    options, kind, world = session.options, session.device.type, session.world
    ranks = dist.get_process_group_ranks
    if options.cp > 1:
        both = init_device_mesh(kind, (world // options.cp, options.cp), mesh_dim_names=("dp", "cp"))
        mesh = both[("dp", "cp")]._flatten("dp_cp")
        return mesh, both["cp"], {"dp": ranks(mesh.get_group()), "cp": ranks(both["cp"].get_group())}
    if options.replicas > 1:
        shape = (options.replicas, world // options.replicas)
        mesh = init_device_mesh(kind, shape, mesh_dim_names=("replicate", "shard"))
        parts = {"replicate": ranks(mesh.get_group("replicate")), "shard": ranks(mesh.get_group("shard"))}
        return mesh, None, {"dp": list(range(world)), **parts}
    mesh = init_device_mesh(kind, (world,))
    return mesh, None, {"dp": ranks(mesh.get_group())}


def _split(context_mesh: Any, buffers: list[torch.Tensor]) -> contextlib.AbstractContextManager[Any]:
    if context_mesh is None:
        return contextlib.nullcontext()
    from torch.distributed.tensor.experimental import context_parallel

    return context_parallel(
        context_mesh, buffers=buffers, buffer_seq_dims=[1] * len(buffers), no_restore_buffers=set(buffers)
    )
