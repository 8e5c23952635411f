"""`/metrics` in Prometheus' text format, from the store alone. Labels are bounded: the latest jobs by id, no addresses.

Per job: step seconds, state, GPUs, open findings, GPU-seconds lost. Per source: received, stored, late, dropped by
reason, and how far the records lie behind the clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from llmprism.model.finding import FindingKind
from llmprism.model.live import LiveState
from llmprism.service.history import History

__all__ = ["MAX_JOBS", "Samples", "ServiceGauges", "metric", "render"]

MAX_JOBS: Final = 200
"""Jobs with metrics of their own, living ones first: 200 x 12 series stay small. The rest are counted by state."""

Samples = Iterable[tuple[dict[str, str], float]]


class ServiceGauges:
    """What only the running process knows."""

    def __init__(self, queued_bytes: int, trouble: bool, shedding: bool, version: str, now_ns: int) -> None:
        self.queued_bytes = queued_bytes
        self.trouble = trouble
        self.shedding = shedding
        self.version = version
        self.now_ns = now_ns


def render(history: History, gauges: ServiceGauges) -> str:
    """All metrics, ending in a newline."""
    living = history.runs(states=tuple(state.value for state in LiveState if state.alive), limit=MAX_JOBS)["items"]
    past = history.runs(states=(LiveState.CRASHED.value, LiveState.ENDED.value), limit=MAX_JOBS)["items"]
    shown = [*living, *past][:MAX_JOBS]
    findings = history.findings(phase="open", limit=1000)["items"]
    states, kinds, sources = history.runs_by_state(), history.findings_by_kind(), history.sources()
    parts = [
        *_service(history, gauges),
        *_jobs(shown, findings),
        metric(
            "llmprism_jobs",
            "gauge",
            "Jobs known, by state.",
            [({"state": one.value}, states.get(one.value, 0)) for one in LiveState],
        ),
        metric(
            "llmprism_findings_open",
            "gauge",
            "Open findings, by kind.",
            [({"kind": one.value}, kinds.get(one.value, 0)) for one in FindingKind],
        ),
        *_sources(sources, gauges.now_ns),
        *_log_lines(sources),
    ]
    return "".join(parts)


def _service(history: History, gauges: ServiceGauges) -> list[str]:
    window = history.last_window() or {}
    behind = (gauges.now_ns - window["end_ns"]) / 1e9 if window else 0.0
    sent = history.outbox_counts()
    return [
        metric("llmprism_info", "gauge", "Version.", [({"version": gauges.version}, 1)]),
        metric("llmprism_intake_queue_bytes", "gauge", "Bytes waiting to be stored.", [({}, gauges.queued_bytes)]),
        metric("llmprism_storage_trouble", "gauge", "1 while records cannot be stored.", [({}, gauges.trouble)]),
        metric("llmprism_shedding", "gauge", "1 while pushes are turned away.", [({}, gauges.shedding)]),
        metric(
            "llmprism_window_end_seconds", "gauge", "End of the last window.", [({}, window.get("end_ns", 0) / 1e9)]
        ),
        metric("llmprism_window_behind_seconds", "gauge", "How far the last window lies behind now.", [({}, behind)]),
        metric(
            "llmprism_window_duration_seconds",
            "gauge",
            "Time the last window took.",
            [({}, window.get("took_ms", 0) / 1e3)],
        ),
        metric("llmprism_window_records", "gauge", "Records of the last window.", [({}, window.get("records", 0))]),
        metric(
            "llmprism_messages",
            "gauge",
            "Alert messages kept, by status.",
            [({"status": status}, sent.get(status, 0)) for status in ("waiting", "sent", "dead")],
        ),
    ]


def _jobs(runs: list[dict[str, Any]], findings: list[dict[str, Any]]) -> list[str]:
    open_by_job: dict[str, int] = {}
    for finding in findings:
        open_by_job[finding["job"] or ""] = open_by_job.get(finding["job"] or "", 0) + 1
    label = [({"job_id": run["id"]}, run) for run in runs]
    states = [
        ({**labels, "state": state.value}, float(run["state"] == state.value))
        for labels, run in label
        for state in LiveState
    ]
    return [
        metric("llmprism_job_state", "gauge", "1 for the state a job is in.", states),
        metric("llmprism_job_gpus", "gauge", "GPUs of a job.", [(one, run["gpus"]) for one, run in label]),
        metric(
            "llmprism_job_step_seconds",
            "gauge",
            "Recent step time.",
            [(one, run["recent_ns"] / 1e9) for one, run in label],
        ),
        metric(
            "llmprism_job_step_baseline_seconds",
            "gauge",
            "Step time while nothing is wrong.",
            [(one, run["baseline_ns"] / 1e9) for one, run in label],
        ),
        metric("llmprism_job_steps_total", "counter", "Steps seen.", [(one, run["steps"]) for one, run in label]),
        metric(
            "llmprism_job_findings_open",
            "gauge",
            "Open findings of a job.",
            [(one, open_by_job.get(run["id"], 0)) for one, run in label],
        ),
    ]


def _of_logs(source: dict[str, Any]) -> bool:
    return str(source["name"]).startswith("job_logs:")


def _by_source(metric_name: str, meaning: str, sources: list[dict[str, Any]], count: str) -> str:
    """The counter of that name, one value per source."""
    return metric(metric_name, "counter", meaning, [({"source": one["name"]}, one.get(count, 0)) for one in sources])


def _log_lines(sources: list[dict[str, Any]]) -> list[str]:
    """Lines of jobs' logs: received = stored + dropped."""
    logs = [source for source in sources if _of_logs(source)]
    parts = [
        _by_source(f"llmprism_log_lines_{name}_total", f"Lines of jobs' logs {name}.", logs, name)
        for name in ("received", "stored")
    ]
    dropped = [
        ({"source": source["name"], "reason": reason}, count)
        for source in logs
        for reason, count in source["dropped"].items()
    ]
    return [*parts, metric("llmprism_log_lines_dropped_total", "counter", "Lines dropped, by reason.", dropped)]


def _sources(sources: list[dict[str, Any]], now_ns: int) -> list[str]:
    real = [source for source in sources if source["name"] != "service" and not _of_logs(source)]
    parts = [
        _by_source(f"llmprism_source_{name}_records_total", f"Records {name}.", real, name)
        for name in ("received", "stored", "late", "unseen")
    ]
    dropped = [
        ({"source": source["name"], "reason": reason}, count)
        for source in real
        for reason, count in source["dropped"].items()
    ]
    refused = [
        ({"source": source["name"], "reason": reason}, count)
        for source in real
        for reason, count in source["refused"].items()
    ]
    lag = [
        ({"source": source["name"]}, (now_ns - source["latest_ns"]) / 1e9) for source in real if "latest_ns" in source
    ]
    clocks = [({"source": source["name"]}, source["clock"]) for source in real if "clock" in source]
    left_out = sum(source.get("seconds_left_out", 0) for source in sources)
    skipped = sum(source.get("windows_skipped", 0) for source in sources)
    failed = sum(source.get("windows_failed", 0) for source in sources)
    return [
        *parts,
        metric("llmprism_source_dropped_records_total", "counter", "Records dropped, by reason.", dropped),
        metric("llmprism_source_refused_payloads_total", "counter", "Payloads that could not be read.", refused),
        metric("llmprism_source_lag_seconds", "gauge", "How far the latest record lies behind the clock.", lag),
        metric(
            "llmprism_source_clock_offset_seconds",
            "gauge",
            "How far a source's clock is ahead of the others; taken off its times.",
            [(label, clock["offset_s"]) for label, clock in clocks],
        ),
        metric(
            "llmprism_source_delivery_seconds",
            "gauge",
            "How old a source's records are when they arrive.",
            [(label, clock["lag_s"]) for label, clock in clocks],
        ),
        metric("llmprism_left_out_seconds_total", "counter", "Time that no window looked at.", [({}, left_out)]),
        metric("llmprism_windows_failed_total", "counter", "Windows that could not be diagnosed.", [({}, failed)]),
        metric("llmprism_windows_skipped_total", "counter", "Windows left out to catch up.", [({}, skipped)]),
    ]


def metric(name: str, kind: str, text: str, samples: Samples) -> str:
    """One metric in Prometheus' text format."""
    lines = [f"# HELP {name} {text}\n# TYPE {name} {kind}\n"]
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
        lines.append(f"{name}{{{inner}}} {float(value):.10g}\n" if inner else f"{name} {float(value):.16g}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
