"""The rules as the operator's settings make them."""

from __future__ import annotations

from llmprism.service.config import Config
from llmprism.service.rules import LiveRules
from llmprism.service.rules.clocks import SourceClockRules
from llmprism.units import SECOND

__all__ = ["rules_of"]


def rules_of(config: Config) -> LiveRules:
    """What is set, and the rest as it is shipped."""
    clocks = SourceClockRules(
        lateness_ns=int(config.windows.lateness_s * SECOND),
        future_ns=int(config.windows.future_s * SECOND),
        keep_ns=int(config.store.keep_flows_h * 3600 * SECOND),
        length_ns=int(config.windows.length_s * SECOND),
        late_topics=tuple(f"kafka:{topic.topic}" for topic in config.kafka if topic.late),
    )
    return LiveRules(windows=config.windows.rules(), clocks=clocks)
