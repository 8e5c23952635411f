"""Messages are sent once, repeated while open, retried with pauses, and kept when they cannot be delivered."""

from datetime import UTC, datetime, timedelta

import pytest

from llmprism.service.alerts import AlertSender, alertmanager_alerts
from llmprism.service.config import AlertSettings
from llmprism.service.history import History
from llmprism.service.looks import Look
from llmprism.service.messages import messages_of
from llmprism.service.rules import RULES
from llmprism.service.store import WindowResult
from llmprism.service.tracker import TrackerState, track
from llmprism.service.windows import WindowPlan

SETTINGS = AlertSettings(alertmanager=("http://am",), webhook=("http://hook",), url="http://page", attempts=3)
S = 1_000_000_000


class Receiver:
    def __init__(self):
        self.got, self.down, self.now = [], set(), 2 * 10**18

    def post(self, url, document, timeout_s):
        if url in self.down:
            raise OSError("refused")
        self.got.append((url, document))


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def sender(store, receiver):
    return AlertSender(SETTINGS, store, receiver.post, lambda: receiver.now)


def watch(store, cluster, ends, shown):
    state = TrackerState()
    for end in ends:
        report = cluster.report(end - 60, end, [cluster.job(0, end)], shown(end))
        state, changes = track(state, [Look(report, RULES.windows.length)], RULES)
        messages = messages_of(changes, SETTINGS, report.window)
        start, now = report.window.start_ns, report.window.end_ns
        store.commit_window(WindowResult(start, now, 1, 1, 1, 1, {}, {}, {}, changes, state, WindowPlan(), messages))


def faulty(cluster):
    return lambda end: [cluster.finding(15, 30 if end >= 32 else None)] if end >= 20 else []


def test_open_and_resolve_reach_both_targets_once(store, cluster, sender, receiver):
    watch(store, cluster, range(16, 48, 4), faulty(cluster))
    assert sender.send_due() == 4
    assert sender.send_due() == 0
    hook = [document for url, document in receiver.got if url == "http://hook"]
    assert [document["event"] for document in hook] == ["opened", "closed"]
    assert hook[0]["id"] == hook[1]["id"]
    assert hook[0]["url"] == f"http://page/#/findings/{hook[0]['id']}"
    (opened,), ended = (document for url, document in receiver.got if url == "http://am/api/v2/alerts")
    assert opened["labels"] in [alert["labels"] for alert in ended]
    assert {alert["labels"]["severity"] for alert in ended} == {"warning", "critical"}, "it may have changed"
    ends = {datetime.fromisoformat(alert["endsAt"]) for alert in ended}
    assert ends == {datetime.fromisoformat(hook[1]["ends_at"])}
    assert all(isinstance(value, str) for value in opened["labels"].values())


def test_an_alert_closed_by_a_clock_that_runs_ahead_ends_now():
    """Alertmanager keeps the later end of an alert whose new end is still to come: it would burn on for minutes."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    document = {"event": "closed", "labels": {"severity": "warning"}, "annotations": {}, "url": ""}
    document |= {"starts_at": "2026-01-01T00:00:05.000Z", "ends_at": "2026-01-01T00:00:20.000Z"}
    for alert in alertmanager_alerts(document, now, timedelta(minutes=4)):
        assert datetime.fromisoformat(alert["startsAt"]) <= datetime.fromisoformat(alert["endsAt"]) == now


def test_open_alerts_are_repeated_to_alertmanager_only(store, cluster, sender, receiver):
    watch(store, cluster, (16, 20, 24), faulty(cluster))
    sender.send_due()
    receiver.got.clear()
    sender.repeat_open()
    sender.repeat_open()
    assert [url for url, _ in receiver.got] == ["http://am/api/v2/alerts"]
    receiver.now += 61 * S
    sender.repeat_open()
    assert len(receiver.got) == 2


def test_failures_wait_keep_their_order_and_end_as_dead_letters(store, cluster, sender, receiver):
    watch(store, cluster, range(16, 48, 4), faulty(cluster))
    receiver.down.add("http://hook")
    assert sender.send_due() == 2
    assert sender.send_due() == 0, "not due yet"
    for _ in range(6):
        receiver.now += 400 * S
        sender.send_due()
    dead = History(store).dead_letters()
    assert [letter["event"] for letter in dead] == ["closed", "opened"]
    assert dead[0]["attempts"] == 3
    assert "refused" in dead[0]["error"]


def test_a_receiver_that_comes_back_gets_everything_in_order(store, cluster, sender, receiver):
    watch(store, cluster, range(16, 48, 4), faulty(cluster))
    receiver.down.add("http://hook")
    sender.send_due()
    receiver.down.clear()
    receiver.now += 10 * S
    assert sender.send_due() == 2
    assert [document["event"] for url, document in receiver.got if url == "http://hook"] == ["opened", "closed"]
    assert History(store).outbox_counts() == {"sent": 4}


def test_a_receiver_that_was_away_hears_of_what_is_still_open(store, cluster, sender, receiver):
    """Far more tries than are allowed, and it is no dead letter while the finding is open."""
    receiver.down = {"http://hook"}
    watch(store, cluster, range(16, 32, 4), faulty(cluster))
    for _ in range(10):
        sender.send_due()
        receiver.now += 1_000 * S
    assert History(store).dead_letters() == []
    receiver.down = set()
    sender.send_due()
    assert [document["event"] for url, document in receiver.got if url == "http://hook"] == ["opened"]


def test_a_dead_receiver_keeps_nothing_from_the_others(store, cluster, sender, receiver):
    from llmprism.service import schema

    with store.writing() as connection:
        waiting = {"target": "webhook:http://dead", "finding": "f-0", "event": "closed", "status": "waiting"}
        waiting |= {"attempts": 0, "due_wall_ns": 0, "wall_ns": 0, "error": "", "document": "{}"}
        connection.execute(schema.outbox.insert(), [waiting] * 150)
    receiver.down = {"http://dead"}
    watch(store, cluster, range(16, 32, 4), faulty(cluster))
    sender.send_due()
    assert "http://hook" in {url for url, _ in receiver.got}


def test_a_receiver_that_is_configured_later_hears_of_open_findings(store, cluster, receiver):
    watch(store, cluster, range(16, 32, 4), faulty(cluster))
    settings = AlertSettings(webhook=("http://new/hook",))
    later = AlertSender(settings, store, receiver.post, lambda: receiver.now)
    later.repeat_open()
    later.repeat_open()
    later.send_due()
    assert [(url, document["event"]) for url, document in receiver.got if "new" in url] == [
        ("http://new/hook", "opened")
    ]


def test_secrets_of_webhooks_are_not_shown(store, cluster, sender, receiver, caplog):
    from llmprism.service.messages import shown_target

    assert (
        shown_target("webhook:https://me:pass@hooks.example:8443/T0/B1/secret?key=x")
        == "webhook:https://hooks.example:8443/…"
    )
    receiver.down = {"http://hook", "http://am/api/v2/alerts"}
    watch(store, cluster, range(16, 32, 4), faulty(cluster))
    sender.send_due()
    (finding,) = History(store).findings()["items"]
    shown = History(store).finding(finding["id"])["messages"]
    assert {one["target"] for one in shown} == {"webhook:http://hook", "alertmanager:http://am"}
