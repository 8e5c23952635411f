"""Questions to a running service over HTTP, for the commands `top` and `doctor`."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any, Final

from llmprism.errors import InputError, UsageError

__all__ = ["answer_of", "check_address"]

MAX_ANSWER_BYTES: Final = 64 << 20
"""More than the overview of the largest cluster; what is longer is no answer of this service."""

WAIT_S: Final = 10
"""A service that takes longer for an answer from memory does not work."""


def check_address(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url}: expected the http or https address of a service")


def answer_of(url: str, path: str) -> tuple[int, dict[str, Any]]:
    """Status and document; the document is empty where the status is an error other than "not ready".

    A token is taken from the environment variable LLMPRISM_TOKEN.
    """
    token = os.environ.get("LLMPRISM_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url.rstrip("/") + path, headers=headers)  # noqa: S310 - see check_address
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
            return HTTPStatus.OK, _document(answer.read(MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            return error.code, {}
        try:
            return error.code, _document(error.read(MAX_ANSWER_BYTES))
        except (OSError, ValueError):
            raise InputError(f"{url}: answers {error.code} without saying why; is it a proxy in between?") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{url}: does not answer ({error})") from None


def _document(text: bytes) -> dict[str, Any]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document
