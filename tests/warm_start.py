"""Runs many Python programs that import the SDK, which costs a second, only once.

warm_start.py FOLDER: FOLDER/jobs.json lists {"script", "cwd", "env"}. Job number N
reads N.in and writes N.out and N.err there; the exit codes are printed as JSON. Each
job is a process of its own, forked from one that has the packages in memory: what it
does itself, from the stage's first line to its exit code, is as with `python script`.
"""

import gc
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import anthropic  # noqa: F401
import dotenv  # noqa: F401

AT_ONCE = 2


def become(job, folder, number):
    """Turns this process into the job, all but running its script."""
    for descriptor, end in enumerate(("in", "out", "err")):
        flags = os.O_RDONLY if end == "in" else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(folder / f"{number}.{end}", flags), descriptor)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.argv[:] = [job["script"]]
    sys.path[0] = os.path.dirname(job["script"])


def next_job(folder):
    """The job this process is to run, or None in the parent once all have ended."""
    jobs = json.loads((folder / "jobs.json").read_text())
    numbers, codes = {}, [None] * len(jobs)
    gc.freeze()  # a job's garbage collection then passes over the SDK
    for number, job in enumerate(jobs):
        if len(numbers) == AT_ONCE:
            take_one(numbers, codes)
        child = os.fork()
        if not child:
            become(job, folder, number)
            return job
        numbers[child] = number
    while numbers:
        take_one(numbers, codes)
    print(json.dumps(codes))
    return None


def take_one(numbers, codes):
    """Waits for one of the running jobs and notes its exit code."""
    child, status = os.wait()
    codes[numbers.pop(child)] = os.waitstatus_to_exitcode(status)


def run(script):
    """Runs a program as `python script` does; its exit code."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        return left.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    mine = next_job(Path(sys.argv[1]))
    if mine:
        code = run(mine["script"])
        gc.collect()  # what an object says as it goes belongs to the program's output
        sys.stdout.flush()
        os._exit(code)  # to take down the whole SDK costs half as much as to import it
