"""Against Debian's own servers: Prometheus scrapes, evaluates our rules; Alertmanager gets a finding and its end."""

import json
import shutil
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.service.player import HttpTarget, opened, play
from support.reports import EXAMPLES
from support.service import RunningService, clock_from_a_minute, free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
SLOW_NIC = EXAMPLES / "slow_nic"


def needed(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: scripts/install-test-deps installs it")
    return found


def ask(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


@pytest.fixture
def servers(tmp_path):
    started = []

    def start(*command):
        log = (tmp_path / f"{Path(command[0]).name}.log").open("wb")
        started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))

    yield start
    for process in started:
        process.terminate()
        process.wait(20)


def test_alertmanager_hears_of_a_finding_and_of_its_end(tmp_path, servers):
    port = free_port()
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    servers(
        needed("prometheus-alertmanager"), "--config.file", "am.yml", "--storage.path", "am",
        "--web.listen-address", f"127.0.0.1:{port}", "--cluster.listen-address", "",
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    running = RunningService(tmp_path, "-t", str(SLOW_NIC / "topology.json"), ALERTS__ALERTMANAGER=url).start()
    try:
        running.until(lambda: ask(f"{url}/api/v2/status"), 30)
        with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
            target = HttpTarget(running.url, "test")
            sender = threading.Thread(
                target=play, args=(capture, target), kwargs={"speed": 2, "now_ns": clock_from_a_minute()}
            )
            sender.start()
            (alert,) = running.until(lambda: ask(f"{url}/api/v2/alerts?active=true"), 60)
            assert alert["labels"]["kind"] == "slow_nic"
            assert alert["labels"]["place"] == "10.13.0.1"
            assert "cable" in alert["annotations"]["summary"]
            sender.join()
        running.until(lambda: running.get("/api/v1/findings?phase=closed")["items"], 60)
        running.until(lambda: not ask(f"{url}/api/v2/alerts?active=true"), 60)
        finding = running.get("/api/v1/findings")["items"][0]

        def both_sent():  # an alert is heard of before its message is noted as sent
            messages = running.get(f"/api/v1/findings/{finding['id']}")["messages"]
            return [message["status"] for message in messages] == ["sent", "sent"]

        running.until(both_sent, 60)
    finally:
        running.stop()


def test_prometheus_scrapes_and_our_rules_and_dashboard_fit_the_metrics(tmp_path, servers):
    promtool, prometheus = needed("promtool"), needed("prometheus")
    running = RunningService(tmp_path, "-t", str(SLOW_NIC / "topology.json")).start()
    try:
        with opened([str(EXAMPLES / "crash" / "flows.parquet")]) as capture:
            play(capture, HttpTarget(running.url, "test"), speed=0, now_ns=clock_from_a_minute())
        running.until(lambda: running.get("/api/v1/findings")["items"], 60)
        with urllib.request.urlopen(running.url + "/metrics") as answer:
            metrics = answer.read()
        checked = subprocess.run([promtool, "check", "metrics"], input=metrics, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr
        port = free_port()
        rules = DEPLOY / "prometheus" / "llmprism.rules.yml"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "llmprism", "static_configs": [{"targets": [f"127.0.0.1:{running.port}"]}]}
            ],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        servers(
            prometheus, "--config.file", "prometheus.yml", "--storage.tsdb.path", "tsdb",
            "--web.listen-address", f"127.0.0.1:{port}",
        )  # fmt: skip
        url = f"http://127.0.0.1:{port}/api/v1"

        def alerts():
            return {one["labels"]["alertname"]: one for one in ask(f"{url}/alerts")["data"]["alerts"]}

        running.until(lambda: "LLMPrismJobStopped" in alerts(), 60)
        dashboard = json.loads((DEPLOY / "grafana" / "llmprism.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                answer = ask(f"{url}/query?query={urllib.request.quote(target['expr'])}")
                assert answer["status"] == "success"
                if "rate(" not in target["expr"] and "dropped" not in target["expr"]:
                    assert answer["data"]["result"], target["expr"]
    finally:
        running.stop()
