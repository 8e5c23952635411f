"""A configuration as TOML text, with every setting in it."""

from __future__ import annotations

from dataclasses import asdict

from llmprism.service.config import Config
from llmprism.toml_text import toml_text

__all__ = ["as_toml"]


def as_toml(config: Config) -> str:
    """What `parse_config` reads back as the same configuration. Tokens are shown by their hashes only."""
    return toml_text({name: section for name, section in asdict(config).items() if section})
