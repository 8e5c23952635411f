from __future__ import annotations

import json

import numpy as np

from llmprism.logs.wrappers import is_json_wrapped, strip_escapes, unwrap_json


def unwrapped(*entries: object) -> str:
    data = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    out = np.empty(2 * len(data) + 64, dtype=np.uint8)
    return out[: unwrap_json(np.frombuffer(data, dtype=np.uint8), len(data), out)].tobytes().decode()


def test_docker_lines_become_time_and_text() -> None:
    entry = {"log": 'say "hi"\tto \u00fc\n', "stream": "stdout", "time": "2026-11-15T01:02:03.5Z"}
    assert unwrapped(entry) == '2026-11-15T01:02:03.5Z say "hi"\tto \u00fc\n'


def test_inner_breaks_keep_the_line_number_and_the_rank() -> None:
    entry = {"rank": 3, "msg": "Traceback\nValueError: x", "kubernetes": {"pod_name": "job-worker-1"}}
    assert unwrapped(entry) == "[rank3]: [pod/job-worker-1] Traceback\r[rank3]: [pod/job-worker-1] ValueError: x\n"


def test_an_exception_in_its_own_field_follows() -> None:
    assert unwrapped({"message": "failed", "exc_info": "KeyError: 1"}) == "failed\rKeyError: 1\n"


def test_objects_without_text_stay() -> None:
    assert unwrapped({"step": 3, "loss": 2.5}) == '{"step": 3, "loss": 2.5}\n'


def test_only_json_with_texts_is_unwrapped() -> None:
    assert is_json_wrapped(b'{"log": "a\\n", "time": "2026"}\n' * 5)
    assert not is_json_wrapped(b'{"step": 1, "loss": 2.0}\n' * 5)
    assert not is_json_wrapped(b"step 1\n" * 5)


def test_broken_json_does_no_harm() -> None:
    data = b'{"log": "abc\n{"log": \n{"log": "\\u12\n{"log": "\\\n'
    out = np.empty(4 * len(data), dtype=np.uint8)
    size = unwrap_json(np.frombuffer(data, dtype=np.uint8), len(data), out)
    assert out[:size].tobytes().count(b"\n") == 4


def test_escape_sequences_are_cut() -> None:
    text = b"\x1b[31mstep:\x1b[0m \x1b]0;title\x07 1\x1b[K\nnext \x1b"
    buf = np.frombuffer(text, dtype=np.uint8).copy()
    assert buf[: strip_escapes(buf, buf.size)].tobytes() == b"step:  1\nnext "
