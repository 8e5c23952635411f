"""Signs of trouble in the run's own numbers, where no line speaks of an error: hang, slow, NaN, divergence.

Ranks of a synchronous job count iterations together. One that stopped counting while the others went on hangs, and so
does a job whose logs go on without iterations. Times per iteration are cut into segments of equal pace; a last segment
much slower than the ones before is a slowdown. A loss or gradient norm that stays NaN, a loss scale that fell to its
floor, and a loss that left its range are read off the series of their values.

What these rules must not shout at: an evaluation or a checkpoint (a few slow iterations), the slow first iterations,
healthy runs whose iterations alternate between two durations, a log copied while the ranks were writing.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.logs.joblog import JobLog
from llmprism.logs.members import LogMembers
from llmprism.logs.metrics import Metric
from llmprism.logs.pace import find_slowdown, iteration_times, smoothed
from llmprism.logs.progress import Progress
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.sequences import Lag
from llmprism.logs.suspect_list import MAX_SUSPECTS, in_turn, suspect_actor
from llmprism.model.log import Sign, SignKind

__all__ = ["actor_iterations", "find_signs"]


def find_signs(
    log: JobLog,
    members: LogMembers,
    progress: Progress,
    lags: list[Lag],
    rules: LogRules = RULES,
    *,
    expected: SignKind | None = None,
) -> list[Sign]:
    """All signs, the most certain first. `expected`: what the user says happened; weaker evidence is then enough."""
    found = [
        *_hangs(log, members, progress, lags, rules, expected is SignKind.HANG),
        *_slow(log, progress, rules, expected is SignKind.SLOW),
        *_not_numbers(log, members, progress, rules),
        *_loss_scale(log, progress, rules),
        *_diverged(log, progress, rules),
    ]
    return sorted(found, key=lambda sign: (not sign.lasts, -sign.confidence))


def actor_iterations(log: JobLog, members: LogMembers, progress: Progress) -> tuple[Int64, Int64]:
    """The last iteration of every actor and the time of its last iteration line; -1 and 0 where it prints none."""
    last = np.full(len(members.actors), -1, dtype=np.int64)
    when = np.zeros(len(members.actors), dtype=np.int64)
    if not progress.shapes or not last.size:
        return last, when
    actor = members.actor_of_writer[log.pair_writer]
    counts = np.isin(log.pair_shape, list(progress.shapes)) & (actor >= 0)
    np.maximum.at(last, actor[counts], log.pair_iteration[counts])
    np.maximum.at(when, actor[counts], log.pair_last_ns[counts])
    return last, when


def _hangs(
    log: JobLog, members: LogMembers, progress: Progress, lags: list[Lag], rules: LogRules, expected: bool
) -> list[Sign]:
    found: list[Sign] = []
    sure = rules.confidence
    if lags:
        lag = lags[0]
        why = f"its last collective is {lag.own} while the others wait in {lag.others} ({lag.source})"
        late = [lag.actor for lag in lags[:MAX_SUSPECTS]]
        suspects = in_turn(members, late, rules.confidence.lagging, why, rules)
        summary = f"{members.actors[lag.actor].label} did not enter collective {lag.others}; the others wait for it"
        found.append(
            Sign(SignKind.HANG, summary, sure.lag, progress.last_iteration, None, lag.own, lag.others, True, suspects)
        )
    behind = _behind_the_others(log, members, progress, rules, expected)
    if behind is not None:
        found.append(behind)
    last_line = int(log.file_last_ns.max()) if log.file_last_ns.size else 0
    if progress.last_ns and progress.step_ns:
        pause = last_line - progress.last_ns
        if pause > max(rules.silence_ns, rules.silence_steps * progress.step_ns):
            summary = f"the logs go on for {pause / 1e9:.0f} s after the last iteration without another one"
            found.append(
                Sign(SignKind.HANG, summary, sure.no_more_iterations, progress.last_iteration, progress.last_ns)
            )
    return found


def _behind_the_others(
    log: JobLog, members: LogMembers, progress: Progress, rules: LogRules, expected: bool
) -> Sign | None:
    """A few ranks whose last iteration lies behind the one that all the others reached."""
    last, when = actor_iterations(log, members, progress)
    counting = np.flatnonzero(last >= 0)
    if counting.size < 3:
        return None
    front = int(np.median(last[counting]))
    behind = counting[last[counting] < front]
    at_front = counting[last[counting] >= front]
    if not behind.size or behind.size > rules.behind_share * counting.size:
        return None
    every = _print_interval(progress)
    prints = float(front - last[behind].max()) / every
    earlier = int(when[at_front].min() - when[behind].max()) if when[at_front].all() and when[behind].all() else None
    if earlier is not None and earlier < 0:
        return None
    sure = rules.confidence
    confidence = sure.far_behind if prints >= 2 else sure.behind_as_expected if expected else sure.behind
    chance = _chance_of_a_copy(log, members, progress, behind, at_front)
    if chance is not None and chance <= rules.rare_copy:
        confidence = max(confidence, sure.hardly_a_copy)
    order = behind[np.lexsort((when[behind], last[behind]))]
    why = f"it stopped at iteration {int(last[order[0]])} while the others reached {front}"
    suspects = in_turn(members, order[:MAX_SUSPECTS].tolist(), confidence, why, rules)
    summary = f"{members.actors[int(order[0])].label} stopped at iteration {int(last[order[0]])}, the others at {front}"
    return Sign(
        SignKind.HANG, summary, confidence, int(last[order[0]]) + 1, None, int(last[order[0]]), front, True, suspects
    )


def _chance_of_a_copy(
    log: JobLog, members: LogMembers, progress: Progress, behind: Int64, at_front: Int64
) -> float | None:
    """How often a log copied at a random moment shows these ranks one line behind the others although all is well.

    That is the share of a step by which they print later than the others, by the iterations that both printed. What
    the resolution of the stamps may hide counts as one tick among them. None where the lines have no times.
    """
    series = log.iterations
    actor = members.actor_of_writer[series.writer]
    used = np.isin(series.shape, list(progress.shapes)) & (series.time_ns > 0)
    late, front = used & np.isin(actor, behind), used & np.isin(actor, at_front)
    if not late.any() or not front.any() or not progress.step_ns:
        return None
    shared, own = np.unique(series.value[late], return_index=True)
    when = series.time_ns[late][own]
    order = np.argsort(series.value[front], kind="stable")
    values, times = series.value[front][order], series.time_ns[front][order]
    begin, end = np.searchsorted(values, shared), np.searchsorted(values, shared, side="right")
    known = end > begin
    if not known.any():
        return None
    others = np.array([np.median(times[a:b]) for a, b in zip(begin[known], end[known], strict=True)])
    stamps = np.diff(np.unique(series.time_ns[used]))
    tick = float(stamps.min()) if stamps.size else 0.0
    lateness = float(np.maximum(when[known] - others, 0).mean()) + tick / (int(known.sum()) + 1)
    return min(1.0, lateness / progress.step_ns)


def _print_interval(progress: Progress) -> float:
    """Iterations between two printed numbers."""
    gaps = [np.diff(track.value) for track in progress.tracks if track.value.size > 2]
    forward = np.concatenate([gap[gap > 0] for gap in gaps]) if gaps else np.zeros(0)
    return float(np.median(forward)) if forward.size else 1.0


def _slow(log: JobLog, progress: Progress, rules: LogRules, expected: bool) -> list[Sign]:
    times = iteration_times(log, progress, rules)
    if times is None:
        return []
    slowdown = find_slowdown(times.seconds, rules, least=rules.expected_slow_ratio if expected else None)
    if slowdown is None:
        return []
    begin = int(times.iteration[slowdown.start])
    ratio = slowdown.after / slowdown.before
    span = "" if slowdown.lasts else f" until iteration {int(times.iteration[slowdown.stop - 1])}"
    summary = (
        f"iterations take {slowdown.after:.3g} s instead of {slowdown.before:.3g} s "
        f"({ratio:.1f} times as long) since iteration {begin}{span}"
    )
    sure = rules.confidence
    confidence = round(min(sure.much_slower, sure.slower + sure.slower_per_ratio * ratio), 2)
    when = int(times.time_ns[slowdown.start]) or None
    return [
        Sign(SignKind.SLOW, summary, confidence, begin, when, slowdown.after, slowdown.before, lasts=slowdown.lasts)
    ]


def _series(log: JobLog, metric: Metric) -> list[Int64]:
    """Rows of the metric by writer, each in the order of its lines; the longest first."""
    rows = np.flatnonzero(log.metrics.metric == metric)
    if not rows.size:
        return []
    order = rows[np.argsort(log.metrics.writer[rows], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(log.metrics.writer[order])) + 1)
    return sorted(parts, key=lambda part: -part.size)


def _not_numbers(log: JobLog, members: LogMembers, progress: Progress, rules: LogRules) -> list[Sign]:
    found: list[Sign] = []
    for metric, name in ((Metric.LOSS, "loss"), (Metric.GRAD_NORM, "gradient norm")):
        bad: list[tuple[int, int, int, bool]] = []
        writers = _series(log, metric)
        for rows in writers:
            run = _bad_run(~np.isfinite(log.metrics.value[rows]), rules)
            if run is not None:
                bad.append((int(rows[run[0]]), run[1] - run[0], int(log.metrics.writer[rows[0]]), run[1] == rows.size))
        if not bad:
            continue
        row, count, _, lasts = min(bad, key=lambda item: (not item[3], item[0]))
        file, line, when = int(log.metrics.file[row]), int(log.metrics.line[row]), int(log.metrics.time_ns[row])
        done = progress.iteration_at(file, line + 1, when)
        few = len(writers) >= 3 and 2 * len(bad) <= len(writers)
        actors = dict.fromkeys(int(members.actor_of_writer[writer]) for _, _, writer, _ in bad) if few else {}
        why = f"its {name} is not a number while the others' is"
        here = rules.confidence.not_a_number_here
        suspects = tuple(suspect_actor(members, actor, here, why) for actor in actors if actor >= 0)
        at = f" since iteration {done}" if done is not None else ""
        summary = f"the {name} is not a number{at} ({count} values in a row)"
        found.append(
            Sign(SignKind.NAN, summary, rules.confidence.not_a_number, done, when or None, None, None, lasts, suspects)
        )
        break
    return found


def _bad_run(bad: Bool, rules: LogRules) -> tuple[int, int] | None:
    """The last run of bad values that counts: long, or at the end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    for start, stop in reversed(list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))):
        needed = rules.nan_values if stop == bad.size else rules.long_nan_values
        if stop - start >= needed:
            return start, stop
    return None


def _loss_scale(log: JobLog, progress: Progress, rules: LogRules) -> list[Sign]:
    for rows in _series(log, Metric.LOSS_SCALE)[:1]:
        values = log.metrics.value[rows]
        values = values[np.isfinite(values) & (values > 0)]
        if values.size < 2 * rules.diverged_values:
            continue
        last, most = float(values[-1]), float(values.max())
        if (
            most >= rules.scale_fall * last
            and (values[-rules.diverged_values :] <= last).all()
            and last <= values.min()
        ):
            summary = f"the loss scale fell from {most:g} to {last:g} and stays: every step overflows"
            return [
                Sign(
                    SignKind.LOSS_SCALE, summary, rules.confidence.loss_scale, progress.last_iteration, None, last, most
                )
            ]
    return []


def _diverged(log: JobLog, progress: Progress, rules: LogRules) -> list[Sign]:
    for rows in _series(log, Metric.LOSS)[:1]:
        values = log.metrics.value[rows]
        good = np.isfinite(values) & (values > 0)
        rows, values = rows[good], values[good]
        if values.size < 4 * rules.diverged_values:
            continue
        level = smoothed(values, rules.diverged_values)
        high = level > rules.diverged_ratio * np.minimum.accumulate(level)
        begin = int(np.flatnonzero(~high)[-1]) + 1 if (~high).any() else 0
        after, usual = values[begin:], float(level[:begin].min()) if begin else 0.0
        if after.size >= rules.diverged_values and begin and (after > values[: rules.diverged_values].max()).all():
            row = int(rows[begin])
            done = progress.iteration_at(int(log.metrics.file[row]), int(log.metrics.line[row]) + 1, 0)
            summary = f"the loss left its range: {float(np.median(after)):.3g} after {usual:.3g}"
            level_now = float(np.median(after))
            return [Sign(SignKind.DIVERGED, summary, rules.confidence.diverged, done, None, level_now, usual)]
    return []
