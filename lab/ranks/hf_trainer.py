"""transformers.Trainer on Accelerate's DDP, with its own evaluation and checkpoints."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import torch
from torch.utils.data import Dataset

from lab.ranks.models import count, llama, spin
from lab.ranks.session import Session

__all__ = ["train"]


class RandomTokens(Dataset[Any]):
    def __init__(self, session: Session, length: int) -> None:
        self.session, self.length = session, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.randint(0, self.session.options.vocabulary, (self.session.options.sequence,))
        return {"input_ids": x, "labels": x}


def train(session: Session) -> None:
    options = session.options
    if not session.cuda:
        os.environ["ACCELERATE_USE_CPU"] = "1"
    import accelerate
    import transformers

    model = llama(session)
    parameters = count(model)
    spin(session, model.model.layers)
    name = f"transformers.Trainer {transformers.__version__} / accelerate {accelerate.__version__}"

    class Stamps(transformers.TrainerCallback):  # type: ignore[misc]
        last = 0

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            session.note_layout(parameters, {"dp": range(session.world)}, dp=session.world, framework=name)

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            session.begin()

        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            session.gradients()

        def on_step_end(self, _: Any, __: Any, control: Any, **___: Any) -> None:
            session.end()
            self.last = time.time_ns()
            if not session.more():
                control.should_training_stop = True

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            session.note("pause", what="evaluation", after=session.step - 1, start=self.last, end=time.time_ns())

        def on_save(self, *_: Any, **__: Any) -> None:
            session.note("pause", what="checkpoint", after=session.step - 1, start=self.last, end=time.time_ns())

    evaluation = RandomTokens(session, session.world * options.batch * options.evaluate_batches)
    trainer = transformers.Trainer(
        model=model,
        args=_settings(session),
        train_dataset=RandomTokens(session, 100_000),
        eval_dataset=evaluation,
        callbacks=[Stamps()],
    )
    trainer.train()


def _settings(session: Session) -> Any:
    import transformers

    options = session.options
    return transformers.TrainingArguments(
        output_dir=str(session.folder / "checkpoints") if options.checkpoint_every else tempfile.mkdtemp(),
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=options.batch,
        gradient_accumulation_steps=options.micro_batches,
        max_steps=options.steps,
        learning_rate=1e-4,
        bf16=session.cuda,
        eval_strategy="steps" if options.evaluate_every else "no",
        eval_steps=options.evaluate_every or None,
        save_strategy="steps" if options.checkpoint_every else "no",
        save_steps=options.checkpoint_every or 500,
        save_total_limit=1,
        logging_steps=5,
        report_to=[],
        dataloader_num_workers=0,
        ddp_timeout=120,
        ddp_backend="nccl" if session.cuda else "gloo",
        disable_tqdm=True,
        ddp_bucket_cap_mb=options.bucket_mb,
        use_cpu=not session.cuda,
    )
