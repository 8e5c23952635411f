"""DeepSpeed's pipeline engine (1F1B)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from lab.ranks.deepspeed_zero import engine, load
from lab.ranks.models import Block, Head, count, random_tokens, spin, token_loss
from lab.ranks.session import Session

__all__ = ["train"]


def train(session: Session) -> None:
    options = session.options
    library = load(session)
    from deepspeed.pipe import LayerSpec, PipelineModule

    layers = [LayerSpec(nn.Embedding, options.vocabulary, options.hidden)]
    layers += [LayerSpec(Block, options.hidden, options.heads) for _ in range(options.layers)]
    layers += [LayerSpec(Head, options.hidden, options.vocabulary)]
    model = PipelineModule(
        layers,
        num_stages=options.pp,
        loss_fn=token_loss,
        partition_method="type:Block",
        activation_checkpoint_interval=0,
    )
    spin(session, [module for module in model.modules() if isinstance(module, Block)])
    job = engine(session, library, model, {}, data_types={"grad_accum_dtype": "bf16"})
    grid = job.grid
    session.note_layout(
        count(model),
        {"pp": list(grid.pp_group), "dp": list(grid.dp_group)},
        pp=options.pp,
        dp=grid.data_parallel_size,
        sharding="zero" if options.zero else "none",
        schedule="1f1b",
        framework=f"deepspeed {library.__version__} pipeline",
    )
    batches = _batches(session)
    while session.more():
        session.begin()
        job.train_batch(batches)
        session.end()


def _batches(session: Session) -> Iterator[Any]:
    while True:
        x: torch.Tensor = random_tokens(session).cpu()
        yield x, x.roll(-1, 1)
