"""Which sources a compiled function depends on."""

from __future__ import annotations

from pathlib import Path

import grimp

import llmprism
from llmprism.kernel_sources import sources


def test_the_sources_of_a_file_are_all_that_it_imports():
    graph = grimp.build_graph("llmprism", cache_dir=None)
    modules = {name: _file_of(name) for name in graph.modules}
    users = graph.find_modules_that_directly_import("llmprism.kernel_cache")
    users |= graph.find_modules_that_directly_import("llmprism.kernel")
    assert len(users) > 20
    for user in users:
        needed = {modules[name] for name in graph.find_upstream_modules(user)}
        assert needed <= sources(modules[user]), user


def _file_of(module: str) -> Path:
    path = Path(llmprism.__file__).resolve().parent.joinpath(*module.split(".")[1:])
    module = path.with_suffix(".py")
    return module if module.exists() else path / "__init__.py"
