"""What a model, a tool, a hook or a person may do to a stage, drawn by lot.

Everything is drawn from one random.Random, so that a seed says it all.
"""

import functools
import itertools

from kit import scripted

LONG = "x" * 60_000  # more than any limit of a stage
HALF = "\ud83d"  # half of a surrogate pair: JSON can spell it, UTF-8 cannot
TEXTS = ["Done.", "I run it.", "Next:\n- a\n- b", "你好 ✓", "\x00", "\x1b[31mred", LONG]
TEXTS += ["", "", " ", "\n\t", "\u00a0", "\u200b"] * 2
STOPS = ["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal"]
STOPS += ["model_context_window_exceeded", "a_new_one", "", None]
USAGES = [
    None,
    {},
    {"input_tokens": None, "output_tokens": None},
    {"input_tokens": 3},
    {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 10**9},
]
ODD_VALUES = [None, 7, -1, 10**30, 1.5, True, "", " ", "\x00", [], {}, ["ls"], {"a": 1}]
ODD_VALUES += [LONG]
UNKNOWN_TOOLS = ["bsh", "", "Bash", "a b", "x" * 300, "__init__", "todo_write", "glob"]
PATHS = ["a.txt", "sub/b.txt", "sub", ".", "", "new/deep/c.txt", "a.txt/b", "gone.txt"]
PATHS += ["../outside/o.txt", "../outside/new.txt", "~", "link", "x" * 300, "a\x00.txt"]
PATTERNS = ["*", "**/*.txt", "[", "../*", "", "/*", "**", "a\x00*", "{a,b}", "***"]
TODOS = [
    [{"content": "a", "status": "pending"}, {"content": "b", "status": "in_progress"}],
    [{"content": "a", "status": "completed"}],
    [],
    [{"content": "a", "status": "in_progress"}] * 2,
    [{"content": " ", "status": "pending"}],
    [{"content": 7, "status": []}],
    ["a"],
    {"content": "a"},
    '[{"content": "a", "status": "pending"}]',
    "[{'content': 'a', 'status': 'pending'}]",
    "__import__('os').getpid()",
    "[" * 500,
    [{"content": LONG, "status": "pending"}] * 20,
    [{"content": "a", "status": "pending"}] * 21,
]
# Safe to run: bash gets no other command than these.
COMMANDS = ["true", "exit 3", "echo hi", "printf 'a\\377b'", "cat", "rm gone.txt"]
COMMANDS += ["echo $((", "kill -9 $$", "sudo -n true", "eval true", "echo hi > new"]
ANSWERS = ["y", "y", "yes", " Y ", "n", "", "yes!", EOFError, KeyboardInterrupt]
LINES = ["hello", "go on", "你好", "a\tb", "-" * 3000, "rm a file", "<b>", "\ufffd"]
FAILURES = [ValueError("bad"), PermissionError(13, "no"), RecursionError(), KeyError(1)]
FAILURES += [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), OSError(), MemoryError()]
FAILURES += [StopIteration("s"), AssertionError(), ValueError("x" * 5000 + "\x00")]


class Dice:
    """Draws for one conversation with a stage that has these tools."""

    def __init__(self, rng, tools):
        self.rng, self.tools = rng, tools
        self._numbers, self._call = itertools.count(1), None

    def chance(self, share):
        """True in this share of all draws."""
        return self.rng.random() < share

    def error(self):
        """An exception that a call of the API may end in."""
        rng = self.rng
        status = rng.choice([400, 401, 403, 404, 409, 413, 429, 500, 529, 418])
        return rng.choice(
            [
                scripted.api_error(status),
                scripted.connection_error(),
                scripted.timeout_error(),
                TypeError("Could not resolve authentication method"),
                ValueError("no reply"),
                RuntimeError(""),
            ]
        )

    def reply(self):
        """A reply of any blocks in any order, for any reason."""
        rng = self.rng
        count = rng.choices([0, 1, 2, 3, 5], [1, 4, 5, 3, 1])[0]
        blocks = [self.block() for _ in range(count)]
        calls = any(block["type"] == "tool_use" for block in blocks)
        stop = rng.choice(STOPS)
        reply = scripted.reply(*blocks, stop_reason="tool_use" if calls else "end_turn")
        if not self.chance(0.25):
            stop = reply["stop_reason"]
        reply["stop_reason"] = stop
        if stop == "pause_turn" and self.chance(0.5):
            search = {"type": "server_tool_use", "id": self.id("srvtoolu"), "input": {}}
            blocks = [b for b in reply["content"] if b["type"] != "tool_use"]
            content = [*blocks, {**search, "name": "web_search"}]
            reply["content"] = content
        if self.chance(0.15):
            reply["usage"] = rng.choice(USAGES)
        if self.chance(0.02):
            reply["content"] = None
        return reply

    def id(self, kind="toolu"):
        """An id that is new in this conversation."""
        return f"{kind}_{next(self._numbers)}"

    def block(self):
        """A content block: text, thinking or a call."""
        kinds = ["text", "thinking", "redacted", "call"]
        kind = self.rng.choices(kinds, [4, 1, 1, 6])[0]
        if kind == "text":
            return scripted.text(self.text())
        if kind == "thinking":
            words = self.rng.choice(["", "", "Let me see."])
            return scripted.thinking(words, self.id("signature"))
        if kind == "redacted":
            return {"type": "redacted_thinking", "data": self.id("data")}
        if self._call is None or self.chance(0.8):  # else the same call once more
            name = self.rng.choice([*self.tools * 2, self.rng.choice(UNKNOWN_TOOLS)])
            self._call = name, self.input(name)
        return scripted.tool_use(*self._call, self.id())

    def text(self):
        """Words, or what only looks like words."""
        return f"half {HALF}" if self.chance(0.005) else self.rng.choice(TEXTS)

    def input(self, name):
        """The arguments of a call, right or wrong."""
        rng = self.rng
        right = {
            "bash": {"command": rng.choice(COMMANDS)},
            "read_file": {"path": rng.choice(PATHS)},
            "write_file": {"path": rng.choice(PATHS), "content": self.text()},
            "edit_file": {"path": rng.choice(PATHS), "old_text": "a", "new_text": "bb"},
            "glob": {"pattern": rng.choice(PATTERNS)},
            "todo_write": {"todos": rng.choice(TODOS)},
        }.get(name, {"x": 1})
        if name == "read_file" and self.chance(0.5):
            right["limit"] = rng.choice([1, 20, 0, -1, "5", True, 10**30])
        wrong = rng.randrange(20)
        if wrong == 0:
            right.popitem()
        elif wrong == 1:
            right[rng.choice(["extra", "", "self", "a b", "call"])] = 1
        elif wrong == 2:
            right[rng.choice(list(right))] = rng.choice(ODD_VALUES)
        elif wrong == 3:
            return rng.choice([None, "ls", 7, [], ["ls"], True, ""])
        elif wrong == 4 and self.chance(0.1):
            right[rng.choice(list(right))] = HALF
        return right

    def failing_tool(self):
        """A tool that raises, gives what is not text, or is interrupted."""

        def handler(**arguments):
            values = [None, 7, "", " ", b"x", [], "ok"]
            outcome = self.rng.choice([*FAILURES, *values * 2])
            if self.chance(0.05):
                raise KeyboardInterrupt
            if isinstance(outcome, Exception):
                raise outcome
            return HALF if self.chance(0.03) else outcome

        return handler

    def bash(self, real, share):
        """The stage's bash for this share of the commands, else a stand-in."""

        def run_bash(command):
            if not isinstance(command, str):
                return real(command)
            if command in COMMANDS and self.chance(share):
                return real(command)
            if self.chance(0.03):
                raise KeyboardInterrupt
            return self.rng.choice(["hi", "(no output)", "no\n[exit code 3]", LONG])

        return run_bash

    def hook(self):
        """A hook with no opinion, an opinion, a fault, or an odd answer."""
        words = ["no", "look again", "<context>now</context>", LONG]
        odd = ["", " ", "\n", 0, False, 7, [], ["x"], b"x", HALF]

        outcomes = [*[None] * 8, *words, *odd, *FAILURES[:4]]
        if self.chance(0.3):
            outcomes = [self.rng.choice(outcomes[8:])]  # the same each time

        def hook(*arguments):
            outcome = self.rng.choice(outcomes)
            if self.chance(0.02):
                raise KeyboardInterrupt
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return functools.partial(hook) if self.chance(0.3) else hook
