"""The logs of a job that still runs: read again whenever they grow, reported when the verdict changes.

A job's logs are small against the time between two looks at them (150 MB/s), so each look reads them all: what a line
means depends on what came after it. The pause between two looks is never shorter than the last one took, so that a
watch costs at most half a core however large the logs become.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from llmprism.errors import InputError
from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.incidents import Normality
from llmprism.logs.library import Library
from llmprism.logs.progress import measure_progress
from llmprism.logs.reader import read_job
from llmprism.logs.rules import RULES, LogRules
from llmprism.model.log import LogDiagnosis, Outcome, Sign, SignKind, Symptom

__all__ = ["ENDED", "LogUpdate", "watch_job"]

ENDED: Final = frozenset({Outcome.SUCCESS, Outcome.FAILED, Outcome.CANCELLED, Outcome.TIME_LIMIT})


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """One look at the logs. `changed`: the verdict differs from the last."""

    diagnosis: LogDiagnosis
    changed: bool


def _sizes(paths: list[Path]) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            try:
                if file.is_file():
                    found.append((str(file), file.stat().st_size))
            except OSError:
                continue
    return tuple(found)


def _verdict(diagnosis: LogDiagnosis) -> tuple[object, ...]:
    suspects = tuple((s.rank, s.node) for s in diagnosis.suspects)
    return diagnosis.outcome, diagnosis.symptom, diagnosis.cause.cause_class, diagnosis.cause.signature, suspects


def _with_silence(diagnosis: LogDiagnosis, silent_s: float, step_ns: int | None, rules: LogRules) -> LogDiagnosis:
    """A running job whose logs have stopped growing hangs, whatever its lines say."""
    limit = max(rules.watched_silence_s, rules.silence_steps * (step_ns or 0) / 1e9)
    if diagnosis.outcome is not Outcome.RUNNING or diagnosis.symptom is Symptom.HANG or silent_s < limit:
        return diagnosis
    summary = f"the logs have not grown for {silent_s:.0f} s"
    sign = Sign(SignKind.HANG, summary, rules.confidence.stopped_growing, diagnosis.iteration, None, silent_s)
    return replace(diagnosis, symptom=Symptom.HANG, signs=(sign, *diagnosis.signs), notes=(summary, *diagnosis.notes))


def watch_job(
    paths: list[Path],
    library: Library,
    *,
    normal: Normality | None = None,
    rules: LogRules = RULES,
    every_s: float = 10.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[LogUpdate]:
    """Looks at the logs until the job has ended; the first look comes as soon as there is something to read."""
    sizes: tuple[tuple[str, int], ...] | None = None
    grown_at = clock()
    last: tuple[object, ...] | None = None
    diagnosis: LogDiagnosis | None = None
    step_ns: int | None = None
    while True:
        begun = clock()
        now = _sizes(paths)
        if now != sizes:
            sizes, grown_at = now, begun
            try:
                log = read_job(paths, library)
                diagnosis, step_ns = diagnose_log(log, normal=normal, rules=rules), measure_progress(log, rules).step_ns
            except InputError:
                diagnosis = None
        if diagnosis is not None:
            seen = _with_silence(diagnosis, begun - grown_at, step_ns, rules)
            yield LogUpdate(seen, _verdict(seen) != last)
            last = _verdict(seen)
            if seen.outcome in ENDED:
                return
        sleep(max(every_s, clock() - begun))
