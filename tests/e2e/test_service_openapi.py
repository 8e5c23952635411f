"""schemathesis asks everything that the OpenAPI document allows, and much that it does not: never a 5xx."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
from hypothesis import HealthCheck, given, settings

from llmprism.service.api.app import Live, create_app
from llmprism.service.config import Config, ServerSettings, StoreSettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.intake import Intake, Payload, clear_incoming
from llmprism.service.store import Store
from support.reports import EXAMPLES

SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    server = ServerSettings(requests_per_s=1e6, allowed_hosts=("testserver",))
    config = Config(server=server, store=StoreSettings(folder=str(folder)))
    store = Store(config.store)
    store.create()
    clear_incoming(store)
    intake = Intake(store, config)
    thread = threading.Thread(target=intake.run)
    thread.start()
    flows = EXAMPLES / "crash" / "flows.parquet"
    intake.put(Payload("test", flows, 1, temporary=False)).result(30)
    evaluator = Evaluator(store, config)
    while evaluator.advance():
        pass
    with ThreadPoolExecutor(1) as workers:
        yield create_app(Live(config, store, intake, workers, list))
        intake.stop()
        thread.join()
    store.close()


def test_no_question_breaks_the_service(app):
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    requested = 0

    def ask(operation):
        @SETTINGS
        @given(case=operation.as_strategy())
        def check(case):
            nonlocal requested
            response = case.call()
            requested += 1
            assert response.status_code < 500, (case.as_curl_command(), response.text)

        check()

    for result in schema.get_all_operations():
        operation = result.ok()
        if not operation.path.endswith("/events"):
            ask(operation)
    assert requested > 100
