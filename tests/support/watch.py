"""The tracker fed with made-up windows."""

from llmprism.service.codec import decode_state, encode_state
from llmprism.service.looks import Look
from llmprism.service.rules import RULES
from llmprism.service.tracker import TrackerState, track
from llmprism.service.windows import WindowPlan


class Watch:
    """Feeds windows of 60 s every 4 s and remembers everything that was told."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.state = TrackerState()
        self.transitions, self.opened, self.closed, self.steps = [], [], [], []

    def window(self, end, jobs, findings=(), longer=()):
        looks = [Look(self.cluster.report(end - 60, end, jobs, findings), RULES.windows.length), *longer]
        state, changes = track(self.state, looks, RULES)
        again, _ = track(decode_state(encode_state(self.state, WindowPlan()))[0], looks, RULES)
        assert again == state, "a state that was saved and read goes on alike"
        self.state = state
        self.transitions += [(move.run, move.new) for move in changes.transitions]
        self.opened += changes.opened
        self.closed += changes.closed
        self.steps += changes.steps
        return changes

    def run(self, name="job-a"):
        return next(run for run in self.state.runs if run.id == name)

    def tracked(self):
        (tracked,) = self.state.findings
        return tracked
