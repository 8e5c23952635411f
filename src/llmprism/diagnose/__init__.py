"""Timelines → findings: what is wrong, where, since when, and what it costs. One file per detector.

    evidence, rates, waiting, own_pauses, rhythm, unseen_steps
                                                  measured once per job: who was late, how fast messages moved
    slow_transfer, slow_storage                   places that several jobs use: NICs, links, switches, storage
        from slow_cells, slow_parts, link_use, passes, tally, sick_times, sent_again, queued, backlog,
        own_past, larger_quanta, rate_changes (what is slow, when), bystanders, accused_place, place_signs, computing
        (which place explains it, how likely, against whom), slow_place_merge, slow_place_words (one finding per cause,
        in words)
    detectors                                     the list of detectors that look at one job:
        slow_stage (with stage_signs), late_member (with stalls, holding, bouts, transport),
        stopped (with ending, endings, first_to_stop, who_stopped, whether_stopped, missing_order, noticed,
        dead_or_hung, ends_in_silence, last_state, stand_together, usual_rest, byte_curves, heartbeats, fallen_silent,
        probes, restarts),
        standstill (with silences), imbalance,
        blamed_member (with blame, blamed_card, own_gaps), unexplained (with throughout)
    trust, chance                                 what a finding must show before it is reported
    what_if, cost                                 what a fault costs
    find_faults                                   all of the above in their order
    switch_loads, congestion_signs                what switches carry, and what packets say of congestion

A detector is a file that makes a `Detector` and a line in `detectors`: docs/how-to/extend.md. `rules/` has every
constant. `published_faults` (with `published_switch_rules`) is the method of the paper, for comparison
(`--method paper`).
"""

from llmprism.diagnose.congestion_signs import congestion_note, with_congestion_signs
from llmprism.diagnose.published_faults import diagnose_paper
from llmprism.diagnose.stopped import job_state
from llmprism.diagnose.switch_loads import PathLoads, path_loads, switch_loads

__all__ = [
    "PathLoads",
    "congestion_note",
    "diagnose_paper",
    "job_state",
    "path_loads",
    "switch_loads",
    "with_congestion_signs",
]
