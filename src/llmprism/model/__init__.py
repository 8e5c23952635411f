"""The nouns of the domain, frozen. Stages meet only through these types."""

from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.congestion import CongestionTable
from llmprism.model.facts import JobFacts, ModelSize, Synchronisation
from llmprism.model.finding import Alternative, Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.fitness import Answer, ClockOffset, Fitness, Question, Suitability
from llmprism.model.flows import FlowTable, InputCounts, TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.model.live import FindingPhase, LiveState, StepMark, TrackedFinding, TrackedRun
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import EventKind, Events, Steps, Timeline
from llmprism.model.topology import Nic, Server, Switch, Topology

__all__ = [
    "Alternative",
    "Answer",
    "ClockCandidate",
    "ClockOffset",
    "CongestionTable",
    "EventKind",
    "Events",
    "Evidence",
    "Finding",
    "FindingKind",
    "FindingPhase",
    "Fitness",
    "FlowTable",
    "Group",
    "InputCounts",
    "Job",
    "JobFacts",
    "JobLayout",
    "JobReport",
    "JobState",
    "Layout",
    "LiveState",
    "ModelSize",
    "Nic",
    "PairKind",
    "PairRoles",
    "Question",
    "Report",
    "Schedule",
    "Server",
    "Sharding",
    "StepClock",
    "StepMark",
    "Steps",
    "Suitability",
    "Switch",
    "SwitchLoad",
    "Synchronisation",
    "Timeline",
    "Topology",
    "TrackedFinding",
    "TrackedRun",
    "TransferTable",
    "Where",
    "WhereType",
    "Window",
]
