"""Paths of logs → the files of each job.

A path given for logs may hold the logs of one job or a folder per job. They are several jobs where folders next to each
other hold files of the same ranks (`a/rank0.log`, `b/rank0.log`) or files of the same names, unless the folders
themselves are named as hosts, ranks or attempts are: those are parts of one job. What an archive holds is known once
it was unpacked, and that is done once: it is read as one job first, and divided only if it proves to be several.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from llmprism.errors import UsageError
from llmprism.logs.sources import Dropped, open_logs
from llmprism.logs.tags import identity_of_file

__all__ = ["LogFolder", "divided", "find_log_folders", "parse_logs_option"]

_PART_OF_A_JOB: Final = re.compile(r"^(?:\d+|attempt_?\d*|(?:local[-_]?)?rank[-_]?\d+|std(?:out|err)|logs?)$", re.I)
"""Folders that torchrun and others make within the logs of one job."""

_JOB_NAME: Final = re.compile(r"^[\w.:-]{1,200}$")


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The logs of one job: `prefix` chooses among the files of `path`. `job` is the id that the user gave, if any.

    `archive`: the path is one file, of which only reading says whether it holds the logs of several jobs.
    """

    name: str
    path: Path
    prefix: str = ""
    job: str | None = None
    archive: bool = False

    @property
    def only(self) -> Callable[[str], bool] | None:
        prefix = self.prefix
        # names in archives may begin with `./`
        return (lambda name: str(PurePosixPath(name)).startswith(prefix)) if prefix else None


def parse_logs_option(text: str) -> tuple[str | None, Path]:
    """`DIR` or `JOB=DIR`; a path that exists as it is written is never cut at its equals sign."""
    if "=" in text and not Path(text).exists():
        job, _, path = text.partition("=")
        if not _JOB_NAME.match(job) or not path:
            raise UsageError(f"--logs {text}: give a folder, or JOB=FOLDER with the id of a job")
        return job, Path(path)
    return None, Path(text)


def find_log_folders(option: str) -> tuple[LogFolder, ...]:
    """The jobs whose logs are under what one `--logs` names. InputError where there are none."""
    job, path = parse_logs_option(option)
    if path.is_file():
        return (LogFolder(path.name, path, job=job, archive=job is None),)
    names = [log.file.name for log in open_logs([path], Dropped())]
    return divided(LogFolder(path.name or str(path), path, job=job), names)


def divided(folder: LogFolder, names: list[str]) -> tuple[LogFolder, ...]:
    """The folders of the jobs whose files have these names; the folder itself where they are of one job."""
    parts = _job_folders(names) if folder.job is None else []
    return tuple(LogFolder(part.rstrip("/"), folder.path, part) for part in parts) or (folder,)


def _job_folders(names: list[str]) -> list[str]:
    """Prefixes of names that divide the files into jobs; empty where they are of one job."""
    folders = [PurePosixPath(name).parts[:-1] for name in names]
    if not folders:
        return []
    shared = 0
    while all(len(parts) > shared and parts[shared] == folders[0][shared] for parts in folders):
        shared += 1
    if not all(len(parts) > shared for parts in folders):
        return []
    files: dict[str, set[object]] = defaultdict(set)
    for name, parts in zip(names, folders, strict=True):
        identity = identity_of_file(PurePosixPath(name).name)
        key = identity.rank if identity.rank is not None else "/".join(PurePosixPath(name).parts[shared + 1 :])
        files[parts[shared]].add(key)
    if len(files) < 2 or any(_is_part(folder) for folder in files):
        return []
    tops = sorted(files)
    repeated = any(files[one] & files[other] for at, one in enumerate(tops) for other in tops[at + 1 :])
    prefix = "".join(f"{part}/" for part in folders[0][:shared])
    return [f"{prefix}{top}/" for top in tops] if repeated else []


def _is_part(folder: str) -> bool:
    return bool(_PART_OF_A_JOB.match(folder)) or identity_of_file(f"{folder}/x").node is not None
