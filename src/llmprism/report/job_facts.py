"""Facts of a job (size of the model, use of the network) as JSON values and as two lines of text."""

from __future__ import annotations

from typing import Any, Final

from llmprism.model.facts import JobFacts, ModelSize, Synchronisation
from llmprism.report.text import data_size, percent, plural, rate, significant

__all__ = ["facts_document", "model_text", "network_text"]

_SHARE_DECIMALS: Final = 4
_RATE_DECIMALS: Final = 3

_COUNTS: Final = ((10**12, " T"), (10**9, " B"), (10**6, " M"), (10**3, " k"))

_WAYS: Final = {
    Synchronisation.ALL_REDUCE: "all-reduced",
    Synchronisation.SHARDED_OPTIMIZER: "with a sharded optimizer",
    Synchronisation.SHARDED_PARAMETERS: "with sharded parameters",
}


def facts_document(facts: JobFacts | None) -> dict[str, Any] | None:
    """The contract's `facts` of a job; null where they were not looked for."""
    if facts is None:
        return None
    sent = facts.sent_bytes_per_gpu
    return {
        **_size(facts.size),
        "alternatives": [_size(size) for size in facts.sizes[1:]],
        "sent_bytes_per_gpu": None if sent is None else list(sent),
        "exposed_communication": _rounded(facts.exposed_communication, _SHARE_DECIMALS),
        "pipeline_bubble": _rounded(facts.pipeline_bubble, _SHARE_DECIMALS),
        "bus_bandwidth_gbps": _rounded(facts.bus_bandwidth_gbps, _RATE_DECIMALS),
    }


def _size(size: ModelSize | None) -> dict[str, Any]:
    return {
        "synchronisation": "unknown" if size is None else size.synchronisation.value,
        "gradient_element_bytes": None if size is None else size.gradient_element_bytes,
        "parameter_element_bytes": None if size is None else size.parameter_element_bytes,
        "parameters_per_gpu": None if size is None else list(size.parameters_per_gpu),
        "parameters": None if size is None else size.parameters,
        "gradient_bytes_per_gpu": None if size is None else list(size.gradient_bytes_per_gpu),
        "gradient_bytes": None if size is None else size.gradient_bytes,
        "confidence": None if size is None else _rounded(size.confidence, _SHARE_DECIMALS),
    }


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals) + 0.0


def model_text(facts: JobFacts | None) -> str:
    """One sentence on the size of the model; `unknown` where the traffic does not show it."""
    size = facts.size if facts is not None else None
    if facts is None or size is None:
        return "unknown"
    gradients = f"{_range(size.gradient_bytes_per_gpu, data_size)} of gradients per GPU {_WAYS[size.synchronisation]}"
    rivals = [one for one in facts.sizes if one.confidence >= size.confidence / 2]
    gathered = len({one.gradient_element_bytes for one in rivals}) < len(rivals)
    sizes = ", or ".join(
        f"{_range(one.parameters_per_gpu, _count)} parameters{_whole(one)} if gradients have "
        f"{plural(one.gradient_element_bytes, 'byte')}{_as_gathered(one) if gathered else ''}"
        for one in rivals
    )
    return f"{gradients}; {sizes}; confidence {significant(size.confidence, 2)}"


def _as_gathered(size: ModelSize) -> str:
    """In which format parameters are gathered, where readings that agree on the gradients differ by it."""
    return f" and parameters {size.parameter_element_bytes}"


def _whole(size: ModelSize) -> str:
    """The whole model, where a GPU does not hold all of it."""
    if size.parameters is None or size.parameters == size.parameters_per_gpu[0]:
        return ""
    return f" per GPU ({_count(size.parameters)} in all)"


def _range(values: tuple[int, ...], text: Any) -> str:
    low, high = text(min(values)), text(max(values))
    return str(low) if low == high else f"{low} to {high}"


def _count(number: float) -> str:
    for size, unit in _COUNTS:
        if number >= size:
            return f"{significant(number / size)}{unit}"
    return significant(number)


def network_text(facts: JobFacts | None) -> str:
    """What is known of the use of the network; `unknown` where nothing is."""
    if facts is None:
        return "unknown"
    parts = []
    if facts.exposed_communication is not None:
        parts.append(f"{percent(facts.exposed_communication)} of a step is exposed communication")
    if facts.pipeline_bubble is not None:
        parts.append(f"pipeline bubble {percent(facts.pipeline_bubble)}")
    if facts.bus_bandwidth_gbps is not None:
        parts.append(f"gradients at {rate(facts.bus_bandwidth_gbps)}")
    return ", ".join(parts) or "unknown"
