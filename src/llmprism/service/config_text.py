"""A configuration as TOML text, with every setting in it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from llmprism.service.config import Config

__all__ = ["as_toml"]


def as_toml(config: Config) -> str:
    """What `parse_config` reads back as the same configuration. Tokens are shown by their hashes only."""
    parts: list[str] = []
    for item in fields(config):
        value: Any = getattr(config, item.name)
        if is_dataclass(value):
            parts.append(f"[{item.name}]\n{_settings(value)}")
        else:
            parts += [f"[[{item.name}]]\n{_settings(one)}" for one in value]
    return "\n".join(parts)


def _settings(value: Any) -> str:
    return "".join(f"{item.name} = {_literal(getattr(value, item.name))}\n" for item in fields(value))


def _literal(value: object) -> str:
    if is_dataclass(value):
        return "{" + ", ".join(f"{item.name} = {_literal(getattr(value, item.name))}" for item in fields(value)) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=True)
