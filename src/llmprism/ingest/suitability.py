"""Are flow records of these properties good enough for each question, and what is to be changed? Limits: `rules.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llmprism.ingest.rules import RULES, IngestRules
from llmprism.model.fitness import Answer, Fitness, PacketFitness, Question, Suitability

__all__ = ["answers"]


def answers(fitness: Fitness, rules: IngestRules = RULES) -> Fitness:
    """The same fitness with its answers."""
    parallelism, steps = _parallelism(fitness, rules), _steps(fitness, rules)
    jobs, faults = _jobs(fitness, steps, rules), _faults(fitness, steps, rules)
    return replace(fitness, answers=(jobs, parallelism, steps, faults))


def _jobs(fitness: Fitness, steps: Answer, rules: IngestRules) -> Answer:
    seconds = fitness.window.seconds
    if seconds < rules.fitness.least_window_s:
        return Answer(
            Question.JOBS,
            Suitability.PARTLY,
            f"the records span only {seconds:.1f} s: who talks to whom shows, what keeps step with what does not",
            f"give at least {rules.fitness.good_window_s:.0f} s",
        )
    if fitness.unknown_share is not None and fitness.unknown_share > rules.fitness.much_unknown:
        return Answer(
            Question.JOBS,
            Suitability.PARTLY,
            f"{fitness.unknown_share:.0%} of the bytes touch addresses that the topology lacks",
            "bring the topology up to date: llmprism topology check",
        )
    if fitness.unknown_share is None and steps.verdict is Suitability.NO:
        return Answer(
            Question.JOBS,
            Suitability.PARTLY,
            f"{fitness.pairs} pairs over {seconds:.0f} s show who talks to whom; without steps only a topology tells "
            "which of them are rails of one job",
            "give a topology",
        )
    return Answer(Question.JOBS, Suitability.YES, f"{fitness.pairs} pairs over {seconds:.0f} s")


def _parallelism(fitness: Fitness, rules: IngestRules) -> Answer:
    if fitness.folded_share > rules.fitness.mostly_folded:
        return Answer(
            Question.PARALLELISM,
            Suitability.NO,
            f"{fitness.folded_share:.0%} of the bytes are in records longer than 1 s, which fold many transfers",
            _TIMEOUTS,
        )
    if fitness.sampling is not None:
        return Answer(
            Question.PARALLELISM,
            Suitability.PARTLY,
            f"sizes are estimates sampled 1 in {fitness.sampling}: single transfers cannot be sized",
            "export unsampled flows, or mirror headers (ERSPAN, 128 bytes)",
        )
    if fitness.exporters > 1 and fitness.port_share < rules.fitness.least_port_share:
        return Answer(
            Question.PARALLELISM,
            Suitability.PARTLY,
            f"{fitness.exporters} exporters report without ports: a transfer that two of them saw may count twice",
            "export the ports and the protocol, or give the records of one exporter per transfer",
        )
    if fitness.packets is not None and _unsure(fitness.packets) > rules.fitness.much_loss:
        return Answer(
            Question.PARALLELISM,
            Suitability.PARTLY,
            f"the capture missed {fitness.packets.loss:.1%} of the packets, and the sizes of "
            f"{fitness.packets.estimated:,} of {fitness.packets.messages:,} messages are estimates",
            "truncate mirrored packets to 128 bytes and give the capturing host a larger buffer (tcpdump -B)",
        )
    return Answer(Question.PARALLELISM, Suitability.YES, f"half of the bytes are in records up to {_time(fitness)}")


def _unsure(packets: PacketFitness) -> float:
    return max(packets.loss, packets.estimated / max(packets.messages, 1))


_TIMEOUTS: Final = (
    "set the exporter's active timeout below a step (1 s at most, less where it can) and its inactive timeout to the "
    "minimum, or mirror packets: docs/how-to/netflow-ipfix.md"
)


def _steps(fitness: Fitness, rules: IngestRules) -> Answer:
    longest = min(rules.fitness.long_record_ns, rules.fitness.long_record_share * fitness.window.seconds * 1e9)
    if fitness.typical_record_ns > longest:
        return Answer(
            Question.STEPS,
            Suitability.NO,
            f"records are folded: half of the bytes are in records of {_time(fitness)} or longer, which hide what is "
            "in them: no step can be seen",
            _TIMEOUTS,
        )
    if fitness.timestamp_resolution_ns > rules.fitness.coarse_clock_ns:
        return Answer(
            Question.STEPS,
            Suitability.NO,
            f"time stamps have a resolution of {fitness.timestamp_resolution_ns / 1e9:g} s: no step can be seen",
            "export start and end in milliseconds or finer (IPFIX fields 152 to 157), and keep them in the collector: "
            "docs/how-to/netflow-ipfix.md",
        )
    if fitness.sampling is not None and fitness.records_per_pair_and_second < rules.fitness.least_sampled_records:
        return Answer(
            Question.STEPS,
            Suitability.NO,
            f"{fitness.records_per_pair_and_second:.1f} sampled records per pair and second leave gaps",
            "sample more often, at least 1 in 100 on 400 Gb/s ports, or mirror packets",
        )
    if fitness.typical_record_ns > rules.fitness.short_record_ns:
        return Answer(
            Question.STEPS,
            Suitability.PARTLY,
            f"half of the bytes are in records longer than {_time(fitness)}: only steps many times as long show",
            _TIMEOUTS,
        )
    if fitness.window.seconds < rules.fitness.least_window_s:
        return Answer(
            Question.STEPS,
            Suitability.PARTLY,
            f"{fitness.window.seconds:.1f} s hold few steps",
            f"give at least {rules.fitness.good_window_s:.0f} s",
        )
    return Answer(Question.STEPS, Suitability.YES, "records are short and their times fine enough")


def _faults(fitness: Fitness, steps: Answer, rules: IngestRules) -> Answer:
    if steps.verdict is Suitability.NO:
        return Answer(Question.FAULTS, Suitability.NO, "without steps nothing can be called slow", steps.advice)
    skew = max((abs(offset.offset_ns) for offset in fitness.clock_offsets), default=0)
    if skew > rules.clock_skew_ns:
        return Answer(
            Question.FAULTS,
            Suitability.PARTLY,
            f"the clocks of the exporters differ by up to {skew / 1e6:.1f} ms: who is late cannot be determined",
            "synchronise the exporters with PTP, or at least NTP from one server",
        )
    if fitness.sampling is not None:
        return Answer(
            Question.FAULTS,
            Suitability.PARTLY,
            "rates are estimates of samples: what is several times too slow shows, what is a little slow does not",
            "export unsampled flows, or mirror headers (ERSPAN, 128 bytes)",
        )
    if fitness.path_share < rules.fitness.paths_known:
        return Answer(
            Question.FAULTS,
            Suitability.PARTLY,
            "switch paths are not known: slow GPUs and NICs can be found, slow switches cannot",
            "give a topology, and add the `switches` column where the exporters know it",
        )
    if steps.verdict is Suitability.PARTLY:
        return Answer(Question.FAULTS, Suitability.PARTLY, steps.why, steps.advice)
    return Answer(Question.FAULTS, Suitability.YES, "steps and paths are visible")


def _time(fitness: Fitness) -> str:
    milliseconds = fitness.typical_record_ns / 1e6
    return f"{milliseconds:.3g} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.3g} s"
