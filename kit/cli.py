"""The commands of `./workshop`: what each takes, what it says, which code does it."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import NoReturn

from kit import run, status
from kit.stages import ROOT, find_stage, short_name, stages


class Usage(Exception):
    """What is wrong with the command line and how to write it, in one or two lines."""


class Parser(argparse.ArgumentParser):
    """argparse that answers a mistake with a sentence, not with its usage block."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message[:1].upper()}{message[1:]}.\nSee {self.prog} --help.")


def a_stage(word: str) -> str:
    """The stage a word means. Raises Usage."""
    try:
        return find_stage(word)
    except LookupError as error:
        raise Usage(error.args[0]) from None


def a_port(word: str) -> int:
    """A port number. Raises Usage."""
    if word.isascii() and word.isdigit() and int(word) <= 65535:
        return int(word)
    raise Usage(f"A port is a number from 0 to 65535, not {word!r}.")


def build_parser() -> Parser:
    """The parser, and the help, of every command."""
    parser = Parser("./workshop", description=status.CLAIM)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def add(name: str, usage: str, text: str) -> argparse.ArgumentParser:
        usage = f"./workshop {name} {usage}"
        return commands.add_parser(name, usage=usage, help=text, description=text)

    command = add("run", "STAGE [--live] [--prompt TEXT]...", "Run a stage.")
    command.add_argument("stage", nargs="?", help="s01, 1, agent_loop ...")
    command.add_argument(
        "--prompt",
        action="append",
        default=[],
        metavar="TEXT",
        help="type this, then end; given several times, typed in that order",
    )
    command.add_argument(
        "--live", action="store_true", help="ask the real API: needs a key in .env"
    )
    add("test", "[STAGE] [PYTEST ARGUMENTS]", "Run the tests, or those of one stage.")
    command = add("serve", "[--port N] [--live]", "Serve the practice model.")
    command.add_argument("--port", type=a_port, default=0, help="a free one otherwise")
    command.add_argument(
        "--live", action="store_true", help="log, and pass on to the real API"
    )
    command = add("doctor", "[--json]", "Check this machine; say what to do.")
    command.add_argument("--json", action="store_true", help="for a program to read")
    add("bench", "[ARGUMENTS]", "Measure what the workshop promises.")
    command = add("upkeep", "[--check] [FILE]...", "Fill the docs' generated regions.")
    command.add_argument("files", nargs="*", metavar="FILE", help="all otherwise")
    command.add_argument(
        "--check", action="store_true", help="change nothing, say what is wrong"
    )
    add("status", "", "Where you are and what to do next (also without a command).")
    return parser


def parse(words: list[str]) -> argparse.Namespace:
    """The command and what it was given. Raises Usage, or SystemExit after a help."""
    if not words:
        return argparse.Namespace(command="status")
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    if not words[0].startswith("-"):
        check_command(words[0])
    if words[0] in PASSED_ON and words[1:2] not in (["-h"], ["--help"]):
        return argparse.Namespace(command=words[0], words=words[1:])
    known, rest = build_parser().parse_known_args(words)
    if known.command == "run":
        if not known.stage:
            short = ", ".join(map(short_name, stages()))
            raise Usage(f"Which stage? One of {short}: ./workshop run s01")
        known.stage = a_stage(known.stage)
        if rest and not rest[0].startswith("-"):
            raise Usage(f"What to type goes after --prompt: --prompt {rest[0]!r}.")
    if rest:
        raise Usage(f"Not understood: {' '.join(rest)}.\nSee ./workshop --help.")
    return known


def check_command(word: str) -> None:
    """Raise Usage for an unknown command, with the nearest one, or a stage's."""
    names = [*COMMANDS, "help"]
    if word in names:
        return
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f"Commands: {', '.join(names)}."
    with suppress(LookupError):
        hint = f"Did you mean ./workshop run {short_name(find_stage(word))}?"
    if near:
        hint = f"Did you mean ./workshop {near[0]}?"
    raise Usage(f"There is no command {word!r}. {hint}")


def do_run(arguments: argparse.Namespace) -> int:
    return run.run_stage(arguments.stage, arguments.prompt, arguments.live)


def do_test(arguments: argparse.Namespace) -> int:
    """Run every test, or become pytest for the words given. Raises Usage."""
    lanes = import_module("kit.lanes")
    if not arguments.words:
        return int(lanes.run(lanes.test_files(), []))
    words = [below_tests(word) or word for word in arguments.words]
    first = words[0] if words else "-"
    if first.startswith(("-", str(ROOT))):
        named = any(word.startswith(str(ROOT / "tests")) for word in words)
        targets = [] if named else [str(ROOT / "tests")]
    else:
        stage = a_stage(words.pop(0))
        targets = stage_tests(stage)
        if not words:
            return int(lanes.run(targets, ["--stage", short_name(stage)]))
        words = ["--stage", short_name(stage), *words]
    shown = [os.path.relpath(target, ROOT) for target in targets]
    print("pytest", *shown, *words, flush=True)
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", *targets, *words])


def stage_tests(stage: str) -> list[str]:
    """What a stage must pass: its own test file and those of the stages before it.

    Raises Usage when it has no file of its own.
    """
    found = sorted((ROOT / "tests").glob("test_s[0-9][0-9]_*.py"))
    needed = [path for path in found if path.name[5:8] <= short_name(stage)]
    if not any(path.name[5:8] == short_name(stage) for path in needed):
        raise Usage(f"There is no test file of {stage} in tests/.")
    return [str(path) for path in needed]


def below_tests(word: str) -> str:
    """A test path or id, seen from here or from the root, made absolute; else ''."""
    name, mark, rest = word.partition("::")
    for base in (Path.cwd(), ROOT):
        path = (base / name).resolve()
        if ROOT / "tests" in (path, *path.parents) and path.exists():
            return f"{path}{mark}{rest}"
    return ""


def do_serve(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or a request to end. Raises NotReady."""
    upstream = run.live_upstream(os.environ)[0] if arguments.live else None
    log = run.LOGS / "serve.jsonl"
    server = run.start_server(log, arguments.port, upstream)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(address_lines(server.url, upstream))
        print(f"Exchanges: {run.shown(log)}. Ctrl-C ends the server.", flush=True)
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("\nThe server has ended.")
        return 0
    finally:
        server.close()


def address_lines(url: str, upstream: str | None) -> str:
    """The address, and the lines that point another terminal at it."""
    lines = [f"Serving {url}", "", "Paste into the other terminal:"]
    lines.append(f"export ANTHROPIC_BASE_URL={url}")
    if not upstream:
        lines.append(f"export ANTHROPIC_API_KEY={run.PRACTICE_KEY}")
        lines.append(f"export MODEL_ID={run.PRACTICE_MODEL}")
    if any(os.environ.get(name) for name in run.PROXIES):
        lines.append(f"export NO_PROXY={run.no_proxy(os.environ)}")
    lines.append("")
    if upstream:
        where = run.without_login(upstream)
        lines.append(f"All is passed on to {where}, with the key each caller sends.")
    else:
        lines.append("A practice script answers, not a real model. No key, no cost.")
    return "\n".join(lines)


def do_doctor(arguments: argparse.Namespace) -> int:
    from kit import doctor

    return doctor.report(as_json=arguments.json)


def do_bench(arguments: argparse.Namespace) -> int:
    return int(import_module("kit.bench").main(arguments.words))


def do_upkeep(arguments: argparse.Namespace) -> int:
    """Fill or check the docs. Raises Usage for a file that is not there."""
    from kit import upkeep

    try:
        return upkeep.upkeep(arguments.files, arguments.check, why_not)
    except LookupError as error:
        raise Usage(error.args[0]) from None


def why_not(words: list[str]) -> str | None:
    """What is wrong with the words after `./workshop`, or None when they are right."""
    try:
        with redirect_stdout(StringIO()):
            arguments = parse(words)
        if arguments.command == "test":
            for word in arguments.words[:1]:
                if not word.startswith("-") and not below_tests(word):
                    a_stage(word)
    except Usage as problem:
        return str(problem)
    except SystemExit:  # after a help
        pass
    return None


def do_status(arguments: argparse.Namespace) -> int:
    return status.show()


PASSED_ON = ("test", "bench")
COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": do_run,
    "test": do_test,
    "serve": do_serve,
    "doctor": do_doctor,
    "bench": do_bench,
    "upkeep": do_upkeep,
    "status": do_status,
}


def main(words: list[str]) -> int:
    """Do what the words say: the exit code, 2 when they cannot be followed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # None: closed by the caller
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            arguments = parse(words)
            return COMMANDS[arguments.command](arguments)
        finally:
            sys.stdout.flush()
    except (Usage, run.NotReady) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output left: nothing more to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
