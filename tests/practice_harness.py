"""A small agent loop with real tools, to play the practice model's scripts in."""

import copy
import json
import subprocess
from pathlib import Path

from kit.practice import reply_to
from kit.protocol import check_request

DENIED = "Permission denied."


def tool(name, required, **optional):
    """A tool of a request; the values are JSON schema types."""
    types = {**required, **optional}
    properties = {key: {"type": kind} for key, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"name": name, "description": name, "input_schema": schema}


BASH = [tool("bash", {"command": "string"})]
FILES = [
    tool("read_file", {"path": "string"}, limit="integer"),
    tool("write_file", {"path": "string", "content": "string"}),
    tool("edit_file", {"path": "string", "old_text": "string", "new_text": "string"}),
    tool("glob", {"pattern": "string"}),
]
TODOS = [tool("todo_write", {"todos": "array"})]
STAGES = {"s01": BASH, "s02": BASH + FILES, "s05": BASH + FILES + TODOS}


def body(messages, tools=(), **more):
    """A request body; a string is one user message."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    request = {"model": "practice", "max_tokens": 8000, "messages": messages, **more}
    return request | ({"tools": list(tools)} if tools else {})


def answer(words, tools=(), **more):
    """The first reply to some words."""
    return reply_to(body(words, tools, **more))


def text_of(reply):
    """The texts of a reply, joined."""
    return "\n".join(b["text"] for b in reply["content"] if b["type"] == "text")


def calls_of(reply):
    """(tool, input) of each call of a reply."""
    calls = [b for b in reply["content"] if b["type"] == "tool_use"]
    return [(call["name"], call["input"]) for call in calls]


class Harness:
    """The loop of the stages in short; every request is checked by kit.protocol.

    gate: "open" runs everything, "yes" and "no" answer the question that a deletion
    or a path outside raises. From s05 on, three silent rounds earn a reminder.
    """

    def __init__(self, folder, stage="s05", gate="open", context=""):
        self.folder, self.tools, self.gate = Path(folder), STAGES[stage], gate
        self.context, self.messages, self.replies, self.silent = context, [], [], 0

    def say(self, words, turns=30):
        """Play one line of the learner; the text of the last reply."""
        self._add("user", [{"type": "text", "text": words + self.context}])
        self.silent = 0
        for _ in range(turns):
            reply = self.ask()
            if reply["content"]:
                self._add("assistant", reply["content"])
            calls = [b for b in reply["content"] if b["type"] == "tool_use"]
            if reply["stop_reason"] != "tool_use":
                if calls:
                    self._add("user", [self._result(c, "Not run") for c in calls])
                return text_of(reply)
            results = [self._result(call, self.run(call)) for call in calls]
            self._add("user", results + self._reminder(calls))
        return text_of(self.replies[-1])

    def ask(self):
        """One request, checked, and its reply; a scripted failure is passed over."""
        request = body(self.messages, self.tools)
        problem = check_request(request)
        assert problem is None, f"{problem['message']}\n{json.dumps(self.messages)}"
        before = copy.deepcopy(request)
        reply = reply_to(request)
        assert request == before, "reply_to changed the body"
        assert reply_to(before) == reply, "the same body got another reply"
        self.replies.append(reply)
        return reply

    def run(self, call):
        """The result text of a call, by the words of the stages."""
        name, values = call["name"], call["input"]
        if self._asks(name, values) and self.gate == "no":
            return DENIED
        handler = getattr(self, f"_{name}", None)
        if handler is None or name not in {t["name"] for t in self.tools}:
            return f"Unknown: {name}. The tools are: bash"
        try:
            return handler(**values) or "(no output)"
        except (TypeError, ValueError, OSError) as error:
            return f"Error: {error}"

    def calls(self):
        """(tool, input) of all calls so far."""
        return [call for reply in self.replies for call in calls_of(reply)]

    def _add(self, role, content):
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] = self.messages[-1]["content"] + content
        else:
            self.messages.append({"role": role, "content": content})

    def _result(self, call, output):
        return {"type": "tool_result", "tool_use_id": call["id"], "content": output}

    def _reminder(self, calls):
        names = {call["name"] for call in calls}
        self.silent = 0 if "todo_write" in names else self.silent + 1
        if self.tools != STAGES["s05"] or self.silent < 3:
            return []
        self.silent = 0
        return [{"type": "text", "text": "<reminder>Update your todos.</reminder>"}]

    def _asks(self, name, values):
        outside = str(values.get("path", "")).startswith("/")
        return outside or (name == "bash" and "rm " in values.get("command", ""))

    def _path(self, path):
        if not path.startswith("/"):
            return self.folder / path
        if self.gate == "open":
            raise ValueError(f"Path escapes workspace: {path}")
        return self.folder / "outside.txt"

    def _bash(self, command):
        if command.startswith("sudo"):
            return "Error: Dangerous command blocked" if self.gate == "open" else DENIED
        command = command.replace("sleep 30", "sleep 0")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        code = f"\n[exit code {done.returncode}]" if done.returncode else ""
        return (done.stdout.rstrip() or "(no output)") + code

    def _read_file(self, path, limit=None):
        lines = self._path(path).read_text(encoding="utf-8").splitlines()
        return "\n".join(lines[:limit])

    def _write_file(self, path, content):
        self._path(path).write_text(content, encoding="utf-8")
        return f"Wrote {len(content.encode())} bytes to {path}"

    def _edit_file(self, path, old_text, new_text):
        text = self._path(path).read_text(encoding="utf-8")
        if not old_text or old_text not in text:
            raise ValueError(f"old_text is empty or not in {path}")
        changed = text.replace(old_text, new_text, 1)
        self._path(path).write_text(changed, encoding="utf-8")
        return f"Edited {path}"

    def _glob(self, pattern):
        found = sorted(str(p.name) for p in self.folder.glob(pattern) if p.is_file())
        return "\n".join(found) or f"No file matches {pattern}"

    def _todo_write(self, todos):
        return f"Updated {len(todos)} tasks"
