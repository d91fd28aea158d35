"""`./workshop doctor`: is this machine fit for the workshop, and if not, what to do."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from kit import run
from kit.stages import ROOT, stages

REBUILD = "Delete the folder .venv and start ./workshop again."


class Check(NamedTuple):
    """One finding: its name, what was found, and what to do when it is a problem."""

    name: str
    found: str
    advice: str = ""

    @property
    def ok(self) -> bool:
        return not self.advice


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    newer = sys.version_info[:2] > (3, 13)
    return Check("python", version + (", newer than the tested ones" if newer else ""))


def check_venv() -> Check:
    if Path(sys.prefix).resolve() == (ROOT / ".venv").resolve():
        return Check("venv", ".venv")
    if sys.prefix != sys.base_prefix:
        return Check("venv", f"another one: {sys.prefix}")
    return Check("venv", f"none: {sys.prefix}", "Start with ./workshop: it builds one.")


def requirements() -> Iterator[tuple[str, str]]:
    """(package, bounds such as `>=2,<3`) for each line of requirements.txt."""
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([\w.-]+)\s*([^#]*)", line):
            yield match[1], match[2].strip()


def within(version: str, bounds: str) -> bool:
    """Does a release version satisfy bounds made of >= and < alone?"""
    mine = _numbers(version)
    for bound in filter(None, bounds.split(",")):
        limit = _numbers(bound)
        if not (mine >= limit if bound.strip().startswith(">=") else mine < limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_packages() -> Check:
    found, wrong = [], []
    for name, bounds in requirements():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"{name} missing")
            wrong.append(name)
            continue
        found.append(f"{name} {version}")
        if not within(version, bounds):
            wrong.append(name + bounds)
    advice = ""
    if wrong:
        advice = f"Wrong or missing: {', '.join(wrong)}. {REBUILD}"
    return Check("packages", ", ".join(found), advice)


def check_imports() -> Check:
    names = "anthropic, dotenv, pytest"
    done = _try([sys.executable, "-c", f"import {names}"])
    if done.returncode == 0:
        return Check("imports", names)
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Check("imports", reason, REBUILD)


def check_bash() -> Check:
    path = shutil.which("bash")
    if not path:
        return Check("bash", "not on the PATH", "Install bash: every stage runs it.")
    done = _try([path, "-c", "echo $BASH_VERSION"])
    if done.returncode:
        return Check("bash", f"{path} does not run", "Repair it: every stage runs it.")
    return Check("bash", f"{done.stdout.strip()}, {path}")


def _try(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace")


def check_stages() -> Check:
    names = stages()
    if names:
        return Check("stages", ", ".join(names))
    return Check("stages", "none found", f"Fetch the repository again into {ROOT}.")


def check_env_file() -> Check:
    path = run.ENV_FILE
    if not path.exists():
        return Check(".env", "none (practice needs none)")
    try:
        text = path.read_text(encoding="utf-8")
    except IsADirectoryError:
        return Check(".env", "is a directory", "Move it away: cp .env.example .env")
    except (OSError, UnicodeDecodeError) as error:
        return Check(".env", f"cannot be read: {error}", "Write it anew as UTF-8 text.")
    if text.startswith("\ufeff"):
        return Check(".env", "starts with a byte order mark", "Save it without one.")
    from dotenv.parser import parse_stream

    parsed = list(parse_stream(io.StringIO(text)))
    for binding in parsed:
        if binding.error:
            # The blank lines above a statement are part of it.
            blank = re.match(r"\s*", binding.original.string)
            number = binding.original.line + (blank[0].count("\n") if blank else 0)
            return Check(".env", f"line {number} is not NAME=value", "Correct it.")
    names = sorted({b.key for b in parsed if b.key and b.value})
    return Check(".env", f"sets {', '.join(names)}" if names else "sets nothing yet")


def check_live() -> Check:
    """Key and model for --live, never shown; having neither is no problem."""
    try:
        found = run.settings(os.environ)
    except run.NotReady:
        return Check("live", "unknown, .env cannot be read")
    keys = [name for name in run.KEYS if name in found]
    if not keys:
        return Check("live", "no key (practice needs none)")
    if "MODEL_ID" not in found:
        advice = "Put MODEL_ID into .env, for example MODEL_ID=claude-haiku-5-5."
        return Check("live", f"{keys[0]} is set, MODEL_ID is not", advice)
    address = run.without_login(found.get("ANTHROPIC_BASE_URL", run.REAL_API))
    source = "the environment" if os.environ.get(keys[0], "").strip() else ".env"
    return Check("live", f"{keys[0]} from {source}, {found['MODEL_ID']} at {address}")


def check_writable() -> Check:
    for folder in (run.WORKSPACE, run.LOGS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            advice = "Make it writable, or copy the repository to where you may write."
            return Check("folders", f"{folder}: {error.strerror}", advice)
    return Check("folders", f"{run.WORKSPACE.name} and work/logs are writable")


def check_terminal() -> Check:
    encoding = (sys.stdout.encoding or "unknown").lower()
    if encoding.replace("-", "") == "utf8":
        return Check("terminal", encoding)
    return Check("terminal", encoding, "export LC_ALL=C.UTF-8 (or en_US.UTF-8).")


def check_loopback() -> Check:
    """Can this machine open a port on 127.0.0.1 and reach it?"""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            with socket.create_connection(address, timeout=5):
                pass
    except OSError as error:
        advice = "Allow connections to 127.0.0.1 (firewall, sandbox, container)."
        return Check("loopback", str(error), advice)
    return Check("loopback", f"127.0.0.1:{address[1]} answers")


def check_proxy() -> Check:
    proxies = [name for name in run.PROXIES if os.environ.get(name)]
    if not proxies:
        return Check("proxy", "none set")
    if unusable := run.unusable_proxies(os.environ):
        advice = f"unset {' '.join(unusable)} to start a stage without ./workshop run."
        return Check("proxy", f"{', '.join(unusable)} is unusable for the SDK", advice)
    excluded = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    hosts = [host.strip() for host in excluded.split(",")]
    if "*" in hosts or "127.0.0.1" in hosts:
        return Check("proxy", f"{', '.join(proxies)}; loopback is excluded")
    advice = (
        f"export NO_PROXY={run.no_proxy(os.environ)} when you use ./workshop serve "
        "(./workshop run does so by itself)."
    )
    return Check("proxy", f"{', '.join(proxies)} would catch 127.0.0.1", advice)


CHECKS: list[Callable[[], Check]] = [
    check_python,
    check_venv,
    check_packages,
    check_imports,
    check_bash,
    check_stages,
    check_env_file,
    check_live,
    check_writable,
    check_terminal,
    check_loopback,
    check_proxy,
]


def report(as_json: bool = False) -> int:
    """Print every finding as it is made: 0 when all are ok, else 1."""
    logging.getLogger("dotenv").setLevel(logging.ERROR)  # check_env_file says it
    found = []
    for check in CHECKS:
        found.append(check())
        if not as_json:
            print(as_line(found[-1]), flush=True)
    fine = all(check.ok for check in found)
    if as_json:
        checks = [{**check._asdict(), "ok": check.ok} for check in found]
        print(json.dumps({"ok": fine, "checks": checks}, indent=2))
    else:
        print("\nAll is well." if fine else "\nSee the lines marked problem.")
    return 0 if fine else 1


def as_line(check: Check) -> str:
    """`ok       name      what was found`, a problem with its advice below."""
    word = "ok" if check.ok else "problem"
    line = f"{word:8} {check.name:9} {check.found}"
    return line if check.ok else f"{line}\n{'':18} -> {check.advice}"
