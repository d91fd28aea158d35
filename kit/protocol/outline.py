"""What a request holds, in a few words for a person."""

from __future__ import annotations


def outline(messages: object) -> str:
    """One line per message: index, role, and each block in a few words."""
    if not isinstance(messages, list):
        return f"  messages: {shorten(messages)}"
    return "\n".join(f"  {i:>3} {_message(m)}" for i, m in enumerate(messages))


def shorten(value: object, width: int = 60) -> str:
    """The value's repr, cut to `width` characters."""
    try:
        shown = repr(value)
    except RecursionError:
        shown = f"a deeply nested {type(value).__name__}"
    return shown if len(shown) <= width else shown[: width - 3] + "..."


def _message(message: object) -> str:
    if not isinstance(message, dict):
        return shorten(message)
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    shown = ", ".join(_block(block) for block in blocks) or "(empty)"
    role = message.get("role")
    return f"{role if isinstance(role, str) else shorten(role):<9} {shown}"


def _block(block: object) -> str:
    if not isinstance(block, dict):
        return shorten(block)
    kind = block.get("type")
    words = [kind[:40] if isinstance(kind, str) else "no type"]
    for field in ("id", "tool_use_id", "name"):
        name = block.get(field)
        words += [name[:40]] if isinstance(name, str) else []
    for field in ("text", "input", "content"):
        words += [shorten(block[field])] if field in block else []
    return " ".join(words)
