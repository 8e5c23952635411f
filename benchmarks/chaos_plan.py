"""Who sends what to whom in `service_chaos`, and when what goes wrong: all that is drawn by chance, from one seed.

No two jobs step alike (those would be one job's rails). Every tenant has one role: a steady collector that pushes every
second, one whose clock is wrong, one that dies for a while, one that sends through Kafka, one that drops files of some
time a while later. Steady collectors' jobs, and those of the files, get faults: they stand still, crash and come
back, are slowed by a NIC; others come and go. Times are seconds of the run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from chaos_jobs import Fault, FaultKind, ScheduledJob

__all__ = ["Kill", "Outage", "Plan", "Role", "Tenant", "is_long", "make_plan", "topology_of"]

KNOWN_S: Final = 70.0
"""A job is known after this time: a window, and the hops until its steps have shown plainly twice."""

APART_S: Final = (150.0, 300.0)
"""Healthy time between two faults of a job."""

QUIET_S: Final = 50.0
"""No fault in the last seconds of the run: findings close in them."""

LASTS_S: Final = {FaultKind.HANG: (18.0, 35.0), FaultKind.CRASH: (20.0, 40.0), FaultKind.SLOW: (30.0, 50.0)}
AWAY_S: Final = (10.0, 25.0)
"""How long a collector, a database, a broker or the room on a disk is away."""

KILLS_UNTIL: Final = 0.6
"""Share of the run with kills: in the rest one process lives long enough to see whether its memory grows."""


class Role(StrEnum):
    STEADY = "steady"
    CLOCK = "clock"
    AWAY = "away"
    KAFKA = "kafka"
    FILES = "files"


@dataclass
class Tenant:
    """`offset_s` of a second is how far its clock is ahead; in the times `away` it sends nothing."""

    name: str
    role: Role
    jobs: Sequence[ScheduledJob]
    offset_s: Callable[[float], float] = lambda _second: 0.0
    away: tuple[tuple[float, float], ...] = ()
    clock: str = ""
    sent: int = 0
    number: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class Outage:
    what: str
    at_s: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Kill:
    at_s: int
    service: bool
    """Else its evaluator."""


@dataclass
class Plan:
    seconds: int
    tenants: list[Tenant]
    kills: list[Kill] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    every_s: int = 1
    """How often collectors push."""

    hop_s: int = 4
    """How often windows are made: less often in a long run, which need not have the machine to itself."""

    file_s: int = 60
    late_s: int = 15
    """Files hold so many seconds, and come so late."""


def topology_of(plan: Plan) -> dict[str, object]:
    """Every GPU has a server of its own: without servers, jobs that step alike could be rails of one job."""
    names = [job.address(gpu) for tenant in plan.tenants for job in tenant.jobs for gpu in range(job.gpus)]
    servers = [{"name": f"s-{name}", "nics": [{"address": name, "gpu": 0, "switch": "leaf"}]} for name in names]
    return {"servers": servers, "switches": [{"name": "leaf", "tier": "leaf"}]}


def is_long(seconds: int) -> bool:
    """Runs of more than ten minutes take their time; in shorter ones everything has to happen once."""
    return seconds > 600


def make_plan(seconds: int, tenants: int, seed: int, outages: tuple[str, ...]) -> Plan:
    """`outages` are the kinds that this machine can have."""
    chance = random.Random(seed)
    roles = _roles(tenants, chance, kafka="Kafka" in outages)
    plan = Plan(seconds, [_tenant(number, role, seconds, chance) for number, role in enumerate(roles)])
    plan.every_s, plan.hop_s, plan.file_s = (4, 8, 60) if is_long(seconds) else (1, 4, 30)
    clocks = iter(("ahead", "jump", "behind", "drift"))
    for tenant in plan.tenants:
        if tenant.role is Role.CLOCK:
            tenant.clock = next(clocks, "ahead")
            tenant.offset_s = _wrong_clock(tenant.clock, chance.uniform(0.15, 0.5) * seconds, seconds)
        elif tenant.role is Role.AWAY:
            at = chance.uniform(KNOWN_S, 0.6 * seconds)
            tenant.away = ((at, at + chance.uniform(*AWAY_S)),)
    _plant(plan, chance)
    plan.kills = list(_kills(seconds, chance))
    plan.outages = list(_outages(seconds, outages, chance))
    return plan


def _roles(count: int, chance: random.Random, *, kafka: bool) -> list[Role]:
    roles = [Role.KAFKA] * (max(2, count // 6) if kafka else 0)
    roles += [Role.FILES, *[Role.AWAY] * max(1, count // 10), *[Role.CLOCK] * max(1, count // 5)]
    roles += [Role.STEADY] * (count - len(roles))
    chance.shuffle(roles)
    return roles


def _tenant(number: int, role: Role, seconds: int, chance: random.Random) -> Tenant:
    """A collector that dies has two jobs: of one that is alone with its collector nobody could tell the difference."""
    count = {Role.AWAY: 2, Role.FILES: 2, Role.CLOCK: 1, Role.KAFKA: 1, Role.STEADY: 1 + number % 2}[role]
    jobs = [
        ScheduledJob(f"t{number}j{k}", period_s=0.4 + 0.0173 * (2 * number + k), seed=1000 * number + k)
        for k in range(count)
    ]
    if role is Role.STEADY and count == 2:  # the second one comes and goes
        jobs[1].comes_s = chance.uniform(5.0, 0.3 * seconds)
        jobs[1].goes_s = chance.uniform(0.65, 0.85) * seconds
    return Tenant(f"tenant{number}", role, jobs)


def _wrong_clock(kind: str, at: float, seconds: int) -> Callable[[float], float]:
    rate = min(0.5, 600.0 / seconds)
    return {
        "ahead": lambda second: 40.0 if second > at else 0.0,
        "behind": lambda second: -200.0 if second > at else 0.0,
        "jump": lambda second: 300.0 if at < second < at + 15 else 0.0,
        "drift": lambda second: max(0.0, second - at) * rate,
    }[kind]


def _plant(plan: Plan, chance: random.Random) -> None:
    """Faults for the first job of every steady tenant and of the files, of all kinds in turn."""
    kinds = list(FaultKind)
    hit = [tenant for tenant in plan.tenants if tenant.role in (Role.STEADY, Role.FILES)]
    for number, tenant in enumerate(hit):
        quiet = QUIET_S + (plan.file_s + plan.late_s if tenant.role is Role.FILES else 0)
        faults = []
        at = chance.uniform(KNOWN_S, KNOWN_S + 10)
        turn = number
        while True:
            kind = kinds[turn % len(kinds)]
            lasts = chance.uniform(*LASTS_S[kind]) if is_long(plan.seconds) else LASTS_S[kind][0]
            if at + lasts > plan.seconds - quiet:
                break
            faults.append(Fault(kind, at, lasts, gpu=chance.randrange(8)))
            at += lasts + chance.uniform(*APART_S)
            turn += 1
        tenant.jobs[0].faults = tuple(faults)


def _kills(seconds: int, chance: random.Random) -> Iterator[Kill]:
    longer = (25, 60) if is_long(seconds) else (12, 20)
    at = 25 + chance.randint(*longer)
    while at < KILLS_UNTIL * seconds:
        yield Kill(at, chance.random() < 0.5)
        at += chance.randint(*longer)


def _outages(seconds: int, kinds: tuple[str, ...], chance: random.Random) -> Iterator[Outage]:
    """One after the other, each kind equally often."""
    between = (90, 200) if is_long(seconds) else (12, 15)
    at, turn = 55, 0
    order = list(kinds)
    while kinds and at < seconds - QUIET_S:
        if turn % len(kinds) == 0:
            chance.shuffle(order)
        lasts = chance.uniform(*AWAY_S) if is_long(seconds) else AWAY_S[0]
        yield Outage(order[turn % len(kinds)], at, lasts)
        at += int(lasts) + chance.randint(*between)
        turn += 1
