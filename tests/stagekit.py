"""What the tests of the stages share: fresh stages, scripted turns, clear failures.

A test file says once for which stage its tests were written:

    stage = stage_fixture("s02")  # each test runs on s02 and on every later stage

and then plays turns on it: `play(stage, [bash("ls")], "Done.")`. After each turn
`play` itself checks what must hold whatever the test is about.
"""

import functools
import gc
import io
import os
import re
import signal
import sys
import time
import traceback
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import anthropic
import pytest
from anthropic import Anthropic

from kit.protocol import as_sent, check_history, outline, shorten
from kit.scripted import ScriptedModel, tool_use
from kit.stages import find_stage, short_name, stage_file, stages

gc.freeze()  # the SDK's modules are no garbage: without this, a third of the time

EXCEPTIONS = {}
"""Where a test of an earlier stage rightly fails on a later one, and nowhere else.

(test, first stage on which it fails) -> reason. Such a test is expected to fail
there: one that passes all the same fails the suite.
"""

RULES = {
    "L1": "the loop goes on only while stop_reason is tool_use and a call is there;"
    " every other stop but end_turn is named, and text is no signal",
    "L2": "the assistant's content goes back unchanged, object for object; empty"
    " content never does",
    "L3": "each call is answered by exactly one result with its id, in call order, at"
    " the start of the next user message; a call of a cut reply never runs",
    "L4": "whenever the prompt comes back, the history is one the API accepts, its"
    " roles alternate, finished results are kept and the next line works",
    "L5": "MAX_TURNS is a backstop with a notice of its own",
    "L6": "a tool's failure is an observation: text that starts with Error, and the"
    " loop goes on",
    "L7": "an API error is one line in plain words; the history stays, no traceback",
    "L8": "text beside a call is shown when it arrives; on a terminal each model call"
    " leaves one dim line (turn, tokens, stop reason); no colours elsewhere",
    "L9": "q, exit and end of input leave; an empty line asks again; Ctrl-C cancels the"
    " turn, at an empty prompt it leaves; output never fails",
    "A1": "bash returns when the shell ends; a background child never holds the call"
    " and is ended with it",
    "A2": "a timeout ends the whole group, keeps what was printed and says so",
    "A3": "a command's input is empty; the learner's next line is not its to read",
    "A4": "of a long output head and tail stay, with a line saying how much is missing",
    "A5": "an exit code other than 0 is shown as a fact; no output is '(no output)'",
    "A6": "stdout and stderr come back in the order they were printed",
    "A7": "bytes that are no UTF-8 are replaced, never an exception",
    "A8": "commands run in bash, not in another shell",
    "A9": "key variables are not in a command's environment",
    "A10": "leading spaces of the output survive",
    "A11": "an odd command is a plain error result",
    "A12": "Ctrl-C ends the command and brings the prompt back",
    "danger": "s01's list blocks a few plain spellings and no harmless mention of one",
    "B1": "an edit changes no byte outside the replaced text",
    "B2": "a byte order mark is hidden from the model and stays in the file",
    "B3": "empty or missing old_text is an error that leaves the file alone",
    "B4": "an edit replaces the first place only and says that there are more",
    "B5": "an edit that changes nothing is an error that says so",
    "B6": "what is no regular file is refused at once, naming the problem",
    "B7": "limit is a positive integer, reads no more than needed, says what remains",
    "B8": "a very long line is capped, with a mark",
    "B9": "file tools stay in the workspace: relative, absolute, links, siblings, ~",
    "B10": "glob lists nothing outside the workspace",
    "B11": "glob is sorted, bounded, says how many there are, and says when none match",
    "B12": "glob matches names that start with a dot where the pattern says so",
    "B13": "text is UTF-8 whatever the locale, and byte counts are true",
    "B14": "a failed or interrupted write leaves old or new content and no stray file",
    "undecodable": "a file that is no text is refused, not damaged",
    "C1": "several calls in one reply: one user message, the results in call order",
    "C2": "an unknown tool is 'Unknown: NAME' with the tools there are",
    "C3": "wrong, missing or extra arguments are an error result naming the argument",
    "C4": "an empty reply stops with a notice and leaves no empty message",
    "C5": "every other stop reason stops the loop, is named and is not success",
    "C6": "a reply may open with thinking: text is shown, the block goes back as is",
    "C7": "an empty text block is never sent back",
    "C8": "whatever a handler returns or raises, the result is text that is not empty",
    "C9": "an API failure on the first call is one line, and the prompt comes back",
    "C10": "the turn cap leaves every call answered and its notice is not 'done'",
    "tools": "each tool is a schema in TOOLS and a function in TOOL_HANDLERS",
    "D1": "a command of the deny list is refused in any spelling, without a question",
    "D2": "a command that may destroy something asks",
    "D3": "harmless text that mentions a dangerous word runs without a question",
    "D7": "only y and yes allow; anything else, end of input and Ctrl-C deny",
    "D8": "a denied call gives 'Permission denied.'; the calls beside it run",
    "ask": "the question shows the whole call, control characters made visible",
    "grant": "a yes grants exactly that path to safe_path, and nothing else",
    "repeat": "the same denied call repeated ends the turn without a second question",
    "E1": "a hook that raises is reported and the session goes on; PreToolUse blocks",
    "E2": "an unknown event name is an error at registration that names the events",
    "E3": "a Stop hook sends the model on at most 3 times in a user turn",
    "E4": "a denied call leaves a line",
    "hooks": "None or a falsy value is no opinion, the next hook runs; text acts",
    "context": "a UserPromptSubmit hook's text is added to the user's message",
    "large": "an output that would crowd the history is cut to head and tail",
    "F1": "todos may be a list, JSON text or a Python literal; nothing is evaluated",
    "F2": "a bad list is an error with index and reason, and the old list stays",
    "F3": "an empty list clears",
    "F4": "after 3 rounds without a todo_write that worked, a reminder follows the"
    " results, once per 3 silent rounds of one user turn, not when all is completed",
    "shown": "the list is shown as [ ] [>] [x] with a done count",
    "import": "importing a stage prints nothing, needs no key, does no work",
    "settings": "upper-case settings are read when they are used, not when imported",
    "request": "each request carries model, system, tools, max_tokens and the cache",
    "setup": "what is missing is one line that names the file and the no-key command",
    "environment": "the environment wins over .env, and an empty variable is unset",
    "plain": "blocks are known by type, text, id, name, input; usage may be missing",
    "texts": "exact texts stay as they are",
}
"""The rules by the ids the tests cite (L: the loop; A to F: kinds of field cases)."""

CTRL_C = KeyboardInterrupt
END = EOFError
"""What `typed` may hold beside lines: Ctrl-C, and the end of input."""

TIME_LIMIT = 10  # seconds a test may take before it counts as hanging


# Failures that teach


def check(holds, rule, given, seen, expected):
    """Fails, unless it holds, with what was given, seen, expected, and the rule."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(
            f"rule {rule}: {RULES[rule]}\n"
            f"  given:    {described(given)}\n"
            f"  seen:     {described(seen)}\n"
            f"  expected: {described(expected)}"
        )


def equal(rule, given, seen, expected):
    """Fails unless what was seen is what was expected."""
    __tracebackhide__ = True
    check(seen == expected, rule, given, seen, expected)


def contains(rule, given, seen, *parts):
    """Fails unless each part is in the text seen, in any case of letters."""
    __tracebackhide__ = True
    for part in parts:
        holds = str(part).lower() in str(seen).lower()
        check(holds, rule, given, seen, Words(f"text that holds {part!r}"))


def lacks(rule, given, seen, *parts):
    """Fails when one of the parts is in the text seen."""
    __tracebackhide__ = True
    for part in parts:
        holds = part not in seen
        check(holds, rule, given, seen, Words(f"text without {part!r}"))


def starts_with(rule, given, seen, start):
    """Fails unless the text seen starts so."""
    __tracebackhide__ = True
    holds = str(seen).startswith(start)
    check(holds, rule, given, seen, Words(f"text that starts with {start!r}"))


def is_error(rule, given, seen, *parts):
    """Fails unless the result starts with Error and holds each part."""
    __tracebackhide__ = True
    starts_with(rule, given, seen, "Error")
    contains(rule, given, seen, *parts)


class Words(str):
    """A description, shown without quotes."""


def described(value):
    """A value as a failure shows it: a turn as its messages and what was printed."""
    if isinstance(value, Turn):
        lines = f"this history\n{outline(plain_json(value.messages))}"
        return f"{lines}\n  printed:  {shorten(value.said, 1000)}"
    return value if isinstance(value, Words) else shorten(value, 1000)


def plain_json(messages):
    """Messages as JSON, or as they are when no JSON can hold them."""
    try:
        return as_sent(messages)
    except (TypeError, ValueError):
        return messages


# Stages


def stages_from(first):
    """The names of a stage and of all later ones."""
    return [name for name in stages() if name >= find_stage(first)]


@functools.cache
def compiled(name):
    """The code of a stage: compiling takes longer than most tests."""
    return compile(stage_file(name).read_bytes(), stage_file(name), "exec")


@functools.cache
def sdk_client():
    """One client of the SDK for all: building it takes longer than most tests."""
    return Anthropic()


def fresh(name, path=None):
    """A module of a stage, as an import makes it, not entered in sys.modules.

    It believes to be the file at `path`, when one is given.
    """
    module = ModuleType(name)
    module.__file__ = str(path or stage_file(name))
    with patch.object(anthropic, "Anthropic", sdk_client):
        exec(compiled(name), module.__dict__)
    return module


def stage_fixture(first):
    """A fixture: a fresh stage in a workspace of its own, from `first` to the last."""

    @pytest.fixture(params=stages_from(first), ids=short_name)
    def stage(request, tmp_path, monkeypatch):
        test = getattr(request.node, "originalname", request.node.name)
        for (name, since), reason in EXCEPTIONS.items():
            if name == test and request.param >= find_stage(since):
                request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        module = fresh(request.param)
        module.WORKDIR = tmp_path / "workspace"
        module.WORKDIR.mkdir()
        module.MODEL = "scripted"
        monkeypatch.setattr(sys, "stdin", Keyboard(()))
        with time_limit():
            yield module

    return stage


class TookTooLong(BaseException):
    """Raised in a test that hangs; no `except Exception` of a stage can hide it."""


@contextmanager
def time_limit(seconds=TIME_LIMIT):
    """Ends what hangs, and lets Ctrl-C be Ctrl-C wherever the tests were started."""

    def stop(*_):
        raise TookTooLong(f"still running after {seconds} s")

    alarm = signal.signal(signal.SIGALRM, stop)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, interrupt)


# Turns


def bash(command):
    """A call of bash."""
    return tool_use("bash", {"command": command})


def roles(messages):
    """The roles of a history."""
    return [message["role"] for message in messages]


class Keyboard:
    """A stdin that is no terminal: it gives out lines, or raises what stands there."""

    encoding, errors = "utf-8", "strict"

    def __init__(self, lines):
        self.lines = list(lines)
        self.asked = 0

    def isatty(self):
        return False

    def readline(self, *_):
        """The next line; nothing when there is none left."""
        self.asked += 1
        line = self.lines.pop(0) if self.lines else END
        if line is CTRL_C:
            raise KeyboardInterrupt
        return "" if line is END else f"{line}\n"


class Screen(io.StringIO):
    """A stdout that keeps what is printed; `terminal` says what it claims to be."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Turn:
    """What one turn left behind: `messages`, `said` (printed), `model`, `asked`."""

    def __init__(self, messages, model, said="", asked=0):
        self.messages = messages
        self.model = model
        self.said = said
        self.asked = asked

    @property
    def requests(self):
        """The bodies sent, as JSON."""
        return self.model.requests

    @property
    def results(self):
        """The contents of all tool results of the history, in order."""
        return [block["content"] for block in blocks_of(self.messages, "tool_result")]

    @property
    def result(self):
        """The content of the only tool result."""
        check(len(self.results) == 1, "L3", self, self.results, Words("one result"))
        return self.results[0]

    @property
    def lines(self):
        """The lines printed that are not blank and not a hook's own."""
        lines = (line for line in self.said.splitlines() if line.strip())
        return [line for line in lines if not line.startswith("[hook]")]


def blocks_of(messages, kind):
    """The blocks of one type in a history, as JSON, in order."""
    contents = (message["content"] for message in as_sent(messages))
    return [
        block
        for content in contents
        if isinstance(content, list)
        for block in content
        if block["type"] == kind
    ]


def play(
    stage,
    *replies,
    say="Please.",
    typed=(),
    history=None,
    model=None,
    terminal=False,
    asks=None,
):
    """The turn that a line typed begins, when the model gives these replies.

    `typed` are the answers to questions in between; `history` the list to go on
    with. Fails when a rule is broken that holds for every turn, when a reply is left
    over or one too many asked for, and when the user is asked more or less often than
    there are answers (or than `asks`).
    """
    __tracebackhide__ = True
    messages = [] if history is None else history
    messages.append({"role": "user", "content": say})
    turn = Turn(messages, model or ScriptedModel(replies))
    stage.client = turn.model
    with run_on(turn, typed, terminal):
        stage.agent_loop(messages)
    if isinstance(turn.model, ScriptedModel):
        turn.model.check_done()
    check_asked(turn, len(typed) if asks is None else asks)
    check_at_prompt(turn)
    return turn


@contextmanager
def run_on(turn, typed, terminal):
    """Runs the body on a keyboard and a screen; nothing may escape from it."""
    __tracebackhide__ = True
    keyboard, screen = Keyboard(typed), Screen(terminal)
    try:
        with redirect_stdout(screen), patch.object(sys, "stdin", keyboard):
            yield
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, AssertionError):
            raise
        rule = "L4" if isinstance(error, KeyboardInterrupt) else "L7"
        where = traceback.extract_tb(error.__traceback__)[-1]
        seen = Words(f"{type(error).__name__}: {error} (line {where.lineno})")
        check(False, rule, turn, seen, Words("nothing leaves the loop but its return"))
    finally:
        turn.said, turn.asked = screen.getvalue(), keyboard.asked


def check_asked(turn, times):
    """Fails unless the user was asked that often."""
    __tracebackhide__ = True
    rule = "D2" if turn.asked < times else "D3"
    seen = Words(f"{turn.asked} questions to the user")
    check(turn.asked == times, rule, turn, seen, Words(f"{times} questions"))


def check_at_prompt(turn):
    """Fails unless the history is one that the next line typed can go on with."""
    __tracebackhide__ = True
    for result in turn.results:
        holds = isinstance(result, str) and result
        check(holds, "L6", turn, result, Words("a result that is text and not empty"))
    wanted = [("user", "assistant")[i % 2] for i in range(len(turn.messages))]
    equal("L4", turn, roles(turn.messages), wanted)
    following = [*turn.messages, {"role": "user", "content": "And now?"}]
    problem = check_history(as_sent(following))
    seen = Words(problem["message"] if problem else "")
    check(not problem, "L4", turn, seen, Words("a history that the API accepts"))


def use(stage, name, input, **options):
    """The result the model gets for one call, which is the whole turn."""
    __tracebackhide__ = True
    return play(stage, [tool_use(name, input)], "Done.", **options).result


def repl(stage, *typed, replies=(), model=None, terminal=False):
    """What `main()` leaves behind when these lines are typed; then input ends."""
    __tracebackhide__ = True
    turn = Turn([], model or ScriptedModel(replies))
    stage.client = turn.model
    with run_on(turn, typed, terminal):
        stage.main()
    if isinstance(turn.model, ScriptedModel):
        turn.model.check_done()
        turn.messages = turn.requests[-1]["messages"] if turn.requests else []
    return turn


def refused_start(stage):
    """The exit code of a `main()` that should not begin, and its stderr."""
    errors = io.StringIO()
    with redirect_stdout(Screen()), redirect_stderr(errors):
        try:
            stage.main()
        except SystemExit as left:
            return left.code, errors.getvalue()
    return None, errors.getvalue()


def set_tool(stage, name, handler):
    """Puts another function behind a tool; s01 has one tool and no table."""
    if hasattr(stage, "TOOL_HANDLERS"):
        stage.TOOL_HANDLERS[name] = handler
    else:
        setattr(stage, f"run_{name}", handler)


class PlainModel(ScriptedModel):
    """A scripted model whose replies are plain objects with few attributes."""

    def answer(self, arguments):
        reply = super().answer(arguments)
        return SimpleNamespace(
            content=[bare(block) for block in reply.content],
            stop_reason=reply.stop_reason,
        )


def bare(block):
    """A block as a plain object with what a stage may rely on."""
    names = ("type", "text", "id", "name", "input", "thinking", "signature")
    return SimpleNamespace(
        **{name: getattr(block, name) for name in names if hasattr(block, name)}
    )


# The machine


def lives_on(pid, seconds=1):
    """Whether a process that was killed is still there after a while."""
    until = time.monotonic() + seconds
    while is_there(pid):
        if time.monotonic() > until:
            return True
        time.sleep(0.002)
    return False


def is_there(pid):
    """Whether there is such a process, not only one that waits to be buried."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # no /proc here, or gone in between
        return not Path("/proc/self").exists()
    return state != "Z"


def pids_in(text):
    """The numbers that stand alone on a line."""
    return [int(line) for line in re.findall(r"(?m)^(\d+)$", text)]
