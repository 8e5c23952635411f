"""PyTorch DistributedDataParallel, with gradient accumulation and evaluation."""

from __future__ import annotations

import contextlib

import torch
import torch.distributed as dist

from lab.ranks.models import Stage, count, random_tokens, spin, token_loss
from lab.ranks.session import Session

__all__ = ["train"]


def train(session: Session) -> None:
    options = session.options
    session.join()
    dtype = torch.bfloat16 if session.cuda else torch.float32
    module = Stage(session, options.layers, first=True, last=True).to(session.device, dtype)
    spin(session, module.blocks)
    model = torch.nn.parallel.DistributedDataParallel(
        module, bucket_cap_mb=options.bucket_mb, gradient_as_bucket_view=True
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    group = dist.get_process_group_ranks(model.process_group)
    session.note_layout(count(module), {"dp": group}, dp=len(group), framework="torch DDP")

    def evaluate() -> None:
        with torch.no_grad():
            losses = []
            for _ in range(options.evaluate_batches):
                x = random_tokens(session)
                losses.append(token_loss(module(x), x))
            dist.all_reduce(torch.stack(losses).mean())

    while session.more():
        if session.due(options.evaluate_every):
            session.pause("evaluation", evaluate)
        session.begin()
        for k in range(options.micro_batches):
            last = k == options.micro_batches - 1
            with contextlib.nullcontext() if last else model.no_sync():
                x = random_tokens(session)
                (token_loss(model(x), x) / options.micro_batches).backward()
        session.gradients()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        session.end()
