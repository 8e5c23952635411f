"""torch.distributed.pipelining: 1F1B, GPipe, interleaved and zero-bubble schedules, gradients averaged in buckets."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, schedules

from lab.ranks.models import Stage, count, random_tokens, spin, token_loss
from lab.ranks.session import Session

__all__ = ["train"]

SCHEDULES = {
    "1f1b": ("Schedule1F1B", False),
    "gpipe": ("ScheduleGPipe", False),
    "interleaved": ("ScheduleInterleaved1F1B", False),
    "interleaved_zero_bubble": ("ScheduleInterleavedZeroBubble", False),
    "zero_bubble_v": ("ScheduleZBVZeroBubble", True),
}


def train(session: Session) -> None:
    options = session.options
    session.join()
    shape = (options.pp, session.world // options.pp)
    mesh = init_device_mesh(session.device.type, shape, mesh_dim_names=("pp", "dp"))
    pipeline, replicas = mesh.get_group("pp"), mesh.get_group("dp")
    name, folded = SCHEDULES[options.schedule]
    single = options.schedule in ("1f1b", "gpipe")
    virtual = 1 if single else 2 if folded else options.virtual
    mine = _stages_of(dist.get_rank(pipeline), options.pp, virtual, folded)
    total = options.pp * virtual
    dtype = torch.bfloat16 if session.cuda else torch.float32
    parts = [Stage(session, options.layers // total, i == 0, i == total - 1).to(session.device, dtype) for i in mine]
    for part in parts:
        spin(session, part.blocks)
    stages = [
        PipelineStage(part, i, total, session.device, group=pipeline) for part, i in zip(parts, mine, strict=True)
    ]
    schedule: Any = getattr(schedules, name)(stages[0] if single else stages, options.micro_batches, loss_fn=token_loss)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    groups = {"pp": dist.get_process_group_ranks(pipeline), "dp": dist.get_process_group_ranks(replicas)}
    session.note_layout(
        sum(count(part) for part in parts),
        groups,
        pp=options.pp,
        dp=len(groups["dp"]),
        virtual=virtual,
        schedule=options.schedule,
        framework="torch.distributed.pipelining",
    )
    while session.more():
        session.begin()
        x = random_tokens(session, options.batch * options.micro_batches)
        inputs = [x] if 0 in mine else []
        schedule.step(*inputs, **({"target": x.roll(-1, 1)} if total - 1 in mine else {}))
        if len(groups["dp"]) > 1:
            _average(parameters, replicas, options.bucket_mb)
        session.gradients()
        optimizer.step()
        optimizer.zero_grad()
        session.end()


def _stages_of(rank: int, ranks: int, virtual: int, folded: bool) -> list[int]:
    """Stages of one rank: dealt in turn, or folded so that the first rank also holds the last stage."""
    return [rank, 2 * ranks - 1 - rank] if folded else [rank + k * ranks for k in range(virtual)]


def _average(parameters: list[torch.nn.Parameter], group: Any, bucket_mb: int) -> None:
    """Averages the gradients over the replicas in buckets, after the schedule."""
    bucket: list[torch.Tensor] = []
    size = 0
    for i, parameter in enumerate(parameters):
        if parameter.grad is not None:
            bucket.append(parameter.grad)
            size += parameter.grad.numel() * parameter.grad.element_size()
        if bucket and (size > bucket_mb * 1e6 or i == len(parameters) - 1):
            flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
            dist.all_reduce(flat, group=group)
            flat /= dist.get_world_size(group)
            for gradient, part in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))
            bucket, size = [], 0
