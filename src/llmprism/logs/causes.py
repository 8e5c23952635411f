"""The class of cause of an incident that no library entry names: from the exception's kind and its stack frames."""

from __future__ import annotations

import re
from typing import Final

from llmprism.logs.shapes import Shape
from llmprism.model.log import CauseClass, Stage

__all__ = ["class_of_exception", "stage_from_frames"]

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


def class_of_exception(name: str, shape: Shape, *, training: bool) -> CauseClass:
    """The likeliest class: resources and network by name, data by frames, configuration by words, else user code."""
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
    return CauseClass.USER_CODE


def stage_from_frames(shape: Shape, stage: Stage, *, training: bool) -> Stage:
    """A sharper stage where the stack of an exception tells what the program was doing.

    Before training a stack through the data loader means the data stage; during training it is part of the step. A
    stack through evaluation or checkpoint code names that stage at any time after the start. `training`: at least one
    iteration was completed.
    """
    inner = " ".join(f"{file} {function}" for file, function in shape.frames)
    functions = " ".join(function for _, function in shape.frames)
    if stage in (Stage.UNKNOWN, Stage.LAUNCH, Stage.INIT, Stage.DATA) or (stage is Stage.TRAIN and not training):
        if _SAVE_FRAME.search(functions):
            return Stage.CHECKPOINT
        deep = " ".join(f"{file} {function}" for file, function in shape.frames[-8:])
        if _DATA_FRAME.search(deep) or (
            re.search(r"FileNotFound|No such file", shape.text) and _names_data(shape.text)
        ):
            return Stage.DATA
        return Stage.INIT if stage in (Stage.UNKNOWN, Stage.LAUNCH) and shape.frames else stage
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
