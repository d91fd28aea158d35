"""Thinking blocks the server gave out must come back as they were."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from kit.protocol.errors import Problem, invalid
from kit.protocol.history import Block, History, Placed

Issued = Mapping[str, dict[str, Any]]
"""What a server remembers of its replies: `{key: {"replies": [[block, ...], ...]}}`.

A key is a tool_use id or a thinking signature (or a redacted block's data). One
key may stand for several replies, since two conversations can share an id; each
is the list of that reply's blocks, of which only the thinking is kept whole.
Written by `remember`.
"""

LIMIT = 16
"""Replies kept per key; the oldest go first."""


def remember(issued: MutableMapping[str, dict[str, Any]], content: list[Block]) -> None:
    """Note a reply's blocks in `issued`, so that its thinking can be checked later."""
    reply = [b if is_thinking(b) else {"type": b["type"]} for b in content]
    for key in keys_of(content):
        replies = issued.setdefault(key, {"replies": []})["replies"]
        if reply not in replies:
            replies.append(reply)
            del replies[:-LIMIT]


def keys_of(content: list[Block]) -> list[str]:
    """The ids and signatures by which a reply is known again, in order."""
    fields = {"tool_use": "id", "thinking": "signature", "redacted_thinking": "data"}
    found = [b.get(fields[b["type"]]) for b in content if b.get("type") in fields]
    return [key for key in found if isinstance(key, str) and key]


def thinking_unchanged(history: History, issued: Issued | None) -> Problem | None:
    """The latest assistant turn holds the thinking of the reply it came from."""
    turn = next((t for t in reversed(history.turns) if t.role == "assistant"), None)
    if not issued or turn is None:
        return None
    for key in keys_of([block for _, _, block in turn.blocks]):
        replies = issued[key]["replies"] if key in issued else []
        lost = [lost_thinking(reply, turn.blocks) for reply in replies]
        if lost and None not in lost:
            i, j = lost[-1] or (0, 0)
            return invalid(
                f"messages.{i}.content.{j}: `thinking` or `redacted_thinking` blocks"
                " in the latest assistant message cannot be modified. These blocks"
                " must remain as they were in the original response."
            )
    return None


def lost_thinking(reply: list[Block], sent: list[Placed]) -> tuple[int, int] | None:
    """Where a thinking block of `reply` is missing from, or changed in, `sent`."""
    there = [place for place in sent if is_thinking(place[2])]
    given = [(j, block) for j, block in enumerate(reply) if is_thinking(block)]
    rest = iter(there)
    for rank, (j, block) in enumerate(given):
        if not any(same_thinking(place[2], block) for place in rest):
            return there[rank][:2] if rank < len(there) else (sent[0][0], j)
    return None


def is_thinking(block: Block) -> bool:
    """Whether the block is thinking, readable or redacted."""
    return block["type"] in ("thinking", "redacted_thinking")


def same_thinking(one: Block, other: Block) -> bool:
    """Whether two thinking blocks are equal in all that the server signed."""
    fields = ("type", "thinking", "signature", "data")
    return all(one.get(field) == other.get(field) for field in fields)
