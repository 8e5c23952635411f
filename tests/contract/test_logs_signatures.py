"""Signatures of public failure reports: the library knows them, and their lines alone lead to their cause."""

from __future__ import annotations

import pytest

from llmprism.logs.library import load_library
from logs_signatures import SIGNATURES, judge, signatures

OPEN_TO_READERS = frozenset({"ib-nodes-bad"})
"""Lines that every lost peer leaves behind; which network fault it was, only its operators could find out."""

AMBIGUOUS = frozenset({"gpu-xid31-mmu"})
"""Reported as a broken device, while the vendor's manual says user code first; the report says so itself."""


@pytest.mark.skipif(not SIGNATURES.is_file(), reason="no ../shared/data next to the project")
def test_no_signature_is_read_wrongly() -> None:
    library = load_library()
    judged = [judge(signature, library) for signature in signatures()]
    assert len(judged) >= 46
    wrong = {one.name for one in judged if one.verdict != "right"}
    assert wrong <= OPEN_TO_READERS | AMBIGUOUS
