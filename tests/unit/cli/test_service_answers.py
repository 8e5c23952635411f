"""What `top` and `doctor` make of the answers of a service, and of what is none."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from llmprism.cli.service_answers import answer_of, check_address
from llmprism.errors import InputError, UsageError

ANSWERS = {
    "/good": (200, b'{"jobs": []}'),
    "/refused": (401, b"no"),
    "/not-ready": (503, b'{"trouble": "disk"}'),
    "/proxy": (503, b"<html>"),
    "/no-json": (200, b"<html>"),
    "/no-object": (200, b"[1]"),
}


@pytest.fixture
def server():
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = ANSWERS[self.path]
            seen.append(self.headers.get("authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/", seen
        made.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "answer"),
    [("/good", (200, {"jobs": []})), ("/refused", (401, {})), ("/not-ready", (503, {"trouble": "disk"}))],
)
def test_a_status_comes_with_the_document_that_says_more(server, monkeypatch, path, answer):
    monkeypatch.setenv("LLMPRISM_TOKEN", "secret")
    assert answer_of(server[0], path) == answer
    assert server[1] == ["Bearer secret"]


@pytest.mark.parametrize("path", ["/proxy", "/no-json", "/no-object"])
def test_what_is_no_answer_of_the_service_is_an_error(server, path):
    with pytest.raises(InputError):
        answer_of(server[0], path)


def test_nobody_there_is_an_error():
    with pytest.raises(InputError, match="does not answer"):
        answer_of("http://127.0.0.1:9", "/")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "monitor:8642"])
def test_only_http_is_spoken(url):
    with pytest.raises(UsageError, match="http or https"):
        check_address(url)
