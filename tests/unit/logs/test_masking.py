from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.logs.masking import mask_text, shape_hash
from llmprism.logs.scan import scan_block


def scan(data: bytes, **options: bool) -> tuple[list[bytes], list[bytes], list[int], list[int], list[int]]:
    buf = np.frombuffer(data, dtype=np.uint8)
    lines, _, _, _ = scan_block(buf, buf.size, 0, 1, 10_000, host_prefix=options.get("host", False), max_line=1 << 16)
    heads = [data[a:b] for a, b in zip(lines.start, lines.text_start, strict=True)]
    texts = [data[a:b] for a, b in zip(lines.text_start, lines.end, strict=True)]
    return heads, texts, lines.time_ns.tolist(), lines.number.tolist(), lines.shape.tolist()


def test_what_varies_is_masked() -> None:
    line = b"iteration 30/60 | lr 1.5E-05 comm 0x172bb400 node0400 -5 10.0.0.1<80> 395c42485a89446a conv2d"
    assert mask_text(line) == b"iteration * | lr * comm * node* * *<*> * conv*"


def test_colours_and_control_bytes_do_not_exist() -> None:
    assert mask_text(b"\x1b[31mred\x1b[0m \x07bell \x1b]0;title\x07x") == b"red bell x"
    assert shape_hash(b"\x1b[1;32mok\x1b[0m") == shape_hash(b"ok")


@given(st.text(alphabet="ab1 2.-:*xg,/f\x1b[m", max_size=40), st.text(alphabet="ab1 2.-:*xg,/f", max_size=40))
@settings(max_examples=400, deadline=None)
def test_the_hash_is_of_the_mask(one: str, other: str) -> None:
    same_mask = mask_text(one.encode()) == mask_text(other.encode())
    assert (shape_hash(one.encode()) == shape_hash(other.encode())) == same_mask


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=2))
@settings(max_examples=50, deadline=None)
def test_lines_that_differ_in_numbers_have_one_shape(numbers: list[int]) -> None:
    a, b = (f"step {n} took {n}.5 ms on gpu{n}".encode() for n in numbers)
    assert shape_hash(a) == shape_hash(b)


def test_the_prefix_and_time_are_no_part_of_the_shape() -> None:
    data = b"\n".join(
        [
            b"hello world",
            b" 3: hello world",
            b"[rank3]: hello world",
            b"[1,3]<stdout>: hello world",
            b"(RayTrainWorker pid=12, ip=10.0.0.3) hello world",
            b"node1:12:13 [0] hello world",
            b"[2026-11-15 02:26:43] node1:12:13 [0] hello world",
            b"12: [rank12]: hello world",
            b"[pod/worker-0/pytorch] hello world",
        ]
    )
    _, _, _, numbers, shapes = scan(data)
    assert len(set(shapes)) == 1
    assert numbers == list(range(1, 10))


def test_a_host_prefix_counts_only_where_the_file_has_it() -> None:
    assert scan(b"worker-1: hello", host=True)[0] == [b"worker-1: "]
    assert scan(b"RuntimeError: hello")[0] == [b""]


def test_carriage_returns_end_lines_but_not_numbers() -> None:
    _, texts, _, numbers, _ = scan(b"a\rb\rc\nd\r\ne\n")
    assert texts == [b"a", b"b", b"c", b"d", b"e"]
    assert numbers == [1, 1, 1, 2, 3]


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    _, texts, _, _, _ = scan(data)
    kept = b"".join(data.replace(b"\r", b"\n").split(b"\n"))
    assert sum(len(t) for t in texts) <= len(kept)


def test_line_ends_are_found_across_any_alignment() -> None:
    lines = [b"x" * n for n in range(1, 40)]
    assert scan(b"\n".join(lines))[1] == lines
