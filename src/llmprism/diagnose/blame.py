"""Who was waited for in slower steps, by all signs together.

A slow GPU shows in several ways, and which of them depends on the job. Where gradients are synchronised once in a step
it is *late* at it. Its *own silences* (`own_gaps`) grow. It *holds* what others wait for (`holding`). In a pipeline its
*work* on a micro-batch exceeds that of the same stage of other replicas (`waiting`). Each of these signs alone also
points at others: those that wait together are late together, and one that cannot get rid of its message is silent and
holds (so it holds no more than its own silences grew by: those of one that is kept do not).

So they are added up. Each sign is what it grew by from the usual to the slower steps, in shares of what these take
longer, and how far that is beyond what it varies by in usual steps. The log odds of a member are a weighted sum; the
shares of all members add up to one (one of them was waited for). Whether a GPU was waited for at all, and not a card, a
link or the whole job, is asked after that: of the share of the one most blamed, of how much of the time it explains,
and of what speaks for the network: rates that fell, and silences that became many.

Weights are fitted to slowdowns whose truth is known (`rules.BlameRules`). The peers of a tensor-parallel group wait for
each other inside their server, where no record is made: they count as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.holding import held_ns
from llmprism.diagnose.own_gaps import OwnGaps, grown_by, own_gaps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.waiting import beyond_others, stage_work_ns
from llmprism.model.finding import Alternative, FindingKind, Where, WhereType
from llmprism.model.layout import PairKind
from llmprism.stats.logistic import logistic
from llmprism.stats.robust import known_mad, known_median

__all__ = [
    "Signs",
    "WaitedFor",
    "blame",
    "fallen",
    "falls",
    "much_slower",
    "runner_up",
    "shares_of",
    "signs_of",
    "tensor_peers",
    "terms_of",
]


@dataclass(frozen=True, slots=True)
class Signs:
    """Of each member, by rows of the job's members, from the usual to the slower steps.

    `late` and `silent` are what its lateness and its own silences grew by, in shares of what the slower steps take
    longer; `late_clear`, `silent_clear`, `handed_clear` and `held_clear` how far these (silences by whether a
    collective's or a pipeline's message ends them, and what it holds) are beyond chance, as logarithms; `work` by what
    share (a logarithm, too) its work exceeds that of its peers by more than usual. 0 where a sign is not seen.
    """

    late: Float64
    silent: Float64
    late_clear: Float64
    silent_clear: Float64
    handed_clear: Float64
    held_clear: Float64
    work: Float64
    silences: OwnGaps


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """The member (row) that is most to blame, its share of the blame with its tensor-parallel peers, the runner-up
    (-1: none) and its share, how much later or longer silent the first is in each slower step, and how likely it is
    that its GPU is slow."""

    row: int
    share: float
    rival: int
    rival_share: float
    grown_ns: float
    confidence: float


def blame(
    evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules = RULES, *, found: int | None = None
) -> WaitedFor | None:
    """Who was waited for in the `slower` steps; None where too few of both were seen to compare. `found` is the member
    that is late in them, by some sign, in more than chance would do."""
    rule = rules.blame
    slower, longer = much_slower(evidence, slower, rules)
    if usual.sum() < rules.members.late_steps or longer <= 0.0:
        return None
    signs = signs_of(evidence, slower, usual, longer, rules)
    shares = shares_of(signs, rules, found=found)
    row = int(np.argmax(shares))
    peers = tensor_peers(evidence, row)
    share = float(shares[peers].sum())
    others = np.where(peers, -1.0, shares)
    rival = int(np.argmax(others))
    terms = terms_of(evidence, signs, row, share, slower, usual, rules)
    silences, late = (rule.fit_silences, 0.0) if found is None else (0.0, rule.fit_found)
    odds = rule.fit_constant + late + terms @ np.array([rule.fit_lead, rule.fit_explains, rule.fit_fallen, silences])
    return WaitedFor(
        row, share, rival if others[rival] > 0.0 else -1, max(float(others[rival]), 0.0),
        max(float(signs.late[row]), float(signs.silent[row])) * longer, round(logistic(float(odds)), 3),
    )  # fmt: skip


def much_slower(evidence: JobEvidence, slower: Bool, rules: FaultRules) -> tuple[Bool, float]:
    """Those of the slower steps that are not only a little longer than usual beside the others, and what they take
    longer as a rule: steps that vary by themselves say nothing about who was waited for in the long ones."""
    longer = evidence.duration_ns - evidence.normal_ns
    if not slower.any():
        return slower, 0.0
    much: Bool = slower & (longer >= rules.blame.much_slower * longer[slower].mean())
    return much, float(longer[much].mean())


def terms_of(
    evidence: JobEvidence, signs: Signs, row: int, share: float, slower: Bool, usual: Bool, rules: FaultRules = RULES
) -> Float64:
    """What speaks for a slow GPU, and against it: the log odds of the share of the blame, how much of the time the
    member explains, by how much rates fell, and how many more silences it has."""
    rule = rules.blame
    explains = float(np.clip(max(signs.late[row], signs.silent[row]), 0.0, rule.most_explained))
    times = signs.silences.times_as_many(row, slower, usual, rules.members.gap_most, rule.most_steps)
    fell, more = (min(value, rule.most_fallen) for value in (fallen(evidence, slower, usual), max(log(times), 0.0)))
    return np.array([log(share / (1.0 - share + rule.doubt)), explains, fell, more])


def runner_up(evidence: JobEvidence, waited_for: WaitedFor) -> tuple[Alternative, ...]:
    """The second most blamed as an alternative, with its share of the doubt that is left."""
    if waited_for.rival < 0:
        return ()
    name = evidence.job.transfers.addresses[evidence.job.members[waited_for.rival]]
    doubt = min(waited_for.rival_share, 1.0 - waited_for.confidence, waited_for.confidence)
    return (Alternative(FindingKind.SLOW_GPU, Where(WhereType.GPU, name), round(doubt, 3)),)


def shares_of(signs: Signs, rules: FaultRules = RULES, *, found: int | None = None) -> Float64:
    """How likely each member is the one that was waited for, given that one was."""
    rule = rules.blame
    odds = (
        rule.late_clear * signs.late_clear
        + rule.silent_clear * signs.silent_clear
        + rule.handed_clear * signs.handed_clear
        + rule.held_clear * signs.held_clear
        + rule.work * signs.work
    )
    if found is not None:
        odds[found] += rule.found
    weight = np.exp(odds - odds.max())
    return np.asarray(weight / weight.sum())


def signs_of(evidence: JobEvidence, slower: Bool, usual: Bool, longer_ns: float, rules: FaultRules = RULES) -> Signs:
    """See `Signs`; the slower steps take `longer_ns` more as a rule."""
    gaps = own_gaps(evidence, rules)
    silent, handed = (gaps.of_members(len(evidence.job.members), evidence.steps, piped=one) for one in (False, True))
    many = len(evidence.job.members) > rules.blame.most_members
    held = np.full(silent.shape, np.nan) if many else held_ns(evidence.job, evidence.timeline.steps, usual, rules)
    late = _grown(evidence.lateness_ns, slower, usual)
    clear = {
        name: _clear(grown / longer_ns, _jitter(values, usual) / longer_ns, int(slower.sum()), rules)
        for name, values, grown in (
            ("late", evidence.lateness_ns, late),
            ("silent", silent, grown_by(silent, slower, usual)),
            ("handed", handed, grown_by(handed, slower, usual)),
            (
                "held",
                held,
                np.minimum(_grown(held, slower, usual), grown_by(silent + handed, slower, usual)),
            ),
        )
    }
    work = stage_work_ns(evidence)
    beyond = _grown(beyond_others(evidence, work), slower, usual)
    share = beyond / np.maximum(np.nan_to_num(known_median(work[:, usual], axis=1)), 1.0)
    return Signs(
        late=late / longer_ns,
        silent=grown_by(silent + handed, slower, usual) / longer_ns,
        late_clear=clear["late"],
        silent_clear=clear["silent"],
        handed_clear=clear["handed"],
        held_clear=clear["held"],
        work=np.log1p(np.clip(share, 0.0, rules.blame.most_work)),
        silences=gaps,
    )


def _grown(values: Float64, slower: Bool, usual: Bool) -> Float64:
    """From the median of the usual steps to that of the slower ones; 0 where either is not known."""
    return np.nan_to_num(known_median(values[:, slower], axis=1) - known_median(values[:, usual], axis=1))


def _jitter(values: Float64, usual: Bool) -> float:
    """What a member's value varies by in usual steps, as a rule over all members; NaN where nothing is known."""
    return float(known_median(known_mad(values[:, usual])))


def _clear(grown: Float64, jitter: float, steps: int, rules: FaultRules) -> Float64:
    """Logarithm of how many times the jitter of a median of so many steps it grew; jitter is no less than what a record
    tells."""
    rule = rules.blame
    least = max((jitter if np.isfinite(jitter) else 1.0) / steps**0.5, rule.least_jitter)
    return np.asarray(np.log1p(np.clip(grown / least, 0.0, rule.most_clear)))


def tensor_peers(evidence: JobEvidence, row: int) -> Bool:
    """The member and those of its tensor-parallel group: of its stage and server, or of those servers that exchange
    tensor-parallel sums with it, in the order of their GPUs."""
    job, width = evidence.job, evidence.layout.layout.tp or 1
    alone: Bool = np.arange(len(job.members)) == row
    if width < 2 or not job.places or not job.places[row]:
        return alone
    across = np.flatnonzero(evidence.pair_kind == PairKind.TP)
    ends = np.searchsorted(np.array(job.members), [job.transfers.pair_src[across], job.transfers.pair_dst[across]])
    pairs = ({job.places[end] for end in pair} for pair in ends.T.tolist())
    servers = {job.places[row]}.union(*(places for places in pairs if job.places[row] in places))
    stage, slots = evidence.layout.stage_of(), job.slots or (-1,) * len(job.members)
    near = [
        other
        for other, place in enumerate(job.places)
        if place in servers and stage.get(job.members[other]) == stage.get(job.members[row])
    ]
    near.sort(key=lambda other: (job.places[other], slots[other], other))
    first = near.index(row) // width * width
    return np.isin(np.arange(len(job.members)), near[first : first + width])


def fallen(evidence: JobEvidence, slower: Bool, usual: Bool) -> float:
    """By how much (a logarithm) the rate of any pair fell from the usual to the slower steps, at most."""
    return float(np.nanmax(falls(evidence, slower, usual), initial=0.0))


def falls(evidence: JobEvidence, slower: Bool, usual: Bool) -> Float64:
    """By how much (a logarithm) the rate of each pair fell from the usual to the slower steps; NaN where that is not
    known."""
    before, now = (known_median(evidence.rate[:, steps], axis=1) for steps in (usual, slower))
    known = np.isfinite(before) & np.isfinite(now) & (before > 0.0) & (now > 0.0)
    return np.where(known, np.log(np.where(known, before, 1.0) / np.where(known, now, 1.0)), np.nan)
