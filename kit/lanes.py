"""Test files in two processes at once: half the wait on two cores."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from kit.stages import ROOT

LANES = 2


def test_files() -> list[str]:
    """The paths of all test files, sorted."""
    return sorted(str(path) for path in (ROOT / "tests").glob("test_*.py"))


def run(files: list[str], words: list[str]) -> int:
    """Run test files with these words for pytest, every other one in a second process.

    The first process prints as it goes, the second when both have ended. Gives back
    pytest's exit code: 0 when every test passed, else the first that is not 0.
    """
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    began = time.monotonic()
    print("pytest", *words, f"({len(files)} test files)", flush=True)
    with tempfile.TemporaryFile() as kept:
        lanes = [
            subprocess.Popen(
                [*pytest, *files[lane::LANES]],
                cwd=ROOT,
                stdin=subprocess.DEVNULL if lane else None,
                stdout=kept if lane else None,
                stderr=subprocess.STDOUT if lane else None,
            )
            for lane in range(min(LANES, len(files)))
        ]
        try:
            codes = [lane.wait() for lane in lanes]
        except KeyboardInterrupt:  # each lane has heard it too, and closes by itself
            codes = [lane.wait() for lane in lanes]
        kept.seek(0)
        sys.stdout.buffer.write(kept.read())
    took = time.monotonic() - began
    verdict = "not all tests passed" if any(codes) else "all tests passed"
    print(f"{verdict}, {took:.0f} s", flush=True)
    return next((code for code in codes if code), 0)
