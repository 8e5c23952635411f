"""Why a job is slow: what the logs say of the place that the flows found, and slowness that only one of them shows.

The flows find slow GPUs, NICs, links and storage; kernel logs and libraries speak of thermal throttling, ECC errors,
link flaps, retries and storage that does not answer (`nearby`). Lines that the run survived count here: slowness is
survived. A finding without a place takes the place of such lines, where they are all of one host. Where the logs print
how long iterations took, a finding must show in them (`effect`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.log import Cause, CauseClass, Sign, SignKind
from llmprism.model.verdict import Contradiction, NamedSuspect, Source, Verdict
from llmprism.verdict.case import LOG_LINES, JobCase, Judged, Judgement, cause_of_kind, owner_of
from llmprism.verdict.effect import Effect, measure_effect
from llmprism.verdict.nearby import addresses_of, lines_about
from llmprism.verdict.quotes import MAX_QUOTED
from llmprism.verdict.rules import SlownessRules

__all__ = ["judge_slowness"]

_ENDINGS: Final = (FindingKind.CRASH, FindingKind.HANG, FindingKind.DIVERGED)

_KIND_OF: Final = {
    "hardware.gpu": FindingKind.SLOW_GPU,
    "hardware.nvlink": FindingKind.SLOW_GPU,
    "hardware.node": FindingKind.SLOW_GPU,
    "hardware.nic": FindingKind.SLOW_NIC,
}


def judge_slowness(case: JobCase) -> Judgement:
    result = Judgement()
    for finding in case.findings():
        if finding.kind not in _ENDINGS and case.covers(finding.start_ns):
            result.used.append(finding)
            effect = measure_effect(case, finding)
            if effect is not None and effect.contradicts and finding.confidence < case.rules.slowness.sure_finding:
                result.notes.append(_withdrawn(case, finding, effect))
            else:
                result.judged.append(_explain(case, finding, effect))
    sign = next((one for one in case.diagnosis.signs if one.kind is SignKind.SLOW), None)
    if (
        sign is not None
        and sign.lasts
        and not any(one.finding.kind is not FindingKind.IMBALANCE for one in result.judged)
    ):
        _slow_by_logs(case, sign, result)
    return result


def _withdrawn(case: JobCase, finding: Finding, effect: Effect) -> str:
    return (
        f"{finding.job}: the flows alone report a {finding.kind.value} ({finding.summary.rstrip('.')}); by the logs of "
        f"{case.name} iterations took {effect.inside_s:.3g} s then and {effect.outside_s:.3g} s otherwise: nothing is "
        "reported"
    )


def _explain(case: JobCase, finding: Finding, effect: Effect | None) -> Judged:
    """A flow finding with what the logs say of it."""
    lines = lines_about(case, finding)
    sign = _slow_sign(case, finding)
    evidence = list(finding.evidence)
    clashes: tuple[Contradiction, ...] = ()
    seen = finding
    if effect is not None:
        evidence.append(Evidence("seconds per iteration in the logs", effect.inside_s, effect.outside_s))
        finding, clashes = _with_effect(finding, effect, case.rules.slowness)
    elif sign is not None and sign.value is not None and sign.expected is not None:
        evidence.append(Evidence("seconds per iteration in the logs", sign.value, sign.expected))
    cause = cause_of_kind(finding, case.rules.slowness)
    source = Source.BOTH if lines or sign is not None or effect is not None else Source.FLOWS
    if lines:
        cause, finding = _with_lines(case, finding, lines)
        evidence.append(Evidence(LOG_LINES, sum(case.view.lines[at].count for at in lines), 0))
    seat = case.seat_at(case.address_of(finding))
    rank, node = (seat.rank, seat.node) if seat is not None else (None, None)
    suspects: tuple[NamedSuspect, ...] = ()
    if (address := case.address_of(finding)) is not None:
        why = "flows" if not lines else "flows and logs"
        suspects = (NamedSuspect(address, rank, node, round(finding.confidence, 3), why),)
    verdict = Verdict(
        source, cause, owner_of(cause.cause_class), rank, node, _iteration(case, finding), case.number, suspects,
        clashes, tuple(lines[:MAX_QUOTED]), seen,
    )  # fmt: skip
    return Judged(replace(finding, evidence=tuple(evidence)), verdict)


def _with_effect(finding: Finding, effect: Effect, rules: SlownessRules) -> tuple[Finding, tuple[Contradiction, ...]]:
    """The finding surer where the logs measure the slowdown that it predicts, less sure where they do not."""
    if effect.confirms:
        return replace(finding, confidence=round(1 - (1 - finding.confidence) * rules.confirmed_doubt, 4)), ()
    if not effect.contradicts:
        return finding, ()
    said = f"iterations took {effect.inside_s:.3g} s then and {effect.outside_s:.3g} s otherwise"
    why = "the place stands out clearly, but the job hardly lost time by it"
    clash = Contradiction("effect", f"{effect.predicted:.0%} longer steps", said, Source.LOGS, why)
    lost = max(0.0, effect.slowdown / (1 + effect.slowdown))
    return replace(finding, confidence=finding.confidence * rules.contradicted, severity=lost), (clash,)


def _with_lines(case: JobCase, finding: Finding, lines: list[int]) -> tuple[Cause, Finding]:
    """The cause that the lines name, and the finding with it in its sentence and, where it had no place, at theirs."""
    rules = case.rules.slowness
    first = min((case.view.lines[at] for at in lines), key=lambda line: (line.role != "root", line.time_ns))
    cause = Cause(
        CauseClass(first.cause or CauseClass.UNKNOWN), first.signature, rules.line_cause, first.meaning, first.advice
    )
    places = [addresses_of(case, case.view.lines[at]) for at in lines]
    shared = set.intersection(*places) if places else set()
    _, sure = case.line_address(first)
    movable = case.address_of(finding) is None and finding.kind in (FindingKind.SLOW_STEP, FindingKind.STALL)
    if movable and len(shared) == 1 and (sure >= rules.sure_seat or first.node):
        kind = _KIND_OF.get(str(first.cause), finding.kind) if finding.kind is FindingKind.SLOW_STEP else finding.kind
        type_ = WhereType.NIC if kind is FindingKind.SLOW_NIC else WhereType.GPU
        finding = replace(finding, kind=kind, where=Where(type_, next(iter(shared))), confidence=rules.moved)
    host = f" on {first.node}" if first.node else ""
    return cause, replace(finding, summary=f"{finding.summary.rstrip('.')}; logs{host}: {first.meaning}")


def _iteration(case: JobCase, finding: Finding) -> int | None:
    """The iteration, by the job's own count, in which a finding began."""
    if case.fit is None or case.job is None or case.fit.stride != 1:
        return None
    return int((case.job.timeline.steps.end_ns <= finding.start_ns).sum()) - case.fit.shift


def _slow_sign(case: JobCase, finding: Finding) -> Sign | None:
    """The slowdown in the logs that began within the finding's time, where there is one."""
    for sign in case.diagnosis.signs:
        if sign.kind is not SignKind.SLOW or sign.time_ns is None:
            continue
        when = case.flow_time(sign.time_ns)
        end = finding.end_ns if finding.end_ns is not None else case.report.window.end_ns
        slack = case.clock_error_ns + case.rules.slowness.sign_steps * case.step_ns
        if when is not None and finding.start_ns - slack <= when <= end + slack:
            return sign
    return None


def _slow_by_logs(case: JobCase, sign: Sign, result: Judgement) -> None:
    """Iterations that became slower by the logs, and nothing that the flows found: reported if their steps show it."""
    ratio = sign.value / sign.expected if sign.value and sign.expected else 1.0
    when = case.flow_time(sign.time_ns) if sign.time_ns is not None else None
    if case.job is None or case.job.timeline.steps.count < case.rules.slowness.pace_steps or when is None:
        seen = None
    else:
        steps = case.job.timeline.steps
        lengths = np.diff(steps.end_ns)
        after = steps.end_ns[1:] > when
        seen = float(np.median(lengths[after]) / np.median(lengths[~after])) if after.any() and (~after).any() else None
    if seen is not None and seen < 1 + (ratio - 1) * case.rules.slowness.pace_shown:
        result.notes.append(
            f"{case.name}: {sign.summary}; the flows show steps of {seen:.2f} times the length: nothing reported"
        )
        return
    start = when if when is not None else case.report.window.start_ns
    job = case.job.job.id if case.job is not None else None
    cause = case.diagnosis.cause
    evidence = [Evidence("seconds per iteration in the logs", sign.value or 0.0, sign.expected)]
    if seen is not None:
        evidence.append(Evidence("length of steps in the flows, after to before", seen, 1))
    finding = Finding(
        FindingKind.SLOW_STEP, job, Where(WhereType.JOB, job or case.name), start, None, max(0.0, 1 - 1 / ratio),
        sign.confidence, 0.0, f"The job became slower: {sign.summary}", tuple(evidence),
    )  # fmt: skip
    source = Source.LOGS if seen is None else Source.BOTH
    verdict = Verdict(source, cause, owner_of(cause.cause_class), iteration=sign.iteration, log_job=case.number)
    result.judged.append(Judged(finding, verdict))
