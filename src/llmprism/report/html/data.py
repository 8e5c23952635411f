"""A report as the data of the page: cleaned text, times in milliseconds from the start of the window.

JavaScript numbers hold 53 bits, epoch nanoseconds need 61: so times are relative. Text is cleaned here (control and
bidirectional characters made visible); the page then shows it as text and never as markup.
"""

from __future__ import annotations

import math
from typing import Any

from llmprism import __version__
from llmprism.model.finding import Finding
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import EventKind
from llmprism.model.verdict import LogReading
from llmprism.report import facts
from llmprism.report.html.grid import layout_grid
from llmprism.report.html.logs import chosen_quotes, logs_data, why_data
from llmprism.report.html.page_events import MAX_EVENTS, choose_rows, pack_events, tick_ns
from llmprism.report.job_facts import model_text, network_text
from llmprism.report.kinds import CHECKS, TITLES
from llmprism.report.places import Places
from llmprism.report.text import clean, moment

__all__ = ["page_data"]


def page_data(report: Report, max_events: int = MAX_EVENTS) -> dict[str, Any]:
    """Everything that the page shows, as JSON values."""
    page = _PageData(report, max_events)
    return page.build() if report.reading is None else page.with_logs(page.build(), report.reading)


class _PageData:
    def __init__(self, report: Report, max_events: int) -> None:
        self._report = report
        self._places = Places(report.topology)
        self._sick = facts.sick_addresses(report)
        self._origin = report.window.start_ns
        self._tick = tick_ns(report.window.end_ns - report.window.start_ns)
        self._rows = choose_rows(report, max_events)
        self._max_events = max_events
        servers = report.topology.server_of() if report.topology else {}
        self._server_of = {index: servers[name] for index, name in enumerate(report.addresses) if name in servers}
        self._job_index = {job.job.id: index for index, job in enumerate(report.jobs)}

    def build(self) -> dict[str, Any]:
        report = self._report
        return {
            "version": __version__,
            "window": {
                "from": moment(report.window.start_ns, self._origin, date=True),
                "epoch_ms": report.window.start_ns / 1e6,
                "length_ms": self._ms(report.window.end_ns),
                "calendar": not moment(report.window.start_ns, self._origin).startswith("+"),
            },
            "addresses": [clean(address) for address in report.addresses],
            "seats": [self._places.seat(address) for address in report.addresses],
            "spots": [self._places.spot(address) for address in report.addresses],
            "sick": [index for index, address in enumerate(report.addresses) if address in self._sick],
            "kinds": [kind.label for kind in EventKind],
            "tick_ms": self._tick / 1e6,
            "max_events": self._max_events,
            "servers": self._servers(),
            "jobs": [self._job(index, job) for index, job in enumerate(report.jobs)],
            "findings": [self._finding(finding) for finding in facts.ranked_findings(report)],
            "switches": self._switches(),
            "input": {
                "records": report.input.records,
                "used": report.input.used,
                "dropped": [[clean(reason), number] for reason, number in report.input.dropped],
            },
            "notes": [clean(note) for note in facts.notes_without_job(report)],
        }

    def with_logs(self, data: dict[str, Any], reading: LogReading) -> dict[str, Any]:
        """The data with why each finding came about and what the logs hold."""
        chosen = chosen_quotes(reading)
        addresses = {address: index for index, address in enumerate(self._report.addresses)}
        verdicts = {id(one): verdict for one, verdict in zip(self._report.findings, reading.verdicts, strict=True)}
        for entry, finding in zip(data["findings"], facts.ranked_findings(self._report), strict=True):
            entry["why"] = why_data(verdicts[id(finding)], chosen, addresses)
        data["logs"] = logs_data(reading, chosen, addresses, self._job_index, self._ms)
        return data

    def _ms(self, time_ns: int) -> float:
        return round((time_ns - self._origin) / 1e6, 3)

    def _servers(self) -> list[dict[str, Any]]:
        """Servers of the topology with the job of every NIC; what the topology does not know stands at the end."""
        ids = {address: index for index, address in enumerate(self._report.addresses)}
        jobs = {member: index for index, job in enumerate(self._report.jobs) for member in job.job.members}
        servers = []
        seated: set[int] = set()
        for server in self._report.topology.servers if self._report.topology else ():
            nics = []
            for nic in server.nics:
                address = ids.get(nic.address, -1)
                seated.add(address)
                nics.append([clean(nic.address), nic.gpu, jobs.get(address, -1), int(nic.address in self._sick)])
            servers.append({"name": clean(server.name), "nics": nics})
        loose = [member for member in sorted(jobs) if member not in seated]
        if loose:
            names = self._report.addresses
            nics = [[clean(names[member]), None, jobs[member], int(names[member] in self._sick)] for member in loose]
            servers.append({"name": "not in the topology" if servers else "all addresses", "nics": nics})
        return servers

    def _job(self, index: int, job: JobReport) -> dict[str, Any]:
        layout = job.layout.layout
        grid = layout_grid(job, self._server_of)
        order = list(dict.fromkeys((*grid.order(), *job.job.members)))
        steps, times = job.timeline.steps, facts.step_times(job.timeline.steps)
        return {
            "id": clean(job.job.id),
            "state": job.state.value,
            "confidence": _number(job.job.confidence),
            "layout_confidence": _number(job.layout.confidence),
            "degrees": facts.degrees(job),
            "alternatives": [clean(text) for text in facts.alternative_texts(job)],
            "tp": layout.tp,
            "sharding": layout.sharding.value,
            "schedule": layout.schedule.value,
            "micro_batches": layout.micro_batches,
            "members": list(job.job.members),
            "servers": [clean(server) for server in job.job.servers],
            "grid": {
                "columns": list(grid.columns),
                "labels": list(grid.labels),
                "replicas": list(grid.replicas),
                "rows": [list(row) for row in grid.rows],
            },
            "pipelines": len(job.layout.pipelines),
            "groups": [
                {"kind": group.kind.label, "members": list(group.members), "ring": group.ring}
                for group in job.layout.groups
            ],
            "steps": {
                "start": [self._ms(time) for time in steps.start_ns.tolist()],
                "end": [self._ms(time) for time in steps.end_ns.tolist()],
                "setup": [int(setup) for setup in steps.setup.tolist()],
            },
            "times": None
            if times is None
            else {
                "count": times.count,
                "median": times.median_ns / 1e6,
                "low": times.low_ns / 1e6,
                "high": times.high_ns / 1e6,
                "setup": None if times.setup_ns is None else times.setup_ns / 1e6,
            },
            "events": pack_events(job.timeline.events, self._rows[index], order, self._origin, self._tick),
            "event_count": job.timeline.events.count,
            "model": model_text(job.timeline.facts),
            "network": network_text(job.timeline.facts),
            "notes": [clean(note) for note in (*job.layout.notes, *job.timeline.notes)],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        place = finding.where.id
        names = {place} if isinstance(place, str) else set(place)
        return {
            "kind": finding.kind.value,
            "title": TITLES[finding.kind],
            "where": self._places.finding(finding),
            "where_type": finding.where.type.value,
            "addresses": [index for index, address in enumerate(self._report.addresses) if address in names],
            "job": self._job_index.get(finding.job, -1) if finding.job is not None else -1,
            "start": self._ms(finding.start_ns),
            "end": None if finding.end_ns is None else self._ms(finding.end_ns),
            "since": moment(finding.start_ns, self._origin),
            "severity": _number(finding.severity),
            "confidence": _number(finding.confidence),
            "lost": _number(finding.lost_gpu_seconds),
            "summary": clean(finding.summary),
            "checks": CHECKS[finding.kind],
            "evidence": [
                [clean(item.what), _number(item.value), None if item.expected is None else _number(item.expected)]
                for item in finding.evidence
            ],
        }

    def _switches(self) -> list[dict[str, Any]]:
        return [
            {
                "name": clean(load.switch),
                "tier": None if load.tier is None else clean(load.tier),
                "bytes": load.bytes,
                "pairs": load.pairs,
                "rate": _number(load.median_rate_gbps),
                "jobs": [self._job_index[job] for job in load.jobs if job in self._job_index],
                "sick": int(load.switch in self._sick),
            }
            for load in self._report.switches
        ]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
