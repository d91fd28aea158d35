"""What a Messages API body says happened: the words typed and the rounds since."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ASIDE = re.compile(r"<(context|reminder|system-reminder)\b[^>]*>.*?</\1>", re.DOTALL)
CONTEXT = re.compile(r"<context>\s*(.*?)\s*</context>", re.DOTALL)
TAGGED = re.compile(r"<([A-Za-z][\w-]*)[^>]*>.*</\1>", re.DOTALL)
EXIT_CODE = re.compile(r"^\[exit code ", re.MULTILINE)
FAILURE_OPENINGS = ("Error", "Unknown:", "Not run", "Interrupted")
# How Claude Code words a refused call; read near its beginning only.
FOREIGN_DENIALS = ("doesn't want to proceed", "haven't granted")


@dataclass(frozen=True)
class Call:
    """One tool_use with what came back: result text, outcome ok | error | denied."""

    name: str
    result: str
    outcome: str


@dataclass
class Round:
    """One assistant turn and the user content that answered it."""

    uses: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    reminded: bool = False

    def calls(self) -> list[Call]:
        """The calls in order; a call without a result has the text ``""``."""
        return [_call(use, self.results.get(str(use.get("id")))) for use in self.uses]

    def outcome(self) -> str:
        """``denied`` when any call was denied, else ``error`` when any failed."""
        outcomes = {call.outcome for call in self.calls()}
        return next((o for o in ("denied", "error") if o in outcomes), "ok")


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a body, without the transparent ``system`` ones."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return []
    return [m for m in messages if isinstance(m, dict) and m.get("role") != "system"]


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of a message as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def typed_words(text: str) -> str:
    """What a person typed in a text: without asides; ``""`` when it is all tags."""
    if "<" not in text:
        return text.strip()
    text = ASIDE.sub("", text).strip()
    return "" if text.startswith("<") and TAGGED.fullmatch(text) else text


def prompts(messages: list[dict[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """(message index, words typed, context added), the latest first."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") != "user":
            continue
        for block in reversed(blocks_of(messages[index])):
            text = block.get("text") if block.get("type") == "text" else None
            if isinstance(text, str) and (words := typed_words(text)):
                found = CONTEXT.search(text)
                yield index, words, found.group(1) if found else ""


def rounds_after(messages: list[dict[str, Any]], index: int) -> list[Round]:
    """The rounds after message ``index``; neighbouring assistant messages are one."""
    rounds: list[Round] = []
    before = ""
    for message in messages[index + 1 :]:
        role = str(message.get("role"))
        blocks = blocks_of(message)
        if role == "assistant":
            if before != "assistant":
                rounds.append(Round())
            rounds[-1].uses += [b for b in blocks if b.get("type") == "tool_use"]
        elif rounds:
            _add_answer(rounds[-1], blocks)
        before = role
    return rounds


def count_turns(messages: list[dict[str, Any]], first: int, last: int) -> int:
    """How many assistant turns lie between two messages."""
    roles = [m.get("role") for m in messages[first : last + 1]]
    pairs = zip(roles, roles[1:])  # noqa: B905 - the last role has no follower
    return sum(a != "assistant" and b == "assistant" for a, b in pairs)


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
    return "error" if EXIT_CODE.search(text[-60:]) else "ok"


def _add_answer(target: Round, blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        if block.get("type") == "tool_result":
            target.results[str(block.get("tool_use_id"))] = block
        elif block.get("type") == "text" and "<reminder>" in str(block.get("text")):
            target.reminded = True


def _call(use: dict[str, Any], result: dict[str, Any] | None) -> Call:
    name = str(use.get("name"))
    if result is None:
        return Call(name, "", "ok")
    text = result_text(result.get("content")).strip()
    return Call(name, text, judge(text, bool(result.get("is_error"))))
