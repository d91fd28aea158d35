"""A learner's copy of the workshop for tests that start it as a learner does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kit.stages import ROOT

# A stage in the small: it says where it runs and with what, then reads its lines.
SMALL_STAGE = """
import json, os, signal, sys
from pathlib import Path
from dotenv import load_dotenv
load_dotenv(Path(__file__).resolve().parents[1] / ".env")
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
print(json.dumps({"cwd": os.getcwd(), "env": dict(os.environ)}), flush=True)
while True:
    line = sys.stdin.readline()
    print("read", ascii(line), flush=True)
    if line.startswith("exit"):
        sys.exit(int(line.split()[1]))
    if line.startswith("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if not line:
        sys.exit(0)
"""


class Tree:
    """A learner's copy of the workshop, and ways to start it."""

    def __init__(self, root, bin_dir):
        self.root = root
        self.env = {"PATH": f"{bin_dir}:/usr/bin:/bin"}
        self.started = []

    def popen(self, *words, env=None, cwd=None, program=None, **options):
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        child = subprocess.Popen(
            [program or self.root / "workshop", *words],
            env={**self.env, **(env or {})},
            cwd=cwd or self.root,
            text=True,
            **options,
        )
        self.started.append(child)
        return child

    def end_processes(self):
        """Ends what a failed test left running."""
        for child in self.started:
            child.kill()
            child.communicate()

    def start(self, *words, typed="", **options):
        """Runs to the end: (exit code, stdout, stderr)."""
        child = self.popen(*words, **options)
        out, err = child.communicate(typed, timeout=60)
        return child.returncode, out, err

    def stage_says(self, *words, **options):
        """What the small stage printed about itself, and the lines it read."""
        code, out, err = self.start(*words, **options)
        lines = out.splitlines()
        begun = next((n for n, line in enumerate(lines) if line.startswith("{")), None)
        assert begun is not None, f"the stage did not start: exit {code}\n{out}\n{err}"
        return json.loads(lines[begun]), lines[begun + 1 :]


def borrow_packages(venv):
    """Makes `venv` a virtual environment with this Python and its packages."""
    (venv / "bin").mkdir(parents=True)
    python = os.path.realpath(sys.executable)
    (venv / "bin" / "python").symlink_to(python)
    (venv / "lib").symlink_to(Path(sys.prefix) / "lib")
    (venv / "pyvenv.cfg").write_text(f"home = {os.path.dirname(python)}\n")


def learner_copy(tmp_path):
    """A copy with two small stages, whose path has a space and an accent in it."""
    root = tmp_path / "learner's café copy"
    root.mkdir()
    shutil.copytree(ROOT / "kit", root / "kit", ignore=lambda *_: ["__pycache__"])
    for name in ("workshop", "requirements.txt", "pyproject.toml"):
        shutil.copy2(ROOT / name, root / name)
    for name in ("s01_small_one", "s02_small_two"):
        (root / name).mkdir()
        (root / name / "code.py").write_text(SMALL_STAGE)
    borrow_packages(root / ".venv")
    python = os.path.realpath(sys.executable)
    stamp = python.encode() + b"\n" + (root / "requirements.txt").read_bytes()
    (root / ".venv" / "workshop-installed").write_bytes(stamp)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(python)
    return Tree(root, tmp_path / "bin")


def read_until(stream, text):
    """The lines of a running process up to the one that holds `text`."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} did not come in:\n{''.join(lines)}")
