"""The search for garbage is paused, and goes on afterwards where it did before."""

import gc

import pytest

from llmprism.collector import collector_paused


@pytest.mark.parametrize("running", [True, False])
def test_it_goes_on_where_it_did_before(running):
    before = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()
