"""Megatron-Core: 1F1B and interleaved pipelines, distributed optimizer, experts, tensor peers, tied embeddings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from lab.ranks.models import count, random_tokens, spin
from lab.ranks.session import Session

__all__ = ["train"]


def train(session: Session) -> None:
    options = session.options
    session.join()
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.pipeline_parallel import get_forward_backward_func

    parallel_state.initialize_model_parallel(
        options.tp,
        options.pp,
        virtual_pipeline_model_parallel_size=options.virtual if options.virtual > 1 else None,
        context_parallel_size=options.cp,
        expert_model_parallel_size=options.ep,
        create_gloo_process_groups=False,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config = _config(session)
    chunks = _chunks(session, config)
    optimizer = _optimizer(session, config, chunks)
    _note_layout(session, chunks)
    run = get_forward_backward_func()
    single = len(chunks) == 1
    batches: Any = [_batches(session) for _ in chunks]
    fixed = {
        "forward_step_func": _forward(session),
        "data_iterator": batches[0] if single else batches,
        "model": chunks[0] if single else chunks,
        "seq_length": options.sequence,
        "micro_batch_size": options.batch,
    }

    def evaluate() -> None:
        run(num_microbatches=options.evaluate_batches, forward_only=True, **fixed)

    while session.more():
        if session.due(options.evaluate_every):
            session.pause("evaluation", evaluate)
        session.begin()
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        losses = run(num_microbatches=options.micro_batches, forward_only=False, **fixed)
        session.gradients()
        optimizer.step()
        _report_loss(session, losses, parallel_state.get_data_parallel_group())
        session.end()


def _note_layout(session: Session, chunks: list[Any]) -> None:
    import megatron.core

    options = session.options
    groups = _groups(session)
    sharded = "zero" if options.distributed_optimizer else "none"
    session.note_layout(
        sum(count(chunk) for chunk in chunks),
        groups,
        tp=options.tp,
        pp=options.pp,
        dp=len(groups["dp"]),
        cp=options.cp,
        ep=options.ep,
        virtual=options.virtual,
        sharding=sharded,
        schedule=("interleaved" if options.virtual > 1 else "1f1b") if options.pp > 1 else None,
        tied_embeddings=options.tied,
        overlap=options.overlap,
        framework=f"megatron-core {megatron.core.__version__}",
    )


def _config(session: Session) -> Any:
    from megatron.core.transformer.transformer_config import TransformerConfig

    options = session.options
    more: dict[str, Any] = {}
    if options.ep > 1:
        import megatron.core.transformer.moe.moe_utils as moe_utils

        if not hasattr(moe_utils, "te_general_gemm"):  # 0.16.1 reads it without TransformerEngine too
            moe_utils.te_general_gemm = None
        more |= {
            "num_moe_experts": options.experts,
            "moe_router_topk": options.top_k,
            "moe_token_dispatcher_type": "alltoall",
            "moe_router_load_balancing_type": "aux_loss",
            "moe_aux_loss_coeff": 1e-2,
            "expert_model_parallel_size": options.ep,
            "moe_ffn_hidden_size": options.hidden * 2,
            "add_bias_linear": False,
        }
    if options.virtual > 1:
        more |= {
            "virtual_pipeline_model_parallel_size": options.virtual,
            "overlap_p2p_comm": True,
            "batch_p2p_comm": False,
        }
    return TransformerConfig(
        num_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.heads,
        tensor_model_parallel_size=options.tp,
        pipeline_model_parallel_size=options.pp,
        context_parallel_size=options.cp,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        persist_layer_norm=False,
        **more,
    )


def _chunks(session: Session, config: Any) -> list[Any]:
    """The model chunks of this rank (several where stages are interleaved), wrapped for data parallelism."""
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.module import Float16Module

    options = session.options
    spec = get_gpt_layer_local_spec(num_experts=options.experts if options.ep > 1 else None)
    modules = []
    for chunk in range(options.virtual):
        stage = chunk if options.virtual > 1 else None
        model = GPTModel(
            config,
            spec,
            vocab_size=options.vocabulary,
            max_sequence_length=options.sequence,
            pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
            post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
            share_embeddings_and_output_weights=options.tied,
            position_embedding_type="learned_absolute",
            vp_stage=stage,
        ).to(session.device)
        spin(session, model.decoder.layers)
        modules.append(Float16Module(config, model))
    settings = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        overlap_grad_reduce=options.overlap,
        overlap_param_gather=options.overlap and options.distributed_optimizer,
        use_distributed_optimizer=options.distributed_optimizer,
        bucket_size=options.bucket_mb * 250_000 if options.overlap else None,
        average_in_collective=False,
    )
    chunks = [DistributedDataParallel(config, settings, m, disable_bucketing=i > 0) for i, m in enumerate(modules)]
    config.finalize_model_grads_func = finalize_model_grads
    if options.overlap:
        config.no_sync_func = [c.no_sync for c in chunks] if len(chunks) > 1 else chunks[0].no_sync
    return chunks


def _optimizer(session: Session, config: Any, chunks: list[Any]) -> Any:
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    options = session.options
    settings = OptimizerConfig(
        optimizer="adam",
        lr=1e-4,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=options.distributed_optimizer,
        overlap_param_gather=options.overlap and options.distributed_optimizer,
        clip_grad=1.0,
    )
    optimizer = get_megatron_optimizer(settings, chunks, use_gloo_process_groups=False)
    config.grad_scale_func = optimizer.scale_loss
    return optimizer


def _groups(session: Session) -> dict[str, list[int]]:
    from megatron.core import parallel_state

    ranks = dist.get_process_group_ranks
    options = session.options
    groups = {
        "tp": ranks(parallel_state.get_tensor_model_parallel_group()),
        "pp": ranks(parallel_state.get_pipeline_model_parallel_group()),
        "dp": ranks(parallel_state.get_data_parallel_group()),
        "cp": ranks(parallel_state.get_context_parallel_group()),
    }
    if options.tied and options.pp > 1:
        with contextlib.suppress(Exception):  # a rank outside of it has none
            tied = ranks(parallel_state.get_embedding_group())
            groups["embedding"] = tied if session.rank in tied else []
    if options.ep > 1:
        groups["ep"] = ranks(parallel_state.get_expert_model_parallel_group())
        groups["expert_dp"] = ranks(parallel_state.get_expert_data_parallel_group())
    return groups


def _batches(session: Session) -> Iterator[Any]:
    while True:
        x = random_tokens(session)
        yield x, x.roll(-1, 1)


def _forward(session: Session) -> Any:
    options = session.options
    positions = torch.arange(options.sequence, device=session.device).unsqueeze(0).expand(options.batch, -1)

    def loss_of(output: torch.Tensor) -> Any:
        loss = output.float().mean()
        return loss, {"lm loss": loss.detach().clone()}

    def forward(batches: Iterator[Any], model: Any) -> Any:
        x, y = next(batches)
        return model(x, positions, None, labels=y), loss_of

    return forward


def _report_loss(session: Session, losses: Any, group: Any) -> None:
    """As megatron.training does: the loss is averaged over the data-parallel ranks of the last stage."""
    if losses:
        loss = torch.stack([each["lm loss"] for each in losses]).mean()
        dist.all_reduce(loss, group=group)
        if session.rank == session.world - 1:
            print("lm loss", round(loss.item() / dist.get_world_size(group), 4), flush=True)
