"""A job's transfers → its layout: degrees of parallelism, groups, pipelines, what each pair carries.

`identify_layout` is the list of passes; each takes what is known so far and returns more. By question, one file per
idea:

    when does a step end     clock_candidates, rival_clocks, clock_score, pause_code, part_sizes (which rhythm),
                             known_step, lost_records, bridged_clock (what a collector lost), compound_steps,
                             standing_out, slower_layout, outstanding, accumulation, half_ticks (several ticks are one
                             step),
                             step_ends, phase, gathers_ahead, sharded_stages, one_phase, heavy_end, turning_point,
                             quiet_end, kept_steps, optimizer_pause, job_begin, job_end, interruptions, byte_line,
                             agreed_ends (where in the cycle)
    what does a link carry   features, link_evidence, lead, dark_pairs (what is measured), rival_kinds, pair_kinds
                             (gradients or activations), chain_trees, closing_links, channels, shared_links,
                             last_messages, two_way_bursts, open_rings (both at once), roles
    who belongs together     structure (groups), stage_links, direction, gradient_order (pipelines), tensor_peers,
                             peer_signs, peer_sends, peer_starts (GPUs of a server)
    what else is exchanged   meshes, routed_pairs, uneven_messages (experts), exchanges, in_step, in_passes, pass_times,
                             leading_exchanges, pass_exchanges, contexts_among_tokens, context_lanes, superposed_rings
                             (contexts, tensors across servers), unknown_collectives
    does the whole fit       rank_mesh, composition (which layout explains the bytes of all pairs), composed,
                             composed_start (where that is better, and the passes anew from there),
                             collectives_instead (without pipelines that explain nothing), partial_layout (what is
                             known so far), stated_layout (what it says in the end)
    how is it trained        sharding, sharded_job, hybrid (where parameters lie), batches, micro_batches,
                             counted_messages, likely_messages, schedule_fit, schedules (pipelines)
    how sure is all this     judged_layout, layout_evidence, other_readings, left_over, fitted_confidence,
                             step_confidence
    rows of some pairs       pair_ends, row_silences, rows_in_steps, link_rests, byte_time

`carried_layout` uses the layout of the window before in the live service. `rules/` has every constant.
`published_layout` is the method of the paper, for comparison (`--method paper`).
"""

from llmprism.parallelism.identify_layout import identify_layout
from llmprism.parallelism.published_layout import layout_paper

__all__ = ["identify_layout", "layout_paper"]
