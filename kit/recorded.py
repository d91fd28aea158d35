"""Recorded runs: stages and snippets run for a page, what they print made the same

on every machine. Each program is a process of its own in an empty workspace. It talks
through the real SDK to a practice server that serves nobody else.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import threading
from argparse import Namespace
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kit import run, server, stages
from kit.nest import Nest
from kit.regions import Trouble, chosen, fenced

WORKSPACE = "practice-workspace"
SECONDS = 60  # the most a run may take
# Token counts and clipped texts depend on the length of the workspace's path.
PATH_LENGTH = 40
SETTINGS = {
    "COLUMNS": "88",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "NO_PROXY": "127.0.0.1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNODEBUGRANGES": "1",  # 3.11 added marks under the lines of a traceback
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
    "SSL_CERT_DIR": "/",  # no certificates to load: nothing is encrypted here
    "TERM": "dumb",
    "TZ": "UTC",
}
# What a machine or a moment decides, and what is shown in its place.
VARYING = [
    (r"\b\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?", r"2026-01-01\g<1>12:00:00"),
    (r"\b\d\d:\d\d:\d\d\b(\.\d+)?", "12:00:00"),
    (r"\b\w{3} \w{3} [ \d]\d 12:00:00 UTC \d{4}", "Thu Jan  1 12:00:00 UTC 2026"),
    (r"\b(in|took|after) \d+\.\d+ ?(ms|s|seconds)\b", r"\1 0.1 \2"),
    (r"\b(req|msg)_[0-9A-Za-z]{8,}", r"\1_practice"),
    (r"\b127\.0\.0\.1:(3[2-9]\d{3}|[4-6]\d{4})\b", "127.0.0.1:8000"),  # a free port
    (r"\b0x[0-9a-f]{6,}", "0x7f0000000000"),
    (r"(line \d+): +\d+ (Killed|Terminated|Aborted|Segmentation)", r"\1: 1234 \2"),
    # ls -l: links, owners and dates; the sizes of folders, and the sum above them
    (
        r"^( *[-dl][-rwxst]{9})[.+@]? +\d+ \S+ +\S+ +(\d+) \w+ +\d+ +[\d:]+ ",
        r"\1 1 you you \2 Jan 1 12:00 ",
    ),
    (r"^( *d.{9} 1 you you) \d+ ", r"\1 4096 "),
    (r"^( *)total \d+$", r"\1total 8"),
]


class Job(NamedTuple):
    """A program to run: a stage by its name, or the text of a snippet."""

    stage: str = ""
    snippet: str = ""
    typed: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """How a program ended, and what it printed, made the same everywhere."""

    code: int
    lines: list[str]


class Recorder:
    """Runs each distinct job once, in a nest; may be asked from many threads."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        self._lock = threading.Lock()
        self._outcomes: dict[Job, Future[Outcome]] = {}

    def record(self, job: Job) -> Outcome:
        """The outcome of a job, from the first time it was asked for."""
        with self._lock:
            known = self._outcomes.get(job)
            ours = self._outcomes.setdefault(job, Future())
        if known is None:
            try:
                ours.set_result(self._run(job))
            except BaseException as error:
                ours.set_exception(error)
        return ours.result()

    def _run(self, job: Job) -> Outcome:
        parent = Path("/tmp").resolve()
        name = f"upkeep-{uuid4().hex}"
        base = parent / name[: PATH_LENGTH - len(f"{parent}/")]
        workspace, programs, typed = (base / n for n in (WORKSPACE, "bin", "typed"))
        file, path = stages.stage_file(job.stage), stages.ROOT / job.stage
        try:
            for folder in (base, workspace, programs):
                folder.mkdir()
                folder.chmod(0o755)
            (programs / "python3").symlink_to(os.path.realpath(sys.executable))
            typed.write_bytes(run.as_typed(job.typed))
            if not job.stage:
                file = base / "snippet.py"
                file.write_text(job.snippet, encoding="utf-8")
            machine = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(base)}
            with server.start() as api:
                code = self._nest.run(
                    file=str(file),
                    path=str(path),
                    cwd=str(workspace),
                    env=run.practice_env({**SETTINGS, **machine}, api.url),
                    stdin=str(typed),
                    stdout=str(base / "printed"),
                    seconds=SECONDS,
                )
            printed = (base / "printed").read_text(encoding="utf-8", errors="replace")
        finally:
            shutil.rmtree(base, ignore_errors=True)
        return Outcome(code, same_everywhere(printed, [base, stages.ROOT]))


def same_everywhere(printed: str, bases: list[Path]) -> list[str]:
    """The lines of an output without what depends on the machine or the moment.

    Paths are relative to the bases: the workspace is where `./workshop run` has it. The
    empty prompt that the end of the input leaves is cut off.
    """
    text = printed.replace(os.path.realpath(sys.executable), "python3")
    for path in bases:
        for spelling in (path, path.resolve()):
            text = text.replace(f"{spelling}/", "").replace(str(spelling), ".")
    for pattern, shown in VARYING:
        text = re.sub(pattern, shown, text, flags=re.M)
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    if re.fullmatch(r"s\d\d >>", lines[-1]):
        lines.pop()
    return lines


def run_region(recorder: Recorder, args: Namespace) -> str:
    """The record of a stage that was given these lines, under its command."""
    stage = stages.find_stage(args.stage)
    outcome = recorder.record(Job(stage=stage, typed=tuple(args.prompt)))
    words = [f"--prompt {quoted(prompt)}" for prompt in args.prompt]
    command = f"$ ./workshop run {' '.join([stages.short_name(stage), *words])}"
    return fenced([command, *part(outcome, args)], "text")


def output_region(recorder: Recorder, args: Namespace, snippet: str) -> str:
    """What a snippet printed."""
    if not snippet:
        raise Trouble("no fenced python block stands above")
    return fenced(part(recorder.record(Job(snippet=snippet)), args), "text")


def python_region(recorder: Recorder, args: Namespace) -> str:
    """A snippet kept in a file of the repository, and what it printed."""
    with suppress(OSError, ValueError):
        snippet = (stages.ROOT / args.file).read_text(encoding="utf-8")
        shown = fenced(snippet.rstrip("\n").split("\n"), "python")
        return f"{shown}\n\n{output_region(recorder, args, snippet)}"
    raise Trouble(f"{args.file} cannot be read")


def part(outcome: Outcome, args: Namespace) -> list[str]:
    """The wanted lines, `...` in place of what is left out. Raises Trouble."""
    lines = outcome.lines
    if outcome.code != args.exit:
        printed = "\n".join(["it printed:", *lines])
        raise Trouble(f"ended with {outcome.code}, not with {args.exit}; {printed}")
    first, last = 1, len(lines)
    if args.lines:
        found = re.fullmatch(r"(\d+)-(\d+)", args.lines)
        first, last = map(int, found.groups()) if found else (0, 0)
        if not 1 <= first <= last <= len(lines):
            raise Trouble(f"--lines {args.lines}: there are lines 1-{len(lines)}")
    elif args.start is not None or args.end is not None:
        first, last = chosen(lines, args.start, args.end)
    before = ["..."] if first > 1 else []
    after = ["..."] if last < len(lines) else []
    return [*before, *lines[first - 1 : last], *after]


def quoted(prompt: str) -> str:
    """A prompt as a word for the shell, in double quotes where that is enough."""
    if re.fullmatch(r"[\w.,-]+", prompt):
        return prompt
    return shlex.quote(prompt) if re.search(r'["$`\\!]', prompt) else f'"{prompt}"'
