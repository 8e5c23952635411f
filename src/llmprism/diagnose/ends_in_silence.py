"""A job of which nobody is heard any more after its last message: ended, or stopped?

Who has lost a rank lives on for a while: it notices, it is killed, it announces its next message. Where all words end
with the last message of the training the job was ended, if that is where a step may be over: after whole steps by their
bytes, where all members stand together, or at a rest of all of them. Words that come at any time, from whoever watches
the servers, are not the job's: as many of them as ever are as good as none.

*Where bytes do not tell* where a member stands (they vary, or the collector loses records) the clock alone does: nobody
was due, and the last message ended as long after an end of a step as whole steps take. The clock may well have missed
the last of them, which no step follows.

*At a rest.* A rank that dies at any time stops all of them at a certain rest with the chance of its share of the step.
An end is there if the clock of the job has the wrong phase, and this is the one of its other rests at which steps are
over. The shorter the rest and the fewer there are, the likelier is an end; rests of which a step has several alike are
mostly those between layers or rounds of a ring, so an end is as many times less likely there.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.first_to_stop import heard_after
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["ends_in_silence"]


def ends_in_silence(
    state: LastState, overdue: Bool, period_ns: float, rules: FaultRules = RULES, *, whole_steps: bool = False
) -> bool:
    """Has nobody been heard since the last message, where a step of the job may be over, and does neither who spoke
    last nor who is overdue stand in the middle of a message? The next message of some may seem `overdue`: stages of a
    pipeline that have done their part gather for the next step while others still reduce, and do not after the last
    one. Where some are heard, though by chance, silence tells less, and nobody may be overdue. `whole_steps`: so many
    have passed, by time or bytes, since the clock saw one end."""
    if not state.silent_at_once(rules) and (bool(overdue.any()) or _noticed(state, rules)):
        return False
    if not state.exact:
        return whole_steps and not overdue.any()
    last_or_overdue = overdue | (state.sent_ns >= np.nanmax(state.sent_ns))
    if bool((last_or_overdue & (state.pause_ns < rules.endings.mid_message * period_ns)).any()):
        return False
    together = state.together and not state.begun_anew
    return state.after_whole_steps or together or _odds(state, overdue, period_ns, rules) <= 1.0


def _noticed(state: LastState, rules: FaultRules) -> bool:
    """Are more members heard after the last message than in any time as long, by more than one deviation?"""
    heard, usual = heard_after(state, rules), state.by_chance
    if state.talks or not np.isfinite(usual):
        return bool(heard.any())
    return bool(heard.mean() > usual + np.sqrt(usual * (1.0 - usual) / heard.size))


def _odds(state: LastState, overdue: Bool, period_ns: float, rules: FaultRules) -> float:
    """How many times as likely as an end it is that something stopped the job where all members rest in every step and
    nobody is missing; infinite elsewhere."""
    rule, share = rules.endings, state.rest_ns / period_ns
    if bool(overdue.any()) or not state.apart <= rule.level or share < rule.in_flow:
        return float("inf")
    return share * max(state.rests - 1.0, 1.0) * max(state.alike, 1.0) / rule.other_phase
