"""A service compiles what it will need before it is ready."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from llmprism.bundled import bundled_captures
from llmprism.service import compile_ahead, runner
from llmprism.service.config import Config, StoreSettings, WindowSettings
from llmprism.service.played import PlayedService


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A place for what is kept; the compiler itself is left out."""
    monkeypatch.setattr(compile_ahead, "code_directory", lambda _: tmp_path)
    monkeypatch.setattr(compile_ahead, "always_compiled", nullcontext)
    monkeypatch.setattr(compile_ahead, "bundled_captures", lambda: {"crash": bundled_captures()["crash"]})
    return tmp_path


def test_a_capture_is_taken_in_and_looked_at(kept, monkeypatch):
    made = []
    make_windows = PlayedService.make_windows

    def counted(service):
        made.append(make_windows(service)[0])
        return made[-1], 0.0

    monkeypatch.setattr(PlayedService, "make_windows", counted)
    assert not compile_ahead.is_compiled_ahead()
    compile_ahead.compile_ahead()
    assert sum(made) > 3
    assert compile_ahead.is_compiled_ahead()


def test_nothing_is_compiled_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(compile_ahead, "code_directory", lambda _: None)
    assert compile_ahead.is_compiled_ahead()


@pytest.fixture
def config(tmp_path):
    return Config(store=StoreSettings(folder=str(tmp_path / "data")))


def _troubles_of_started(config):
    service = runner.Service(config)
    service.start()
    try:
        return service.troubles()
    finally:
        service.stop()


def test_a_service_is_not_ready_while_it_compiles(config, monkeypatch):
    monkeypatch.setattr(runner, "is_compiled_ahead", lambda: False)
    monkeypatch.setattr(runner, "_compile_ahead", time.sleep)  # for as many seconds as its process id
    assert runner.COMPILING in _troubles_of_started(config)


@pytest.mark.parametrize(("done", "wanted"), [(True, True), (False, False)])
def test_a_service_compiles_once_and_on_request(config, monkeypatch, done, wanted):
    monkeypatch.setattr(runner, "is_compiled_ahead", lambda: done)
    monkeypatch.setattr(runner, "_compile_ahead", time.sleep)
    config = replace(config, windows=WindowSettings(compile_ahead=wanted))
    assert runner.COMPILING not in _troubles_of_started(config)
