"""Stages at work for tests: each at a desk with a terminal, a folder and a server.

The stages play each step at the same time, for most of it is waiting; a step ends at
the prompt it began at. The practice server, the SDK and the shell are the real ones.
"""

import ast
import inspect
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from terminal import Terminal, copy_stages

from kit import practice, server
from kit.stages import stage_file, stages

ALL = tuple(stages())
ASKING = ALL[2:]  # the stages that ask before they delete


class Desk:
    """A stage at its prompt in a folder of its own, and the server it asks."""

    def __init__(self, stage, folder, script, **env):
        folder.mkdir(parents=True)
        self.stage, self.folder, self.script = stage, folder, script
        self.name = stage[:3]
        self.log = folder.with_suffix(".log")
        self.server = server.start(log=self.log)
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "NO_PROXY": "127.0.0.1",
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "practice",
            "MODEL_ID": "practice",
            "PYTHON_DOTENV_DISABLED": "1",
            **env,
        }
        self.sit_down()

    def sit_down(self):
        """Starts the stage; its prompt is not there yet."""
        words = sys.executable, self.script
        self.terminal = Terminal(*words, env=self.env, cwd=self.folder)
        self.prompt, self.type = f"{self.name} >> ", self.terminal.type
        self.wait_for, self.ready = self.terminal.wait_for, False

    def play(self, step):
        """One step of a test, from a prompt to a prompt; what goes wrong, as text."""
        try:
            if self.terminal.process.poll() is not None:
                self.terminal.close()
                self.sit_down()
            if not self.ready:
                self.wait_for(self.prompt, within=60)
            self.ready = True
            step(self)
            assert "Traceback" not in self.terminal.shown
        except Exception as error:
            self.terminal.close()
            what = str(error) if isinstance(error, AssertionError) else repr(error)
            return f"{self.name}: {what}\nThe terminal:\n{self.terminal.shown}"

    def say(self, line, within=10):
        """Types a line; what is shown from it to the next prompt."""
        self.type(line + "\r")
        return self.wait_for(self.prompt, within)

    def exchanges(self):
        """What the server has in its log, oldest first."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def last_sent(self):
        """The content of the last message of the last request, which was accepted."""
        last = self.exchanges()[-1]
        assert last["status"] == 200, last["response"]
        content = last["request"]["messages"][-1]["content"]
        return [content] if isinstance(content, str) else content

    def close(self):
        self.go_on.set()
        self.terminal.close()
        self.server.close()


def expect_from(pipe, data, what):
    """Waits at most 2 s until this, and nothing else, can be read from a pipe."""
    deadline = time.monotonic() + 2
    while True:
        with suppress(BlockingIOError):
            if os.read(pipe, 100) == data:
                return
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@contextmanager
def command_that_waits(desk):
    """Has bash at work for 3 seconds; a pipe that is open while it lives."""
    path = desk.folder / "alive"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        desk.type("bash (sleep 0.1; echo started; sleep 3; touch late) > alive\r")
        expect_from(pipe, b"started\n", "the command runs")
        yield pipe
    finally:
        os.close(pipe)
        path.unlink()


def hold_some_replies(desks, reply_to):
    """The practice model, but slow for who types `hold` and a stage's name."""

    def reply(body):
        content = body["messages"][-1]["content"]
        last = content if isinstance(content, str) else content[-1].get("text", "")
        if last.startswith("hold "):
            desk = desks[last.split()[1]]
            desk.asked.set()
            desk.go_on.wait(10)
        return reply_to(body)

    return reply


def with_breakpoint(source):
    """The source of a stage with a breakpoint at the start of run_bash."""
    tree = ast.parse(source)
    names = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    at = names["run_bash"].body[1].lineno - 1  # after the docstring
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:at], "    breakpoint()\n", *lines[at:]])


@pytest.fixture(scope="module")
def fleet(request, tmp_path_factory):
    """{fixture: {stage: Desk}}: all that the chosen tests need, started together."""
    folder = tmp_path_factory.mktemp("terminal")
    chosen = {name for item in request.session.items for name in item.fixturenames}
    started = {"desks": {}, "copies": {}}
    if "desks" in chosen:
        for stage in stages():
            desk = Desk(stage, folder / stage, stage_file(stage))
            started["desks"][stage] = desk
    if "copies" in chosen:
        root = copy_stages(folder / "copy", b"MODEL_ID=practice\n", with_breakpoint)
        unset = dict.fromkeys(("MODEL_ID", "PYTHON_DOTENV_DISABLED", "NO_PROXY"), "")
        odd = {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"} | unset
        for stage in stages():
            desk = Desk(stage, folder / f"{stage}-c", root / stage / "code.py", **odd)
            started["copies"][stage] = desk
    by_name = {desk.name: desk for desk in started["desks"].values()}
    with pytest.MonkeyPatch.context() as patch:
        slow = hold_some_replies(by_name, practice.reply_to)
        patch.setattr(practice, "reply_to", slow)
        yield started
    for desk in [desk for group in started.values() for desk in group.values()]:
        desk.close()


@pytest.fixture(scope="module")
def desks(fleet):
    """The stages as they are."""
    return fleet["desks"]


@pytest.fixture(scope="module")
def copies(fleet):
    """Copies with a breakpoint in run_bash, a .env, no colour, an ASCII terminal."""
    return fleet["copies"]


def play_at(fixture, on=ALL):
    """Makes a test of a step that each of these stages plays at its desk."""

    def make(step):
        def test(**given):
            at = [given[fixture][stage] for stage in on]
            with ThreadPoolExecutor(len(at)) as pool:
                wrong = list(filter(None, pool.map(lambda desk: desk.play(step), at)))
            assert not wrong, "\n\n".join(wrong)

        keyword = inspect.Parameter(fixture, inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = inspect.Signature([keyword])
        test.__name__, test.__doc__ = step.__name__, step.__doc__
        return test

    return make
