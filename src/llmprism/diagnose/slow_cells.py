"""One job's slow messages: which pairs were slow in which steps, and the places that each pair passes.

A cell is one pair in one step. It is *sick* when its local rate lies far below what pairs of its kind, or it itself at
other times, reach; *healthy* when it does not, and its messages are large enough for slowness to show; else it *cannot
tell*. This is all that the search over all jobs (`slow_transfer`) needs to know of a job: it holds no messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.backlog import changed_cells
from llmprism.diagnose.bystanders import Bystander, bystander_of
from llmprism.diagnose.byte_curves import hold_the_training
from llmprism.diagnose.computing import NOBODY, Computing, computing
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.larger_quanta import odds_at_larger_quanta
from llmprism.diagnose.link_use import LinkUse, links_of
from llmprism.diagnose.own_past import OwnPast, against_own_past
from llmprism.diagnose.passes import Passes, Place, passes_of, switches_passed
from llmprism.diagnose.queued import queued_cells
from llmprism.diagnose.rates import typical_size
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.sent_again import resent_cells
from llmprism.diagnose.slow_parts import rates_of_slow_parts
from llmprism.diagnose.throughout import beyond_jitter_times
from llmprism.model.timeline import Steps
from llmprism.stats.robust import known_median, mad
from llmprism.stats.stretches import stretches_of

__all__ = ["JudgedCells", "SlowCells", "judge_transfers"]


@dataclass(frozen=True, slots=True)
class JudgedCells:
    """Pairs x steps that are sick by another sign than their rate, those in which that could have been seen, how bad
    they are, how many cells each one counts for, the places that these pairs pass, the `odds` of each cell by its
    pair's own past, where these are known, and who may have computed longer then."""

    sick: Bool
    known: Bool
    measure: Float64
    weight: Float64
    passes: Passes
    odds: Float64 | None = None
    computing: Computing = NOBODY


@dataclass(frozen=True, slots=True)
class SlowCells:
    """Sick cells of one job: pairs x steps, and where some are, the places that its pairs pass and its slow links.

    `weight` is how many cells each one counts for: as many as usual steps fit into its own, and no more than the
    messages in it, because a single message that was held up once is a single observation. `shows` is how likely a cell
    of each pair is sick when a place on its way is: less so for messages that are small compared with the slow ones,
    because a throttled line lets pass at once what it saved while idle. `trust` is the confidence of the layout: that
    pairs of the same kind do the same; `clock` that of where steps end. `resent` are the cells in which bytes were sent
    again (`sent_again`, bytes over the pair's usual ones), `queued` those that are held back behind the exporter
    (`queued`, share of what the step takes longer), `changed` those whose rate changed because something lags behind
    (`backlog`), `broken` those that are slow by larger quanta (`larger_quanta`), where some are. `odds` are the
    logarithms of the odds that something on the pair's way is slow, by its own past (`own_past`); NaN where they are
    not known. `computing` says who may have computed longer while cells are sick, `bystander` is what the job says for
    the places that it passes while it is healthy.
    """

    job: str
    steps: Steps
    duration_ns: Float64
    counted: Bool
    normal_ns: float
    gpus: int
    rate: Float64
    sick: Bool
    known: Bool
    weight: Float64
    expected: Float64
    shows: Float64
    passes: Passes
    links: dict[Place, LinkUse] = field(default_factory=dict)
    trust: float = 1.0
    clock: float = 1.0
    odds: Float64 | None = None
    computing: Computing = NOBODY
    resent: JudgedCells | None = None
    queued: JudgedCells | None = None
    changed: JudgedCells | None = None
    broken: JudgedCells | None = None
    bystander: Bystander | None = None

    @property
    def any_sick(self) -> bool:
        """Is there anything for a place to explain, slow, sent again, held back, lagging behind or broken up?"""
        signs = (self.resent, self.queued, self.changed, self.broken)
        return bool(self.sick.any()) or any(sign is not None for sign in signs)

    def lossy(self, rules: FaultRules = RULES) -> SlowCells | None:
        """The cells in which bytes were sent again, as sick ones; their `rate` is bytes over the usual ones."""
        return None if self.resent is None else self._by(self.resent, self.resent.measure, rules)

    def held_back(self, rules: FaultRules = RULES) -> SlowCells | None:
        """The cells in which pieces are held back, as sick ones; the less, the higher is their `rate`. They are
        compared with their own past, so the layout does not matter."""
        if self.queued is None:
            return None
        cells = self._by(self.queued, 1.0 - self.queued.measure, rules)
        return replace(cells, trust=rules.trust.most_sure)

    def lagging(self, rules: FaultRules = RULES) -> SlowCells | None:
        """The cells whose rate changed, as sick ones; their `rate` is a share of the usual one. They are compared with
        their own past, too."""
        if self.changed is None:
            return None
        cells = self._by(self.changed, self.changed.measure, rules)
        return replace(cells, trust=rules.trust.most_sure)

    def broken_up(self, rules: FaultRules = RULES) -> SlowCells | None:
        """The cells whose messages are broken up, as sick ones; their `rate` is a share of the usual one, with which
        they are compared."""
        if self.broken is None:
            return None
        return replace(self._by(self.broken, self.broken.measure, rules), trust=rules.trust.most_sure)

    def by_both_signs(self, rules: FaultRules = RULES) -> SlowCells | None:
        """The cells that are slow or held back as sick ones; None where not both are seen. What a card sends slowly is
        recorded slowly and what it receives slowly waits behind the record, so either sign may show half of a card
        that is slow both ways. A pair that is held back moves its bytes in as many times as long as its step takes."""
        if self.queued is None or not self.sick.any():
            return None
        either = replace(self.queued, sick=self.queued.sick | self.sick, known=self.queued.known | self.sick)
        pace = self.expected[:, None] * self.normal_ns / np.maximum(self.duration_ns, 1.0)
        cells = self._by(either, np.where(self.queued.sick & ~self.sick, pace, self.rate), rules)
        return replace(cells, expected=self.expected)

    def _by(self, cells: JudgedCells, rate: Float64, rules: FaultRules) -> SlowCells:
        """The same job with other cells as its sick ones."""
        pairs = self.sick.shape[0]
        return replace(
            self,
            rate=rate,
            sick=cells.sick,
            known=cells.known,
            weight=cells.weight,
            expected=np.ones(pairs),
            shows=np.full(pairs, rules.places.sick_while),
            passes=cells.passes,
            links={},
            odds=cells.odds,
            computing=cells.computing,
            resent=None,
            queued=None,
            changed=None,
            broken=None,
        )

    def worth_keeping(self) -> SlowCells | None:
        """Itself where anything is sick; else only how healthy the job was, without its cells, if that is known."""
        if self.any_sick or self.bystander is None:
            return self if self.any_sick else None
        few = np.zeros((0, self.sick.shape[1]), dtype=np.bool_)
        none, pairs = few.astype(np.float64), np.zeros(0)
        return replace(
            self, rate=none, sick=few, known=few, weight=none, expected=pairs, shows=pairs, odds=None, links={}
        )

    def through(self, place: Place) -> Bool:
        """The pairs that pass a place."""
        through = np.zeros(self.sick.shape[0], dtype=np.bool_)
        through[self.passes.through(place)] = True
        return through


def judge_transfers(evidence: JobEvidence, rules: FaultRules = RULES) -> SlowCells:
    """The cells of one job, judged by the rates of its own pairs of the same kind."""
    rate = np.where(evidence.counted[None, :], rates_of_slow_parts(evidence, rules), np.nan)
    known = np.isfinite(rate) & (rate > 0)
    expected = np.full(rate.shape[0], np.nan)
    sick = np.zeros(rate.shape, dtype=np.bool_)
    hops = switches_passed(evidence.job.transfers)
    for kind in np.unique(evidence.pair_kind):
        rows = np.flatnonzero((evidence.pair_kind == kind) & known.any(axis=1))
        if rows.size < 2:
            continue
        own = known_median(rate[rows], axis=1)
        for length in np.unique(hops[rows]):
            alike = hops[rows] == length
            expected[rows[alike]] = np.maximum(own[alike], _reached_by_peers(own[alike], rules))
        logs = np.log(np.where(known[rows], rate[rows], 1.0)) - np.log(expected[rows])[:, None]
        spread = 1.4826 * np.median(np.abs(logs[known[rows]] - np.median(logs[known[rows]])))
        drop = np.where(known[rows], -logs, 0.0)
        sick[rows] = drop > max(rules.places.drop, rules.places.spreads * spread)
    for kind in np.unique(evidence.pair_kind[sick.any(axis=1) & ~evidence.timed]):
        rows = np.flatnonzero((evidence.pair_kind == kind) & ~evidence.timed)
        sick[rows] = _lasting(sick[rows], known[rows], rules)
    known &= sick | evidence.timed[:, None]
    known &= sick | ~_lags(evidence, sick, rules)
    past = against_own_past(rate, usual_steps(evidence, rules), evidence.group_of_pair, rules)
    odds = _where_it_tells(evidence, past, sick, expected, rules)
    own = np.isfinite(odds)
    sick = np.where(own, odds >= rules.places.past_sick, sick)
    known = np.where(own, sick | (odds <= -rules.places.past_well), known)
    weight = _weight(evidence, known, rules, _slow_at_once(evidence, sick, rules))
    trains = hold_the_training(evidence.job, evidence.timeline.steps, rules)
    if not (trains and _some_last(sick, known, weight, rules)):
        sick[:] = False
    passes = passes_of(evidence, np.flatnonzero(known.any(axis=1)), rules) if sick.any() else Passes.none()
    return SlowCells(
        job=evidence.job.id,
        steps=evidence.timeline.steps,
        duration_ns=evidence.duration_ns,
        counted=evidence.counted,
        normal_ns=evidence.normal_ns,
        gpus=len(evidence.job.members),
        rate=rate,
        sick=sick,
        known=known,
        weight=weight,
        expected=expected,
        shows=_shows(evidence, sick, rules),
        passes=passes,
        links=links_of(evidence, sick, known, passes, rules),
        trust=evidence.layout.peers_confidence,
        clock=evidence.layout.steps_confidence,
        odds=odds,
        computing=computing(evidence, sick, rules),
        resent=_resent(evidence, rules),
        queued=_suspicious(evidence, queued_cells(evidence, rules), rules),
        changed=_suspicious(evidence, changed_cells(evidence, rules), rules),
        broken=_at_larger_quanta(evidence, past, rules),
        bystander=bystander_of(evidence, known & ~sick, rules),
    )


def _where_it_tells(evidence: JobEvidence, past: OwnPast, sick: Bool, expected: Float64, rules: FaultRules) -> Float64:
    """The odds by the pair's own past, NaN where they tell nothing: of pairs that were always slower than their peers,
    and of messages that are too small to be timed. These speak for a place unless many of them are slow now and then;
    where they are small beside the slow ones, in a row only, and for themselves unless a row of others is slow: a
    throttle either lets small messages pass at once or it does not."""
    always = np.log(np.where(expected > 0.0, expected, 1.0)) - past.usual > rules.places.drop
    odds: Float64 = np.where(always[:, None], np.nan, past.odds)
    slow, known = odds >= rules.places.past_sick, np.isfinite(odds)
    untimed = ~evidence.timed
    rows = _in_a_row(slow, known, rules)
    if _often_single(slow[untimed], rows[untimed], known[untimed], rules):
        odds[untimed[:, None] & slow], rows[untimed] = np.nan, False
    small = untimed & (_shows(evidence, sick, rules) < rules.places.sick_while)
    odds[small[:, None] & slow & ~rows] = np.nan
    if not (slow & rows)[small].any():
        odds[small] = np.nan
    return odds


def _at_larger_quanta(evidence: JobEvidence, past: OwnPast, rules: FaultRules) -> JudgedCells | None:
    """The cells by the rates of larger quanta; None where these tell nothing."""
    at = odds_at_larger_quanta(evidence, past, rules)
    if at is None:
        return None
    sick = at.odds >= rules.places.past_sick
    known = sick | (at.odds <= -rules.places.past_well)
    cells = _suspicious(evidence, (sick, known, np.exp(at.change)), rules)
    return None if cells is None else replace(cells, odds=at.odds)


def _resent(evidence: JobEvidence, rules: FaultRules) -> JudgedCells | None:
    """The cells in which bytes were sent again; None where none were for long enough."""
    sick, known, ratio = resent_cells(evidence, rules)
    return _judged(evidence, sick, known, ratio, known.astype(np.float64), rules)


def _suspicious(
    evidence: JobEvidence, cells: tuple[Bool, Bool, Float64] | None, rules: FaultRules
) -> JudgedCells | None:
    """Cells with a sign of something slow, and who else may explain it; None where none have it for long enough."""
    if cells is None:
        return None
    sick, known, share = cells
    found = _judged(evidence, sick, known, share, _weight(evidence, known, rules), rules)
    return None if found is None else replace(found, computing=computing(evidence, sick, rules))


def _lags(evidence: JobEvidence, sick: Bool, rules: FaultRules) -> Bool:
    """The cells that rather lag behind than show that nothing is slow: their rate rose (`backlog`), and that of no pair
    of their kind fell, for which they might have waited."""
    lags = np.zeros_like(sick)
    cells = changed_cells(evidence, rules) if sick.any() else None
    if cells is None:
        return lags
    changed, _, times = cells
    for kind in np.unique(evidence.pair_kind):
        rows = np.flatnonzero(evidence.pair_kind == kind)
        lags[rows] = changed[rows] & (times[rows] > 1.0) & ~sick[rows].any(axis=0)
    return lags


def _judged(
    evidence: JobEvidence, sick: Bool, known: Bool, measure: Float64, weight: Float64, rules: FaultRules
) -> JudgedCells | None:
    if not _some_last(sick, known, weight, rules):
        return None
    passes = passes_of(evidence, np.flatnonzero(known.any(axis=1)), rules)
    return JudgedCells(sick, known, measure, weight, passes)


def _lasting(sick: Bool, known: Bool, rules: FaultRules) -> Bool:
    """Sick cells of pairs with small messages that have others next to them: single slow ones say nothing, and fast
    ones neither. Where many are single, those in a row are so by chance too."""
    lasting = _in_a_row(sick, known, rules)
    return np.zeros_like(sick) if _often_single(sick, lasting, known, rules) else lasting


def _in_a_row(sick: Bool, known: Bool, rules: FaultRules) -> Bool:
    """Sick cells that have enough others next to them."""
    rows = np.zeros_like(sick)
    for row in np.flatnonzero(sick.any(axis=1)).tolist():
        for first, after in stretches_of(sick[row] | ~known[row], bridge=0):
            if sick[row, first:after].sum() >= rules.places.in_a_row:
                rows[row, first:after] = sick[row, first:after]
    return rows


def _often_single(sick: Bool, rows: Bool, known: Bool, rules: FaultRules) -> bool:
    """Are so many cells sick outside of the `rows` that those in a row may be so by chance?"""
    return int((sick & ~rows).sum()) > rules.places.single_cells * int(known.sum())


def _shows(evidence: JobEvidence, sick: Bool, rules: FaultRules) -> Float64:
    """See `SlowCells`."""
    rule, size = rules.places, typical_size(evidence.job.transfers).astype(np.float64)
    slow = size[sick.any(axis=1)]
    small = size < rule.small_share * (float(slow.max()) if slow.size else 0.0)
    return np.where(small, rule.small_sick_while, rule.sick_while)


def _reached_by_peers(rates: Float64, rules: FaultRules) -> float:
    """What pairs of one sort reach; 0 where they are few or differ too much to expect the same of all."""
    if rates.size < rules.places.peers or mad(np.log(rates)) > rules.places.peers_spread:
        return 0.0
    return float(np.median(rates))


def _slow_at_once(evidence: JobEvidence, sick: Bool, rules: FaultRules) -> Bool:
    """The steps in which anything is sick, where these are one stretch, and the longest steps of the job, as a rule by
    far more than its steps vary: that slow hops and slow steps come together, and at no other time, is no chance."""
    steps: Bool = np.asarray(sick.any(axis=0))
    others = evidence.counted & ~steps
    if len(stretches_of(steps, bridge=0)) != 1 or not others.any():
        return np.zeros_like(steps)
    taken, clear = evidence.duration_ns[steps], evidence.normal_ns * (1.0 + beyond_jitter_times(evidence, rules))
    longest = bool(taken.min() > evidence.duration_ns[others].max()) and float(np.median(taken)) > clear
    return steps if longest else np.zeros_like(steps)


def _weight(evidence: JobEvidence, known: Bool, rules: FaultRules, at_once: Bool | None = None) -> Float64:
    """See `SlowCells`; 0 where nothing is known. Steps that are slow `at_once` count for two at least."""
    length = np.clip(evidence.duration_ns / max(evidence.normal_ns, 1.0), 1.0, rules.places.most_weight)
    length = length if at_once is None else np.maximum(length, np.where(at_once, 2.0, 1.0))
    if (length < 2.0).all():
        return known.astype(np.float64)
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    step = steps.at(transfers.start_ns)
    cell = transfers.pair_of_row[step >= 0].astype(np.int64) * steps.count + step[step >= 0]
    messages = np.bincount(cell, minlength=known.size).reshape(known.shape)
    return np.where(known, np.clip(np.floor(length)[None, :], 1.0, np.maximum(messages, 1.0)), 0.0)


def _some_last(sick: Bool, known: Bool, weight: Float64, rules: FaultRules) -> bool:
    """Is any pair sick for enough steps in a row?"""
    return any(
        float(np.where(sick[row], weight[row], 0.0)[first:after].sum()) >= rules.places.sick_steps
        for row in np.flatnonzero(sick.any(axis=1)).tolist()
        for first, after in stretches_of(sick[row] | ~known[row], bridge=1)
    )
