"""Rules of a conversation whose shape is sound: roles, content, tool pairing.

Every rule takes a History and gives the first Problem it finds, or None.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.protocol.errors import Problem, invalid

Block = dict[str, Any]
Placed = tuple[int, int, Block]
"""A block with the index of its message and its own index there."""


class Turn(NamedTuple):
    """Neighbouring messages of one role, which the API reads as one."""

    role: str
    blocks: list[Placed]


class History(NamedTuple):
    """The messages as sent, and the same as merged turns without system messages."""

    messages: list[dict[str, Any]]
    turns: list[Turn]
    system: list[Placed]


def read_history(messages: list[dict[str, Any]]) -> History:
    """Merge neighbours of one role, keeping every original index.

    A `system` message is transparent: the turns on its two sides are neighbours.
    """
    turns: list[Turn] = []
    system: list[Placed] = []
    for i, message in enumerate(messages):
        role = message["role"]
        if role == "system":
            into = system
        else:
            if not turns or turns[-1].role != role:
                turns.append(Turn(role, []))
            into = turns[-1].blocks
        content = message.get("content", "")
        if isinstance(content, str):
            if content:
                into.append((i, 0, {"type": "text", "text": content}))
        else:
            into.extend([(i, j, block) for j, block in enumerate(content)])
    return History(messages, turns, system)


# Roles and content


def at_least_one_message(messages: list[Any]) -> Problem | None:
    """An empty list is refused; the wording approximates the API's."""
    if messages:
        return None
    return invalid("messages: at least one message is required")


def first_is_user(history: History) -> Problem | None:
    """Neither an assistant nor a system message may open a conversation."""
    if history.messages[0]["role"] == "user":
        return None
    return invalid('messages: first message must use the "user" role')


def content_not_empty(history: History) -> Problem | None:
    """No message is empty, but for an assistant message at the very end."""
    last = len(history.messages) - 1
    for i, message in enumerate(history.messages):
        if message.get("content", True):
            continue
        if message["role"] == "user":
            return invalid(f"messages.{i}: user messages must have non-empty content")
        if message["role"] == "system" or i != last:
            return invalid(
                f"messages.{i}: all messages must have non-empty content"
                " except for the optional final assistant message"
            )
    return None


def text_not_blank(history: History) -> Problem | None:
    """Every text block, also one inside a tool_result, holds visible text."""
    for turn in history.turns:
        for _, _, block in turn.blocks:
            kind = block["type"]
            if kind == "text":
                found = blank_text(block["text"])
            elif kind == "tool_result":
                found = blank_result(block.get("content"))
            else:
                continue
            if found:
                return found
    for _, _, block in history.system:
        found = blank_text(block["text"]) if block["type"] == "text" else None
        if found:
            return found
    return None


def blank_text(text: str) -> Problem | None:
    """The two refusals of a text without anything to read."""
    if not text:
        return invalid("messages: text content blocks must be non-empty")
    if text.isspace():
        return invalid("messages: text content blocks must contain non-whitespace text")
    return None


def blank_result(content: object) -> Problem | None:
    """The text blocks of a tool_result's list; a plain string may be empty."""
    for block in content if isinstance(content, list) else ():
        found = blank_text(block["text"]) if block["type"] == "text" else None
        if found:
            return found
    return None


def tool_blocks_in_their_role(history: History) -> Problem | None:
    """Results come from the user, calls from the assistant."""
    for turn in history.turns:
        wrong = "tool_use" if turn.role == "user" else "tool_result"
        right = "assistant" if turn.role == "user" else "user"
        for _, _, block in turn.blocks:
            if block["type"] == wrong:
                return invalid(f"`{wrong}` blocks can only be in `{right}` messages")
    return None


# Tool pairing


def tool_use_ids_unique(history: History) -> Problem | None:
    """No two calls of one request share an id."""
    seen: set[str] = set()
    for turn in history.turns:
        if turn.role == "user":
            continue
        for i, j, block in turn.blocks:
            if block["type"] == "tool_use":
                if block["id"] in seen:
                    return invalid(
                        f"messages.{i}.content.{j}: `tool_use` ids must be unique"
                    )
                seen.add(block["id"])
    return None


def calls_and_results_pair(history: History) -> Problem | None:
    """Each call is answered at once and each result has its call, turn by turn."""
    nobody = Turn("user", [])
    before: Turn = nobody
    for turn, after in zip(history.turns, [*history.turns[1:], nobody], strict=True):
        if turn.role == "assistant":
            found = unanswered_calls(turn, after)
        else:
            found = results_without_call(turn, before) or double_results(turn)
        if found:
            return found
        before = turn
    return None


def unanswered_calls(turn: Turn, after: Turn) -> Problem | None:
    """The calls end the turn, and their results open the next one."""
    answered: set[str] = set()
    for _, _, block in after.blocks:
        if block["type"] != "tool_result":
            break
        answered.add(block["tool_use_id"])
    waiting: list[Placed] = []
    missing: list[Placed] = []
    for place in turn.blocks:
        if place[2]["type"] == "tool_use":
            waiting.append(place)
        else:
            missing.extend(waiting)  # something follows them in the same turn
            waiting.clear()
    missing.extend(place for place in waiting if place[2]["id"] not in answered)
    if not missing:
        return None
    ids = ", ".join(block["id"] for _, _, block in missing)
    return invalid(
        f"messages.{missing[0][0]}: `tool_use` ids were found without `tool_result`"
        f" blocks immediately after: {ids}. Each `tool_use` block must have a"
        " corresponding `tool_result` block in the next message."
    )


def results_without_call(turn: Turn, before: Turn) -> Problem | None:
    """Every result names a call of the turn before."""
    calls: set[str] | None = None
    for i, j, block in turn.blocks:
        if block["type"] != "tool_result":
            continue
        if calls is None:
            calls = {b["id"] for _, _, b in before.blocks if b["type"] == "tool_use"}
        if block["tool_use_id"] not in calls:
            return invalid(
                f"messages.{i}.content.{j}: unexpected `tool_use_id` found in"
                f" `tool_result` blocks: {block['tool_use_id']}. Each `tool_result`"
                " block must have a corresponding `tool_use` block in the previous"
                " message."
            )
    return None


def double_results(turn: Turn) -> Problem | None:
    """One result per call; the wording approximates the API's."""
    seen: set[str] = set()
    for i, j, block in turn.blocks:
        if block["type"] != "tool_result":
            continue
        if block["tool_use_id"] in seen:
            return invalid(
                f"messages.{i}.content.{j}: each tool_use must have a single result."
                " Found multiple `tool_result` blocks with id:"
                f" {block['tool_use_id']}"
            )
        seen.add(block["tool_use_id"])
    return None


# The end of the conversation


def no_prefill(history: History) -> Problem | None:
    """The user speaks last, unless a paused server tool is to go on."""
    last = history.turns[-1]
    if last.role == "user" or resumes_pause(last):
        return None
    return invalid(
        "This model does not support assistant message prefill. The conversation"
        " must end with a user message."
    )


def resumes_pause(turn: Turn) -> bool:
    """Whether an assistant turn can be a `pause_turn` reply sent back to go on.

    Such a reply ends in the middle of server tool work: with a server tool's
    block, or with a server tool's call that has no result yet.
    """
    blocks = [block for _, _, block in turn.blocks]
    if blocks and blocks[-1]["type"].endswith(("_tool_use", "_tool_result")):
        return True
    answered = [b.get("tool_use_id") for b in blocks]
    calls = [b["id"] for b in blocks if b["type"] == "server_tool_use"]
    return any(call not in answered for call in calls)
