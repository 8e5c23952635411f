"""Small transformers for the frameworks that bring none, and the spin that stands for the work of their layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn

from lab.ranks.session import Session

__all__ = ["Block", "Head", "Stage", "count", "llama", "random_tokens", "spin", "token_loss"]


class Spin(torch.autograd.Function):
    """The identity, taking as long as a layer of a larger model would."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, session: Session, milliseconds: float) -> torch.Tensor:
        context.session, context.milliseconds = session, milliseconds
        session.compute(milliseconds)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        context.session.compute(2 * context.milliseconds)
        return gradients[0], None, None


def spin(session: Session, layers: Iterable[nn.Module], milliseconds: float | None = None) -> None:
    """Puts the spin before every layer's first floating-point input."""
    wanted = session.options.forward_ms if milliseconds is None else milliseconds
    if not wanted:
        return

    def usable(value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    def before(_: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        for i, value in enumerate(arguments):
            if usable(value):
                return (*arguments[:i], Spin.apply(value, session, wanted), *arguments[i + 1 :]), named
        for key, value in named.items():
            if usable(value):
                return arguments, {**named, key: Spin.apply(value, session, wanted)}
        return arguments, named

    for layer in layers:
        layer.register_forward_pre_hook(before, with_kwargs=True)


class Block(nn.Module):
    """One transformer layer."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, hidden = x.shape
        shape = (batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = self.qkv(self.first(x)).view(shape).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Head(nn.Module):
    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x))


class Stage(nn.Module):
    """Some layers of a model: the first stage embeds, the last has the head."""

    def __init__(self, session: Session, layers: int, first: bool, last: bool) -> None:
        super().__init__()
        options = session.options
        self.embedding = nn.Embedding(options.vocabulary, options.hidden) if first else None
        self.blocks = nn.ModuleList(Block(options.hidden, options.heads) for _ in range(layers))
        self.head = Head(options.hidden, options.vocabulary) if last else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x) if self.head is not None else x


def llama(session: Session) -> Any:
    """A small Llama of the transformers library."""
    from transformers import LlamaConfig, LlamaForCausalLM

    options = session.options
    config = LlamaConfig(
        hidden_size=options.hidden,
        intermediate_size=options.hidden * 8 // 3 // 64 * 64,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        vocab_size=options.vocabulary,
        max_position_embeddings=options.sequence,
        use_cache=False,
        tie_word_embeddings=options.tied,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def random_tokens(session: Session, batch: int | None = None) -> torch.Tensor:
    shape = (batch or session.options.batch, session.options.sequence)
    return torch.randint(0, session.options.vocabulary, shape, device=session.device)


def token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), labels.reshape(-1))
