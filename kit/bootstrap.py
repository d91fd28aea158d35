"""The first start: build .venv beside the launcher, keep it current, hand over.

Runs on whatever Python 3.10+ the learner has, before any package is installed, and at
every later start on the way to kit/cli.py: nothing heavy is imported at the top.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import IO, NoReturn

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "workshop-installed")
PIP_LOG = os.path.join(VENV, "install.log")
LOCK = os.path.join(ROOT, ".venv.lock")
REQUIREMENTS = os.path.join(ROOT, "requirements.txt")

# What a half-built or half-cleared .venv may hold: only such a folder is ever cleared.
VENV_PARTS = {"bin", "include", "lib", "lib64", "share", "pyvenv.cfg", ".gitignore"}
NO_VENV = "ensurepip is not available|No module named '?(ensurepip|venv)"
NO_NETWORK = "connection broken|TimeoutError|ProxyError|from versions: none"


class Problem(Exception):
    """What went wrong and what to do about it, as one paragraph for the learner."""


def start(arguments: list[str]) -> NoReturn:
    """Go on in kit/__main__.py on .venv's Python, after preparing it if need be."""
    try:
        if not ready():
            prepare()
    except Problem as problem:
        sys.exit(f"workshop: {problem}")
    except OSError as error:
        sys.exit(f"workshop: {_cannot_write(error)}")
    except KeyboardInterrupt:
        say("\nworkshop: stopped; start again to go on from here.")
        sys.exit(130)
    command = [PYTHON, os.path.join(ROOT, "kit", "__main__.py"), *arguments]
    try:
        os.execve(PYTHON, command, clean_environment())
    except OSError as error:
        sys.exit(
            f"workshop: {PYTHON} does not start ({error.strerror}). "
            "Delete the folder .venv, then start again."
        )


def say(text: str, end: str = "\n") -> None:
    """To stderr: stdout belongs to the command that follows."""
    print(text, end=end, file=sys.stderr, flush=True)


def clean_environment() -> dict[str, str]:
    """The environment less what ties Python to some other installation."""
    foreign = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in foreign}


def stamp() -> bytes:
    """What a finished install leaves: which Python it is for, and the requirements."""
    with open(REQUIREMENTS, "rb") as file:
        return os.fsencode(os.path.realpath(PYTHON)) + b"\n" + file.read()


def recorded() -> bytes:
    """The stamp of the last finished install; empty when there is none."""
    try:
        with open(STAMP, "rb") as file:
            return file.read()
    except OSError:
        return b""


def ready() -> bool:
    """Is .venv complete and current, and is its Python still there?"""
    return os.path.exists(PYTHON) and recorded() == stamp()


def prepare() -> None:
    """Build or repair .venv, one start at a time. Raises Problem or OSError."""
    began = time.monotonic()
    say("Preparing the workshop: its packages take about a minute.")
    with open(LOCK, "a+", encoding="utf-8") as lock:
        _wait_for_turn(lock)
        if ready():
            return
        lock.seek(0)
        interrupted = bool(lock.read())
        _note(lock, "unfinished")
        if interrupted or not _usable():
            build(lock)
        install(lock)
        _note(lock, "")
    say(f"Ready after {time.monotonic() - began:.0f} s.\n")


def _wait_for_turn(lock: IO[str]) -> None:
    """Take the lock; the system gives it back when its holder ends, however it ends."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another start is preparing it already; waiting for that one.")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _note(lock: IO[str], text: str) -> None:
    """Leave word for the next start: a note means .venv cannot be trusted."""
    lock.truncate(0)
    lock.write(text)
    lock.flush()


def _usable() -> bool:
    """Can .venv be installed into: its Python starts, is the recorded one, has pip?"""
    import subprocess

    python = recorded().partition(b"\n")[0]
    if python not in (b"", os.fsencode(os.path.realpath(PYTHON))):
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 10))"
    command = [PYTHON, "-c", check]
    try:
        done = subprocess.run(command, capture_output=True, env=clean_environment())
    except OSError:
        return False
    return done.returncode == 0


def build(lock: IO[str]) -> None:
    """A new, empty .venv in place of a missing or broken one. Raises Problem."""
    import re

    if os.path.islink(VENV):
        os.unlink(VENV)
    elif os.path.exists(VENV) and not _looks_like_a_venv():
        raise Problem(
            f"{VENV} is there, but it is not a virtual environment. Move it away, then "
            "start again."
        )
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    say(f"  building .venv with Python {version}")
    # Started from inside a virtual environment, build from the Python beneath it.
    python = getattr(sys, "_base_executable", None) or sys.executable
    code, output = _run([python, "-m", "venv", "--clear", VENV], lock)
    if re.search(NO_VENV, output):
        raise Problem(
            "this Python cannot build virtual environments: its venv or ensurepip "
            "module is missing. On Debian and Ubuntu, `sudo apt install "
            f"python{version}-venv` brings it (or python3-venv); elsewhere, install "
            "Python from python.org or a package manager. Then start again."
        )
    if code:
        raise Problem(f"building .venv failed.\n{output.strip()[-800:]}")


def _looks_like_a_venv() -> bool:
    if not os.path.isdir(VENV):
        return False
    names = set(os.listdir(VENV))
    return "pyvenv.cfg" in names or names <= VENV_PARTS


def install(lock: IO[str]) -> None:
    """Install requirements.txt, naming the packages as they come. Raises Problem."""
    import re

    wrote = False

    def show(line: str) -> None:
        nonlocal wrote
        if line.startswith(("Collecting ", "Processing ")):
            name = os.path.basename(line.split()[1])
            say(" " + re.split(r"-\d|[^\w.-]", name)[0], end="")
        elif "Retrying (" in line:
            say(" (no answer, trying again)", end="")
        elif line.startswith("Installing collected packages"):
            wrote = True
            say("\n  installing them", end="")

    say("  fetching packages:", end="")
    pip = [PYTHON, "-m", "pip", "install", "--no-input", "--progress-bar=off"]
    pip += ["--disable-pip-version-check", "-r", REQUIREMENTS]
    try:
        code, output = _run(pip, lock, show)
    except KeyboardInterrupt:
        if not wrote:
            _note(lock, "")
        raise
    say("")
    with open(PIP_LOG, "w", encoding="utf-8") as file:
        file.write(output)
    if code:
        # pip has put back what it touched: what was usable before still is.
        _note(lock, "")
        raise Problem(_explain(output))
    with open(STAMP + ".new", "wb") as new:
        new.write(stamp())
    os.replace(STAMP + ".new", STAMP)


def _run(
    command: list[str], lock: IO[str], seen: Callable[[str], None] | None = None
) -> tuple[int, str]:
    """Run a command, each output line also to `seen`: (exit code, whole output).

    The child holds the lock as well: should this process be killed, the next start
    still waits for a pip that goes on writing.
    """
    import signal
    import subprocess

    quiet = {"PIP_USER": "0", "PIP_RETRIES": os.environ.get("PIP_RETRIES", "2")}
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock.fileno()],
        env={**clean_environment(), **quiet, "PYTHONUNBUFFERED": "1"},
    )
    assert child.stdout is not None
    lines = []
    with child:
        try:
            for line in child.stdout:
                lines.append(line)
                if seen:
                    seen(line)
        except KeyboardInterrupt:
            # Ctrl-C reached the child too: let it end, whatever else is pressed.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            child.communicate()
            raise
    return child.returncode, "".join(lines)


def _explain(output: str) -> str:
    """pip's failure in one paragraph, without the addresses it quotes."""
    import re

    log = os.path.relpath(PIP_LOG, ROOT)
    if "No space left" in output:
        return "the disk is full. Free about 200 MB, then start again."
    if "CERTIFICATE" in output:
        return (
            "the package index's certificate was not accepted. Behind a company proxy, "
            f"set PIP_CERT to its certificate file, then start again. Details: {log}"
        )
    if re.search(NO_NETWORK, output):
        return (
            "the packages could not be fetched: the package index does not answer. "
            "Connect to the network (behind a proxy, set HTTPS_PROXY), then start "
            f"again; it goes on from here. Details: {log}"
        )
    errors = [line for line in output.splitlines() if line.startswith("ERROR")]
    reason = re.sub(r"\S+://\S+", "(address)", "\n".join(errors[-3:]))
    return f"the packages could not be installed. Details: {log}\n{reason}"


def _cannot_write(error: OSError) -> str:
    where = error.filename or ROOT
    return (
        f"cannot write {where} ({error.strerror}). The workshop keeps its packages in "
        "a folder .venv beside itself: copy the whole folder to a place where you may "
        "write, such as your home directory, then start again."
    )
