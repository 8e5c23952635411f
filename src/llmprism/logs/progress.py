"""How far the job got: iterations counted, stages passed, per file and over the job.

Iteration lines are those whose number grows as the log goes on; other numbers after `step` are settings. Stages follow
marker lines and iteration lines; once training has begun, a line that looks like initialisation no longer takes the
job back. `Progress.goes_on_after` answers the question that decides most cases: did the run go on after this line?
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Meaning
from llmprism.logs.rules import RULES, LogRules
from llmprism.model.log import Stage

__all__ = ["BEFORE_TRAINING", "NOT_YET_TRAINING", "ORDER", "Progress", "measure_progress"]


_TOTAL: Final = re.compile(r"(?:iteration|iter|step)\s*[:=]?\s*\[?\s*(\d+)\s*/\s*(\d+)", re.I)

_SPEAKS_OF_WORK: Final = re.compile(
    r"loss|elapsed|finish|complet|took|throughput|tokens|samples|grad|lr\b|learning.rate", re.I
)
"""Words that make a step number printed only once a count of work done rather than a setting."""

_STAGE_OF: Final = {
    Meaning.LAUNCH: Stage.LAUNCH,
    Meaning.INIT: Stage.INIT,
    Meaning.DATA: Stage.DATA,
    Meaning.TRAIN: Stage.TRAIN,
    Meaning.EVAL: Stage.EVAL,
    Meaning.EVAL_DONE: Stage.TRAIN,
    Meaning.CHECKPOINT: Stage.CHECKPOINT,
    Meaning.CHECKPOINT_DONE: Stage.TRAIN,
    Meaning.SHUTDOWN: Stage.SHUTDOWN,
    Meaning.SUCCESS: Stage.SHUTDOWN,
    Meaning.GAVE_UP: Stage.SHUTDOWN,
}
BEFORE_TRAINING: Final = frozenset({Stage.LAUNCH, Stage.INIT, Stage.DATA})
NOT_YET_TRAINING: Final = BEFORE_TRAINING | {Stage.UNKNOWN}
"""Stages that show no training: before it, or not known."""
ORDER: Final = (
    Stage.UNKNOWN,
    Stage.LAUNCH,
    Stage.INIT,
    Stage.DATA,
    Stage.TRAIN,
    Stage.EVAL,
    Stage.CHECKPOINT,
    Stage.SHUTDOWN,
)


@dataclass(frozen=True, slots=True)
class _FileTrack:
    """One file's iterations and stage changes, each sorted by line."""

    line: Int64
    value: Int64
    time_ns: Int64
    stage_line: Int64
    stage: tuple[Stage, ...]
    stage_ns: Int64


@dataclass(frozen=True, slots=True)
class Progress:
    tracks: tuple[_FileTrack, ...]
    last_iteration: int | None
    total: int | None
    step_ns: int | None
    last_ns: int
    shapes: frozenset[int] = frozenset()
    """Shapes whose lines count iterations."""
    rules: LogRules = RULES

    def iteration_at(self, file: int, line: int, time_ns: int) -> int | None:
        """The last iteration completed before a line: in its own file, else by time, else the last of the job."""
        track = self.tracks[file]
        if track.line.size:
            place = int(np.searchsorted(track.line, line)) - 1
            return int(track.value[: place + 1].max()) if place >= 0 else 0
        if time_ns:
            before = [
                int(t.value[t.time_ns <= time_ns].max())
                for t in self.tracks
                if (t.time_ns <= time_ns).any() and t.line.size
            ]
            if before:
                return max(before)
        return self.last_iteration

    def stage_at(self, file: int, line: int, time_ns: int) -> Stage:
        """The stage of the job at a line: of its own file where it shows one, else by time, else the furthest."""
        own = self._stage_in(file, line)
        if own not in NOT_YET_TRAINING or not any(
            t.line.size or t.stage for k, t in enumerate(self.tracks) if k != file
        ):
            return own
        others = [self._stage_by_time(k, time_ns) for k in range(len(self.tracks)) if k != file]
        return max([own, *others], key=ORDER.index)

    def _stage_in(self, file: int, line: int) -> Stage:
        track = self.tracks[file]
        place = int(np.searchsorted(track.stage_line, line, side="right")) - 1
        return track.stage[place] if place >= 0 else Stage.UNKNOWN

    def _stage_by_time(self, file: int, time_ns: int) -> Stage:
        track = self.tracks[file]
        if not track.stage:
            return Stage.UNKNOWN
        if not time_ns or not track.stage_ns.any():
            kept = [stage for stage in track.stage if stage is not Stage.SHUTDOWN]
            return kept[-1] if kept else Stage.UNKNOWN
        before = np.flatnonzero((track.stage_ns > 0) & (track.stage_ns <= time_ns))
        return track.stage[int(before[-1])] if before.size else Stage.UNKNOWN

    def goes_on_after(self, file: int, line: int, time_ns: int) -> bool:
        """Whether the run completed more iterations, or reached a later stage, after a line."""
        track = self.tracks[file]
        if track.line.size and self._advanced(track, np.searchsorted(track.line, line, side="right")):
            return True
        if self._reached_later_stage(track, line):
            return True
        if time_ns and not track.line.size:
            return any(
                self._advanced(other, np.searchsorted(other.time_ns, time_ns, side="right"))
                for other in self.tracks
                if other.line.size and other.time_ns[-1] > 0
            )
        return False

    def _advanced(self, track: _FileTrack, place: np.intp) -> bool:
        at = int(place)
        if at >= track.value.size:
            return False
        before = int(track.value[:at].max()) if at else -1
        after = np.unique(track.value[at:])
        return int((after > before).sum()) >= self.rules.goes_on_iterations or self._restarted(track.value[at:], before)

    def _restarted(self, later: Int64, before: int) -> bool:
        """Whether the count fell back and rose again: another attempt, or another epoch, under the same name. Ranks of
        one job are never so far behind each other."""
        if int(later.min()) > before - self.rules.restart_iterations:
            return False
        return np.unique(later[int(np.argmin(later)) :]).size >= self.rules.restart_iterations

    def _reached_later_stage(self, track: _FileTrack, line: int) -> bool:
        place = int(np.searchsorted(track.stage_line, line, side="right"))
        now = track.stage[place - 1] if place else Stage.UNKNOWN
        later = [stage for stage in track.stage[place:] if stage is not Stage.SHUTDOWN]
        return any(stage in (Stage.TRAIN, Stage.EVAL, Stage.CHECKPOINT) for stage in later) and now in NOT_YET_TRAINING


def measure_progress(log: JobLog, rules: LogRules = RULES) -> Progress:
    chosen, total = _iteration_shapes(log, rules)
    keep = np.isin(log.iterations.shape, list(chosen))
    counted = _by_file(log.iterations.file, np.flatnonzero(keep), len(log.files))
    meanings = _meanings(log)
    marked = _by_file(log.rows.file, np.flatnonzero(meanings.code_of_shape[log.rows.shape] >= 0), len(log.files))
    tracks = [_track(log, own, rows, meanings) for own, rows in zip(counted, marked, strict=True)]
    values = log.iterations.value[keep]
    last = int(values.max()) if values.size else None
    times = log.iterations.time_ns[keep]
    last_ns = int(times.max()) if times.size else 0
    return Progress(tuple(tracks), last, total, _step_ns(tracks), last_ns, frozenset(chosen), rules)


def _iteration_shapes(log: JobLog, rules: LogRules) -> tuple[set[int], int | None]:
    """Shapes whose number counts iterations, and the total where the lines say `30/60`."""
    series = log.iterations
    chosen: dict[int, int] = {}
    single: dict[int, int] = {}
    for shape in np.unique(series.shape).tolist():
        of_shape = series.shape == shape
        order = np.argsort(series.writer[of_shape], kind="stable")
        values, writers = series.value[of_shape][order], series.writer[of_shape][order]
        steps = np.diff(values)[np.diff(writers) == 0]
        rising, falling = int((steps >= 0).sum()), int((steps < 0).sum())
        distinct = np.unique(values).size
        if distinct >= 2 and rising >= rules.rising_share * (rising + falling):
            chosen[shape] = int(of_shape.sum())
        elif distinct == 1 and _SPEAKS_OF_WORK.search(log.shapes[shape].text):
            single[shape] = int(of_shape.sum())
    chosen = chosen or single
    if not chosen:
        return set(), None
    main = max(chosen, key=lambda shape: chosen[shape])
    top = int(series.value[series.shape == main].max())
    similar = {s for s in chosen if s == main or 0.5 * top <= int(series.value[series.shape == s].max()) <= 2 * top + 2}
    totals = [int(m[2]) for s in similar if (m := _TOTAL.search(log.shapes[s].text))]
    return similar, (totals[0] if totals and totals[0] >= top else None)


@dataclass(frozen=True, slots=True)
class _Meanings:
    """What the markers of each shape tell of stages, as a code per shape (-1: nothing)."""

    code_of_shape: Int64
    of_code: tuple[tuple[Meaning, ...], ...]


def _meanings(log: JobLog) -> _Meanings:
    codes: dict[tuple[Meaning, ...], int] = {}
    of_shape = np.full(len(log.shapes) + 1, -1, dtype=np.int64)
    for number, shape in enumerate(log.shapes):
        meanings = tuple(marker.means for marker in shape.markers if marker.means in _STAGE_OF)
        if meanings:
            of_shape[number] = codes.setdefault(meanings, len(codes))
    return _Meanings(of_shape, tuple(codes))


def _by_file(file_of: Int32, rows: Int64, files: int) -> list[Int64]:
    """The rows of each file, in reading order."""
    order = rows[np.argsort(file_of[rows], kind="stable")]
    bounds = np.searchsorted(file_of[order], np.arange(1, files))
    return list(np.split(order, bounds))


def _track(log: JobLog, own: Int64, rows: Int64, meanings: _Meanings) -> _FileTrack:
    """One file's track; runs of rows with the same meaning count as their first."""
    series = log.iterations
    line, value, time_ns = series.line[own], series.value[own], series.time_ns[own]
    lines = np.concatenate([log.rows.line[rows], line])
    times = np.concatenate([log.rows.time_ns[rows], time_ns])
    codes = np.concatenate([meanings.code_of_shape[log.rows.shape[rows]], np.full(line.size, -1, dtype=np.int64)])
    order = np.argsort(lines, kind="stable")
    changed = np.ones(order.size, dtype=np.bool_)
    changed[1:] = codes[order[1:]] != codes[order[:-1]]
    changes: list[tuple[int, int, Meaning | None]] = []
    for at in order[changed].tolist():
        said = meanings.of_code[int(codes[at])] if codes[at] >= 0 else (None,)
        changes += [(int(lines[at]), int(times[at]), means) for means in said]
    stage_line, stage_ns, stages = _stages(changes)
    return _FileTrack(
        line,
        value,
        time_ns,
        np.array(stage_line, dtype=np.int64),
        tuple(stages),
        np.array(stage_ns, dtype=np.int64),
    )


def _stages(changes: list[tuple[int, int, Meaning | None]]) -> tuple[list[int], list[int], list[Stage]]:
    """The points where the stage changes; an iteration line (None) means training unless a check is under way."""
    lines: list[int] = []
    times: list[int] = []
    stages: list[Stage] = []
    now: Stage = Stage.UNKNOWN
    following: Stage
    for line, when, means in changes:
        if means is None:
            following = Stage.EVAL if now is Stage.EVAL else Stage.TRAIN
        else:
            following = _STAGE_OF[means]
            if now not in NOT_YET_TRAINING and following in NOT_YET_TRAINING:
                continue
            if means in (Meaning.EVAL_DONE, Meaning.CHECKPOINT_DONE) and now in NOT_YET_TRAINING | {Stage.SHUTDOWN}:
                continue
        if following is not now:
            now = following
            lines.append(line)
            times.append(when)
            stages.append(now)
    return lines, times, stages


def _step_ns(tracks: list[_FileTrack]) -> int | None:
    """The median time of one iteration, where lines have times."""
    paces: list[float] = []
    for track in tracks:
        if track.value.size < 3 or not track.time_ns.any():
            continue
        steps, waits = np.diff(track.value), np.diff(track.time_ns)
        good = (steps > 0) & (waits > 0)
        if good.any():
            paces.append(float(np.median(waits[good] / steps[good])))
    return int(np.median(paces)) if paces else None
