"""Why a run failed: what the library says of the root, else what the exception's kind and its stack suggest."""

from __future__ import annotations

import re
from typing import Final

from llmprism.logs.incidents import EndMarks, Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Meaning
from llmprism.logs.progress import NOT_YET_TRAINING, Progress
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import Shape
from llmprism.logs.suspects import Blame
from llmprism.model.log import Cause, CauseClass, Stage

__all__ = ["class_of_exception", "explain_failure", "stage_from_frames"]

_DATA_FRAME: Final = re.compile(
    r"data[_-]?(?:set|loader|module|pipe|iter)|collat|fetch|tokeniz|__getitem__|webdataset|decode|transform(?:s|\b)|parse_(?:record|example)|read_(?:record|sample)|indexed_dataset|/datasets/",
    re.I,
)
_EVAL_FRAME: Final = re.compile(
    r"\b(?:run_)?eval\w*|validat(?:e|ion)_(?:step|loop|epoch)|evaluate\w*|infer_and_eval|calculate_\w+_distance", re.I
)
_SAVE_FRAME: Final = re.compile(
    r"save_(?:checkpoint|model|state|pretrained)|checkpointing|dist_checkpoint|async_save|load_checkpoint", re.I
)
_TRAIN_FRAME: Final = re.compile(
    r"train_(?:step|batch|one_epoch|epoch|iter\w*)|training_step|forward_backward|(?:^|\s)backward(?:\s|$)|run_backward"
    r"|optimizer_step|clip_grad|_inner_training_loop|compute_loss|forward_step|zero_grad|allreduce_grad|reduce_grad",
    re.I,
)
_SETUP_FRAME: Final = re.compile(
    r"__init__|__post_init__|from_pretrained|from_config|(?:build|get|create|load|init|setup|prepare|wrap)_(?:model|tokenizer"
    r"|optimizer|distributed|process_group|parallel|config|megatron|engine|training)\w*|init_process_group|initialize\w*"
    r"|parse_args|validate_\w+|model_provider|convert_model|import_module|_find_and_load|exec_module",
    re.I,
)
_CONFIG_FRAME: Final = re.compile(
    r"config|argument|argparse|hydra|omegaconf|validate_arch|parse_args|__post_init__", re.I
)
_CONFIG_WORDS: Final = re.compile(
    r"must be|should be|not a multiple|divisible|invalid (?:choice|value|option)|unknown (?:option|key|field)|"
    r"unsupported|not supported|configur|missing required|expected one of|please (?:set|specify|provide)",
    re.I,
)
_DATA_WORDS: Final = re.compile(r"corrupt|truncat|malformed|decode|sample|record|token id|label", re.I)
_LIBRARY_PATH: Final = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen")
_DATA_EXCEPTIONS: Final = frozenset({"EOFError", "UnicodeError", "StopIteration"})
_RESOURCE_EXCEPTIONS: Final = frozenset({"MemoryError", "OutOfMemoryError"})
_NETWORK_EXCEPTIONS: Final = frozenset(
    {
        "ConnectionError",
        "ConnectionResetError",
        "ConnectionRefusedError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "TimeoutError",
        "timeout",
    }
)
_SYSTEM_ERRORS: Final = (
    (
        re.compile(
            r"Connection (?:refused|timed out)|No route to host|Network is (?:down|unreachable)|Too Many Requests"
            r"|[Nn]ame or service not known|Temporary failure in name resolution"
        ),
        CauseClass.NETWORK,
    ),
    (
        re.compile(r"Stale file handle|Input/output error|Remote I/O error|Transport endpoint|Read-only file system"),
        CauseClass.STORAGE,
    ),
    (re.compile(r"Cannot allocate memory|Too many open files|No space left|[Dd]isk quota"), CauseClass.USER_RESOURCE),
    (
        re.compile(r"Permission denied|Operation not permitted|[Aa]ddress already in use|Cannot assign requested"),
        CauseClass.USER_CONFIG,
    ),
)
"""Words of the C library (strerror) and of HTTP, which mean the same whichever program repeats them."""

_LANGUAGE_ERRORS: Final = frozenset(
    {
        "AssertionError", "AttributeError", "ImportError", "IndentationError", "IndexError", "KeyError", "LookupError",
        "ModuleNotFoundError", "NameError", "NotImplementedError", "RecursionError", "SyntaxError", "TypeError",
        "UnboundLocalError", "ValueError", "ZeroDivisionError",
    }
)  # fmt: skip
"""Exceptions that Python raises for the program's own text. Others (`RuntimeError`) come from libraries and devices."""

_FALLBACKS: Final = frozenset({CauseClass.USER_CODE, CauseClass.FRAMEWORK, CauseClass.UNKNOWN})
"""Classes that are given where nothing else fits."""


def class_of_exception(name: str, shape: Shape, *, training: bool) -> CauseClass:
    """The likeliest class: by the system's words, by name, data by frames, configuration by words, else user code."""
    for words, cause in _SYSTEM_ERRORS:
        if words.search(shape.text):
            return cause
    short = name.rsplit(".", 1)[-1]
    if short in _RESOURCE_EXCEPTIONS:
        return CauseClass.USER_RESOURCE
    if short in _NETWORK_EXCEPTIONS:
        return CauseClass.NETWORK
    inner = " ".join(f"{file} {function}" for file, function in shape.frames[-6:])
    if short in _DATA_EXCEPTIONS or _DATA_FRAME.search(inner):
        return CauseClass.USER_DATA
    if not training and (_CONFIG_FRAME.search(inner) or _CONFIG_WORDS.search(shape.text)):
        return CauseClass.USER_CONFIG
    if _DATA_WORDS.search(shape.text) and training:
        return CauseClass.USER_DATA
    if short == "OSError":
        return CauseClass.STORAGE
    if shape.frames and all(_LIBRARY_PATH.search(file) for file, _ in shape.frames):
        return CauseClass.FRAMEWORK
    return CauseClass.USER_CODE if shape.frames or short in _LANGUAGE_ERRORS else CauseClass.UNKNOWN


def stage_from_frames(shape: Shape, stage: Stage, *, training: bool) -> Stage:
    """A sharper stage where the stack of an exception shows what the program was doing.

    Before training a stack through the data loader means the data stage; during training it is part of the step. A
    stack through evaluation or checkpoint code names that stage at any time after the start, one through a training
    step means training whatever was printed before. `training`: at least one iteration was completed.
    """
    inner = " ".join(f"{file} {function}" for file, function in shape.frames)
    functions = " ".join(function for _, function in shape.frames)
    if stage in NOT_YET_TRAINING or (stage is Stage.TRAIN and not training):
        if _SAVE_FRAME.search(functions):
            return Stage.CHECKPOINT
        deep = " ".join(f"{file} {function}" for file, function in shape.frames[-8:])
        if _DATA_FRAME.search(deep) or (
            re.search(r"FileNotFound|No such file", shape.text) and _names_data(shape.text)
        ):
            return Stage.DATA
        if _TRAIN_FRAME.search(functions):
            return Stage.TRAIN
        if stage in (Stage.UNKNOWN, Stage.LAUNCH) and _SETUP_FRAME.search(functions):
            return Stage.INIT
        return Stage.INIT if stage is Stage.LAUNCH and shape.frames else stage
    if _SAVE_FRAME.search(functions):
        return Stage.CHECKPOINT
    if _EVAL_FRAME.search(functions) and "train_step" not in inner:
        return Stage.EVAL
    return stage


def _names_data(text: str) -> bool:
    return bool(
        re.search(
            r"data|train|valid|corpus|\.(?:bin|idx|hdf5|h5|parquet|jsonl?|tar|rec|pyt|arrow|csv|txt)\b", text, re.I
        )
    )


def explain_failure(
    log: JobLog, blame: Blame, terminal: list[Incident], progress: Progress, ends: EndMarks, rules: LogRules = RULES
) -> Cause:
    """The cause of a failed run, with a confidence that fits the evidence."""
    training = progress.last_iteration is not None
    if blame.root is not None:
        return _cause_of_root(log, blame.root, blame, rules, training=training)
    complaint = next((i for i in terminal if i.proves_failure), None)
    if blame.death is not None:
        return _cause_of_death(blame, rules)
    if blame.silent:
        waits = blame.lagging or (complaint is not None and complaint.fault is not None and complaint.fault.hang)
        what = "stopped answering" if waits else "died"
        summary = f"a rank {what} without writing an error; the others only report its absence"
        advice = "Look at that node: kernel log, BMC, power, OOM killer; drain it if nothing explains it."
        return Cause(CauseClass.HARDWARE_NODE, None, rules.confidence.silent_rank, summary, advice)
    if blame.suspects and blame.suspects[0].score > rules.hearsay:
        summary = "ranks lost the connection to one peer"
        advice = "Check that peer's node and its link."
        return Cause(CauseClass.NETWORK, None, rules.confidence.lost_peer, summary, advice)
    if complaint is not None and complaint.fault is not None:
        fault = complaint.fault
        summary = f"{fault.summary}; no line names the cause and no rank differs from the others"
        return Cause(CauseClass.UNKNOWN, fault.id, rules.confidence.only_that_it_failed, summary, fault.advice)
    if ends.first(Meaning.GAVE_UP):
        summary = "the run ended without reaching its target"
        advice = "Check hyper-parameters and data."
        return Cause(CauseClass.UNKNOWN, None, rules.confidence.only_that_it_failed, summary, advice)
    return Cause(CauseClass.UNKNOWN, None, 0.0, "no cause found", "")


def _cause_of_root(log: JobLog, root: Incident, blame: Blame, rules: LogRules, *, training: bool) -> Cause:
    sure = rules.confidence
    shape = log.shapes[root.shape]
    everyone = "; it hits every rank alike, so no node is to blame" if blame.widespread else ""
    if root.fault is None:
        cause = class_of_exception(root.exception or "", shape, training=training)
        text = shape.text.strip()[:160]
        short = (root.exception or "").rsplit(".", 1)[-1]
        clear = short in _LANGUAGE_ERRORS or cause not in _FALLBACKS
        confidence = sure.clear_exception if clear else sure.vague_exception
        return Cause(cause, None, confidence, text + everyone, "Read the traceback at the first line shown.")
    fault = root.fault
    confidence = sure.known_line if blame.suspects or blame.widespread else sure.known_line_of_nobody
    if fault.echo or fault.weight < rules.several_meanings:
        confidence -= sure.second_hand
    cause = fault.cause
    if cause in (CauseClass.USER_CODE, CauseClass.UNKNOWN) and shape.frames:
        finer = class_of_exception(fault.id, shape, training=training)
        cause = finer if finer not in _FALLBACKS or cause is CauseClass.UNKNOWN else cause
    return Cause(cause, fault.id, round(confidence, 2), fault.summary + everyone, fault.advice)


_DEATHS: Final = (
    (re.compile(r"Out Of Memory"), CauseClass.USER_RESOURCE, "its memory limit was exceeded"),
    (re.compile(r"Segmentation fault|SIGSEGV|signal 11$|139$"), CauseClass.USER_CODE, "a segmentation fault"),
    (re.compile(r"Bus error|SIGBUS|signal 7$|135$"), CauseClass.USER_RESOURCE, "a bus error"),
    (re.compile(r"Killed|SIGKILL|signal 9$|137$"), CauseClass.UNKNOWN, "the OOM killer, the node or someone killed it"),
    (re.compile(r"the node failed"), CauseClass.HARDWARE_NODE, "its node is gone"),
    (re.compile(r"heartbeats|died"), CauseClass.UNKNOWN, "its process or node is gone"),
)


def _cause_of_death(blame: Blame, rules: LogRules) -> Cause:
    """A process that a launcher saw end, without a line of its own on why."""
    assert blame.death is not None  # noqa: S101 (the caller has checked it)
    report = blame.death.report
    how = report.manner
    summary = f"{report.launcher.value} reports the first process that ended ({how}); it wrote no error of its own"
    advice = "Read the end of that process's own log and the kernel log of its node (OOM killer, Xid)."
    for pattern, cause, what in _DEATHS:
        if pattern.search(how):
            unclear = cause is CauseClass.UNKNOWN
            confidence = rules.confidence.only_that_it_failed if unclear else rules.confidence.death_of_a_kind
            return Cause(cause, None, confidence, f"{summary}: {what}", advice)
    return Cause(CauseClass.UNKNOWN, None, rules.confidence.only_that_it_failed, summary, advice)
