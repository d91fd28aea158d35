"""What a Messages API body says happened: the words typed and the rounds since."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

ASIDES = ("context", "reminder", "system-reminder")
OPENING_TAG = re.compile(r"<([A-Za-z][\w-]*)[^>]*>")
EXIT_LINE_MAX = 40  # characters
FAILURE_OPENINGS = ("Error", "Unknown:", "Not run", "Interrupted")
# How Claude Code words a refused call; read near its beginning only.
FOREIGN_DENIALS = ("doesn't want to proceed", "haven't granted")


class Message(NamedTuple):
    """A message of a body; a string as content is one text block."""

    role: str
    blocks: list[dict[str, Any]]


class Call(NamedTuple):
    """One tool_use with what came back: result text, outcome ok | error | denied."""

    name: str
    result: str
    outcome: str


@dataclass
class Round:
    """One assistant turn and the user content that answered it.

    ``outcome`` is ``denied`` when any call was denied, else ``error`` when any failed.
    """

    calls: list[Call] = field(default_factory=list)
    outcome: str = "ok"
    reminded: bool = False


def messages_of(body: dict[str, Any]) -> list[Message]:
    """The messages of a body, without the transparent ``system`` ones."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return []
    return [
        Message(str(message.get("role")), _blocks(message.get("content")))
        for message in messages
        if isinstance(message, dict) and message.get("role") != "system"
    ]


def typed_words(text: str) -> str:
    """What a person typed in a text: without asides; ``""`` when it is all tags."""
    if "<" not in text:
        return text.strip()
    for tag in ASIDES:
        if f"<{tag}>" in text:
            text, _ = split_aside(text, tag)
    text = text.strip()
    tag_found = OPENING_TAG.match(text)
    return "" if tag_found and text.endswith(f"</{tag_found.group(1)}>") else text


def split_aside(text: str, tag: str) -> tuple[str, str]:
    """(the text without its ``<tag>...</tag>`` parts, what stood in the last one)."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    kept, inside, at = [], "", 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[at:start])
        inside = text[start + len(opening) : end].strip()
        at = end + len(closing)
    return "".join([*kept, text[at:]]), inside


def prompts(messages: list[Message]) -> Iterator[tuple[int, str, str]]:
    """(message index, words typed, context added), the latest first."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role != "user":
            continue
        for block in reversed(messages[index].blocks):
            text = block.get("text") if block.get("type") == "text" else None
            if isinstance(text, str) and (words := typed_words(text)):
                yield index, words, split_aside(text, "context")[1]


def rounds_after(messages: list[Message], index: int) -> list[Round]:
    """The rounds after message ``index``; neighbouring messages of a role are one."""
    turns: list[Message] = []
    for message in messages[index + 1 :]:
        if turns and turns[-1].role == message.role:
            turns[-1] = Message(message.role, turns[-1].blocks + message.blocks)
        elif turns or message.role == "assistant":
            turns.append(message)
    turns.append(Message("user", []))
    return [
        _round(blocks, turns[number + 1][1])
        for number, (role, blocks) in enumerate(turns)
        if role == "assistant"
    ]


def count_turns(messages: list[Message], first: int, last: int) -> int:
    """How many assistant turns lie between two messages."""
    roles = [message.role for message in messages[first : last + 1]]
    return sum(a != "assistant" == b for a, b in pairwise(roles))


def result_text(content: Any) -> str:
    """The text of a tool_result: a string, text blocks, or ``""``."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [b.get("text") for b in content if isinstance(b, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))


def judge(text: str, is_error: bool = False) -> str:
    """Read a tool result as ``denied``, ``error`` or ``ok``.

    Denials are known by the words of the stages and, approximately, of Claude Code.
    """
    if text.startswith("Permission denied"):
        return "denied"
    if is_error and any(words in text[:400] for words in FOREIGN_DENIALS):
        return "denied"
    if is_error or text.startswith(FAILURE_OPENINGS):
        return "error"
    exit_line = text[text.rfind("\n", -EXIT_LINE_MAX) + 1 :]
    return "error" if exit_line.startswith("[exit code ") else "ok"


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def _round(replied: list[dict[str, Any]], answer: list[dict[str, Any]]) -> Round:
    results: dict[Any, dict[str, Any]] = {}
    reminded = False
    for block in answer:
        kind = block.get("type")
        if kind == "tool_result":
            results[block.get("tool_use_id")] = block
        elif kind == "text":
            reminded = reminded or "<reminder>" in str(block.get("text"))
    calls = [_call(b, results) for b in replied if b.get("type") == "tool_use"]
    outcomes = [call.outcome for call in calls]
    denied, failed = "denied" in outcomes, "error" in outcomes
    return Round(calls, "denied" if denied else "error" if failed else "ok", reminded)


def _call(use: dict[str, Any], results: dict[Any, dict[str, Any]]) -> Call:
    """A call with its result; a call without one has the text ``""``."""
    name = str(use.get("name"))
    result = results.get(use.get("id"))
    if result is None:
        return Call(name, "", "ok")
    text = result_text(result.get("content")).strip()
    return Call(name, text, judge(text, bool(result.get("is_error"))))
