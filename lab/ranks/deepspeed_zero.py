"""DeepSpeed ZeRO, stages 1 to 3."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

from lab.ranks.models import count, llama, random_tokens, spin
from lab.ranks.session import Session

__all__ = ["engine", "load", "train"]


def load(session: Session) -> Any:
    """The library, with the job's process group."""
    if not session.cuda:
        os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed

    session.join()
    deepspeed.init_distributed(dist_backend="nccl" if session.cuda else "gloo", auto_mpi_discovery=False)
    return deepspeed


def engine(session: Session, library: Any, model: Any, zero: dict[str, Any], **more: Any) -> Any:
    options = session.options
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    config = {
        "train_micro_batch_size_per_gpu": options.batch,
        "gradient_accumulation_steps": options.micro_batches,
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1000,
        "zero_optimization": {
            "stage": options.zero,
            "reduce_bucket_size": options.bucket_mb * 500_000,
            "allgather_bucket_size": options.bucket_mb * 500_000,
            **zero,
        },
        **more,
    }
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    made = library.initialize(
        model=model, model_parameters=parameters, optimizer=optimizer, config=config, dist_init_required=False
    )
    return made[0]


def train(session: Session) -> None:
    options = session.options
    library = load(session)
    model = llama(session).to(torch.bfloat16).to(session.device)
    parameters = count(model)
    spin(session, model.model.layers)
    zero = {
        "overlap_comm": options.overlap,
        "contiguous_gradients": True,
        "stage3_prefetch_bucket_size": options.bucket_mb * 250_000,
        "stage3_param_persistence_threshold": 10_000,
    }
    job = engine(session, library, model, zero)
    group = list(range(session.world))
    if job.data_parallel_group is not None:
        group = dist.get_process_group_ranks(job.data_parallel_group)
    sharding = {0: "none", 1: "zero", 2: "zero", 3: "fsdp"}[options.zero]
    name = f"deepspeed {library.__version__} ZeRO-{options.zero}"
    session.note_layout(parameters, {"dp": group}, dp=len(group), sharding=sharding, framework=name)
    while session.more():
        session.begin()
        for _ in range(options.micro_batches):
            x = random_tokens(session)
            job.backward(job(input_ids=x, labels=x).loss)
            job.step()
        session.end()
