"""Order of work on each stage of a pipeline.

A schedule is a list of instructions per stage: (what, micro-batch, model chunk) with what one of F (forward), B
(backward) and W (weight gradients, where the schedule separates them). Only the order is given here; when each happens
follows from the dependencies.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Instruction", "instructions"]


class Instruction(NamedTuple):
    what: str
    micro_batch: int
    chunk: int = 0


def instructions(schedule: str, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> list[Instruction]:
    """The work of one stage in one step, in order."""
    if schedule == "gpipe":
        forward = [Instruction("F", m) for m in range(micro_batches)]
        return forward + [Instruction("B", m) for m in range(micro_batches)]
    if schedule == "interleaved":
        return _interleaved(stage, stages, micro_batches, chunks)
    one_f_one_b = _one_f_one_b(stage, stages, micro_batches)
    if schedule == "zero_bubble":
        return _zero_bubble(one_f_one_b, stage)
    return one_f_one_b


def _one_f_one_b(stage: int, stages: int, micro_batches: int) -> list[Instruction]:
    warm_up = min(stages - stage - 1, micro_batches)
    order = [Instruction("F", m) for m in range(warm_up)]
    for m in range(micro_batches - warm_up):
        order += [Instruction("F", warm_up + m), Instruction("B", m)]
    return order + [Instruction("B", m) for m in range(micro_batches - warm_up, micro_batches)]


def _zero_bubble(order: list[Instruction], stage: int) -> list[Instruction]:
    """Weight gradients wait for `stage` micro-batches: late stages keep work for the bubble at the end (ZB-H1)."""
    result: list[Instruction] = []
    waiting: list[int] = []
    for instruction in order:
        result.append(instruction)
        if instruction.what == "B":
            waiting.append(instruction.micro_batch)
            if len(waiting) > stage:
                result.append(Instruction("W", waiting.pop(0)))
    return result + [Instruction("W", m) for m in waiting]


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Instruction]:
    """Megatron's interleaved 1F1B: micro-batches go through the chunks in rounds of `stages`."""
    total = micro_batches * chunks
    per_round = stages * chunks

    def forward(i: int) -> Instruction:
        place, within = divmod(i, per_round)
        return Instruction("F", place * stages + within % stages, within // stages)

    def backward(i: int) -> Instruction:
        place, within = divmod(i, per_round)
        return Instruction("B", place * stages + within % stages, chunks - 1 - within // stages)

    warm_up = min((stages - stage - 1) * 2 + (chunks - 1) * stages, total)
    order = [forward(i) for i in range(warm_up)]
    for i in range(total - warm_up):
        order += [forward(warm_up + i), backward(i)]
    return order + [backward(i) for i in range(total - warm_up, total)]
