"""A job and its layout → its timeline: its steps, what every GPU did in them, and facts about the job.

    build_timeline                     calls the others
    steps, latest_ends                 steps of the job, and the end of each step on each member, with:
    first_step                         ends of the job's first steps, which the clock misses
    optimizer_end                      when the optimizer is done, of which nothing is sent
    member_begins                      when each member begins a step
    events                             what each member did and when: sends, receives, waits
    job_facts                          facts of the job, from:
    gradient_traffic, gradient_volume  bytes of gradients that each group synchronises in a step
    model_size                         parameters of the model that such a volume allows
    network_use                        exposed communication, pipeline bubble, bus bandwidth

`rules` has every constant. `published_timeline` is the method of the paper, for comparison (`--method paper`).
"""

from llmprism.timeline.build_timeline import reconstruct_timeline
from llmprism.timeline.published_timeline import timeline_paper

__all__ = ["reconstruct_timeline", "timeline_paper"]
