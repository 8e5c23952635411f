"""What `deploy/` holds is accepted by the linters of those who run it, and fits the service."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism import __version__
from llmprism.errors import ConfigError
from llmprism.ingest import read_topology
from llmprism.service.config import parse_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = [DEPLOY / "kubernetes" / f"{name}.yaml" for name in ("storage", "workers", "network")]
DATABASE = {"LLMPRISM_STORE__URL": "postgresql://llmprism@db/llmprism", "LLMPRISM_WORKERS__NAME": "llmprism-7d9c-x2x"}


def tool(name: str) -> str:
    """A program of the extra `dev`, next to this Python."""
    found = Path(sys.executable).parent / name
    assert found.exists(), f"{name} is missing: install the extra dev"
    return str(found)


def accepted(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def documents() -> dict[str, dict]:
    return {one["kind"]: one for file in MANIFESTS for one in yaml.safe_load_all(file.read_text())}


def test_the_container_recipe():
    accepted(tool("hadolint"), DEPLOY / "container" / "Containerfile")


def test_the_manifests():
    accepted(tool("yamllint"), "--strict", "deploy")
    accepted(tool("kubernetes-validate"), "--strict", *MANIFESTS)


def test_the_manifests_together():
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("this machine has no kubectl")
    done = subprocess.run([kubectl, "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    (container,) = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"llmprism:{__version__}"
    volumes = {one["name"]: one for one in made["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["settings"]["configMap"]["name"] == made["ConfigMap"]["metadata"]["name"]


def test_the_systemd_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("this machine has no systemd-analyze")
    accepted(analyze, "verify", "--man=no", DEPLOY / "systemd" / "llmprism.service")


def test_the_settings_of_the_workers_are_right_but_for_the_placeholder():
    text = (DEPLOY / "kubernetes" / "llmprism.toml").read_text()
    with pytest.raises(ConfigError, match="sha256"):
        parse_config(text, DATABASE, "llmprism.toml")
    config = parse_config(text.replace("replace-me", "0" * 64), DATABASE, "llmprism.toml")
    assert config.workers.enabled
    assert config.store.folder == "/var/lib/llmprism"
    assert read_topology(DEPLOY / "kubernetes" / "topology.json").servers


def test_the_image_and_the_manifests_agree():
    recipe = (DEPLOY / "container" / "Containerfile").read_text()
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert f"USER {pod['securityContext']['runAsUser']}:" in recipe
    assert f"EXPOSE {container['ports'][0]['containerPort']}" in recipe
    written = set(re.search(r"VOLUME \[(.*)\]", recipe)[1].replace('"', "").split(", "))
    assert written <= {mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["serve", "--config", "/etc/llmprism/llmprism.toml"]
