"""Reports as they are once logs were read with the flows."""

from __future__ import annotations

from dataclasses import replace

from llmprism.model.log import Cause, CauseClass, LogInput, Outcome, Stage, Symptom
from llmprism.model.report import Report
from llmprism.model.verdict import (
    Contradiction,
    HostClock,
    LogJob,
    LogQuote,
    LogReading,
    NamedSuspect,
    Owner,
    Seat,
    Source,
    Verdict,
)
from support.reports import tiny_report

CAUSE = Cause(CauseClass.USER_RESOURCE, "gpu.oom", 0.9, "out of GPU memory", "Lower the batch.")


def read_report(text: str = "CUDA out of memory", name: str = "logs") -> Report:
    """A report with one finding per verdict, all of them with everything that logs can add."""
    report = tiny_report(name)
    address = report.addresses[0]
    verdict = Verdict(
        Source.BOTH,
        CAUSE,
        Owner.JOB_OWNER,
        5,
        name,
        812,
        0,
        (NamedSuspect(address, 5, name, 0.9, text), NamedSuspect(None, 1, None, 0.2, "weak")),
        (Contradiction("kind", "a rank died", text, Source.LOGS, "nobody complains"),),
        (0,),
        report.findings[0],
    )
    job = LogJob(
        name=name,
        job=report.jobs[0].job.id,
        confidence=0.98,
        why="the same addresses",
        input=LogInput(2, 100, 8, 1, dropped=(("empty file", 1),)),
        outcome=Outcome.FAILED,
        symptom=Symptom.CRASH,
        stage=Stage.TRAIN,
        iteration=812,
        cause=CAUSE,
        iteration_shift=-1,
        seats=(Seat(5, name, address, 0.97, "its log prints this address as its own"),),
        unmatched=("10.9.9.9",),
        clocks=(HostClock(name, 5_000_000_000, 100_000_000, 40),),
        notes=("a note",),
    )
    quote = LogQuote(f"{name}.log", 17, text, 3, "root", "gpu.oom", 0, 5, address, report.window.start_ns + 5)
    reading = LogReading((job,), tuple(verdict for _ in report.findings), (quote,), ())
    return replace(report, reading=reading)
