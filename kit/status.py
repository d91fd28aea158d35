"""`./workshop` alone: the stages, which of them ran here, and the next step."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kit import run
from kit.stages import ROOT, short_name, stages

CLAIM = "A coding agent in five stages: the model decides, Python executes."


def last_run(stage: str, logs: Path = run.LOGS) -> float | None:
    """When a stage last asked a model for anything, in seconds since 1970, or None."""
    log = logs / f"{short_name(stage)}.jsonl"
    try:
        found = log.stat()
    except OSError:
        return None
    return found.st_mtime if found.st_size else None


def key_line() -> str:
    """Whether --live would find a key, in words; the key itself is never shown."""
    try:
        found = run.settings(os.environ)
    except run.NotReady as problem:
        return f"Key: unknown. {problem}"
    for name in run.KEYS:
        if name in found:
            model = found.get("MODEL_ID", "but MODEL_ID is missing")
            return f"Key: {name} is set ({model}); --live uses it."
    return "Key: none, and none is needed to practise."


def lesson(stage: str, root: Path = ROOT) -> str | None:
    """The stage's lesson as a path below the root, or None where there is none."""
    page = f"docs/{stage}.md"
    return page if (root / page).is_file() else None


def next_step(names: list[str], ran: set[str]) -> str:
    """What to read and type next."""
    waiting = [name for name in names if name not in ran]
    if not waiting:
        return "./workshop test"
    page = lesson(waiting[0])
    command = f"./workshop run {short_name(waiting[0])}"
    return f"read {page} beside {command}" if page else command


def show() -> int:
    """Print it all: 0, or 1 when there is no stage to run."""
    names = stages()
    print(f"{CLAIM}\n")
    if not names:
        print("No stage is here. Fetch the repository again.")
        return 1
    times = {name: last_run(name) for name in names}
    width = max(map(len, names))
    for name, seconds in times.items():
        when = "not run yet"
        if seconds:
            when = time.strftime("last run %Y-%m-%d %H:%M", time.localtime(seconds))
        print(f"  {name:{width}}  {when}")
    ran = {name for name, seconds in times.items() if seconds}
    print(f"\n{key_line()}\nNext: {next_step(names, ran)}")
    print("All commands: ./workshop help")
    return 0
