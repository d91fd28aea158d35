"""Run one stage as a learner does: its own process, its own folder, a model to ask.

Practising, the model is the practice server in this process. With --live the same
server passes every exchange on to the real API. The stage cannot tell the difference,
and the exchanges are logged either way.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kit.stages import ROOT, short_name, stage_file

if TYPE_CHECKING:
    from kit.server import Server

WORKSPACE = ROOT / "practice-workspace"
LOGS = ROOT / "work" / "logs"
ENV_FILE = ROOT / ".env"
PRACTICE_KEY = "practice"
PRACTICE_MODEL = "practice"
REAL_API = "https://api.anthropic.com"
LOOPBACK = ("127.0.0.1", "localhost")
PROXIES = tuple(
    spelling
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for spelling in (name, name.lower())
)
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class NotReady(Exception):
    """Why a run cannot start and what to do, in one line."""


def settings(environ: Mapping[str, str], env_file: Path = ENV_FILE) -> dict[str, str]:
    """The settings a stage will see: the environment, then .env for what it lacks.

    An empty variable counts as unset. Raises NotReady when .env cannot be read.
    """
    found: dict[str, str] = {}
    if env_file.exists():
        from dotenv import dotenv_values

        try:
            values = dotenv_values(env_file)
        except (OSError, ValueError) as error:
            raise NotReady(f"{shown(env_file)} cannot be read: {error}.") from error
        found.update({name: value for name, value in values.items() if value})
    found.update({name: value for name, value in environ.items() if value.strip()})
    return {name: value for name, value in found.items() if value.strip()}


def no_proxy(environ: Mapping[str, str]) -> str:
    """NO_PROXY with loopback added to the hosts it excludes already."""
    listed = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    hosts = [host.strip() for host in listed.split(",") if host.strip()]
    return ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])


def unusable_proxies(environ: Mapping[str, str]) -> list[str]:
    """The proxy variables, such as of SOCKS, with which the SDK does not even start."""
    schemes = ((name, environ.get(name, "").partition("://")) for name in PROXIES)
    return [
        name
        for name, (scheme, mark, _) in schemes
        if mark and scheme.lower() not in ("http", "https")
    ]


def reaching_loopback(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with which the SDK reaches 127.0.0.1, whatever proxy is set.

    It would send loopback through HTTP_PROXY as well.
    """
    dropped = unusable_proxies(environ)
    env = {name: value for name, value in environ.items() if name not in dropped}
    return {**env, "NO_PROXY": no_proxy(environ), "no_proxy": no_proxy(environ)}


def practice_env(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """A stage's environment for practice: nothing of the learner's account is in it.

    Every ANTHROPIC_ variable goes, and .env stays unread: a real key, address or
    header in either must reach nobody while practising.
    """
    env = reaching_loopback(environ)
    return {
        **{name: env[name] for name in env if not name.startswith("ANTHROPIC_")},
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": PRACTICE_KEY,
        "MODEL_ID": PRACTICE_MODEL,
        "PYTHON_DOTENV_DISABLED": "1",
    }


def live_env(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """A stage's environment for the real API, by way of the logging proxy at `url`."""
    return {**reaching_loopback(environ), "ANTHROPIC_BASE_URL": url}


def live_upstream(environ: Mapping[str, str]) -> tuple[str, str]:
    """(address of the real API, model) for --live. Raises NotReady."""
    found = settings(environ)
    if not any(name in found for name in KEYS):
        raise NotReady(
            "--live needs a key: put ANTHROPIC_API_KEY into .env (cp .env.example "
            ".env). Without --live no key is needed."
        )
    if "MODEL_ID" not in found:
        raise NotReady(
            "--live needs a model: put MODEL_ID into .env, for example "
            "MODEL_ID=claude-haiku-5-5."
        )
    return found.get("ANTHROPIC_BASE_URL", REAL_API), found["MODEL_ID"]


def as_typed(prompts: Sequence[str]) -> bytes:
    """The prompts as lines on stdin; a prompt is one line, whatever breaks it has."""
    lines = (re.sub(r"[\r\n]+", " ", prompt) + "\n" for prompt in prompts)
    return b"".join(os.fsencode(line) for line in lines)


def shown(path: Path) -> str:
    """A path as a person in the current directory would write it."""
    with suppress(ValueError, OSError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def without_login(address: str) -> str:
    """An address to print: without the user and password it may hold."""
    return re.sub(r"//[^/@]*@", "//", address)


def run_stage(stage: str, prompts: Sequence[str] = (), live: bool = False) -> int:
    """Run a stage until it ends: its exit code. Raises NotReady.

    `prompts` are typed for the learner, then the input ends; an approval question
    takes the next of them. Without prompts the stage has the terminal.
    """
    upstream, model = live_upstream(os.environ) if live else (None, PRACTICE_MODEL)
    log = LOGS / f"{short_name(stage)}.jsonl"
    server = start_server(log, upstream=upstream)
    make_env = live_env if live else practice_env
    try:
        print(introduction(stage, log, upstream, model), flush=True)
        command = [sys.executable, str(stage_file(stage))]
        return run_child(command, make_env(os.environ, server.url), prompts)
    finally:
        server.close()


def start_server(log: Path, port: int = 0, upstream: str | None = None) -> Server:
    """The practice server, or the proxy to `upstream`. Raises NotReady."""
    from kit import server

    try:
        WORKSPACE.mkdir(exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotReady(f"Cannot write {error.filename}: {error.strerror}.") from error
    try:
        return server.start(port=port, log=log, upstream=upstream)
    except OSError as error:
        hint = "Leave out --port for a free one." if port else "Try ./workshop doctor."
        where = f"port {port}" if port else "127.0.0.1"
        reason = error.strerror or error
        raise NotReady(f"Cannot serve on {where}: {reason}. {hint}") from error


def introduction(stage: str, log: Path, upstream: str | None, model: str) -> str:
    """What is about to run, where it works, and where its exchanges are logged."""
    if upstream:
        where = without_login(upstream)
        model = f"Model: {model} at {where}. Your key is used and may be billed."
    else:
        model = "Model: a practice script, not a real model. No key, no cost."
    return (
        f"{stage}\n{model}\n"
        f"Workspace: {shown(WORKSPACE)}\nExchanges: {shown(log)}\n"
    )


def run_child(
    command: Sequence[str], env: Mapping[str, str], prompts: Sequence[str]
) -> int:
    """Run a command in the workspace and wait for it: its exit code."""
    with outliving_the_child() as children:
        child = subprocess.Popen(
            command,
            cwd=WORKSPACE,
            env=env,
            stdin=subprocess.PIPE if prompts else None,
        )
        children.append(child)
        if child.stdin:
            # The stage may leave before it has read every line.
            with suppress(BrokenPipeError):
                child.stdin.write(as_typed(prompts))
            with suppress(BrokenPipeError):
                child.stdin.close()
        code = child.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def outliving_the_child() -> Iterator[list[subprocess.Popen[bytes]]]:
    """While this lasts, Ctrl-C is the child's alone, and other endings are passed on.

    A handler that does nothing, not SIG_IGN: a child inherits an ignored signal.
    """
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    def leave_to_child(number: int, frame: FrameType | None) -> None:
        pass

    wanted = {
        signal.SIGINT: leave_to_child,
        signal.SIGTERM: pass_on,
        signal.SIGHUP: pass_on,
    }
    before = {number: signal.getsignal(number) for number in wanted}
    for number, handler in wanted.items():
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield children
    finally:
        for number, old in before.items():
            signal.signal(number, old)
