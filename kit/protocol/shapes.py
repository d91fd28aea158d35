"""Which fields a message and a content block may have, and of which types.

The fields follow the SDK's `*_param` types (anthropic 2.14). Texts follow the
API's; the `Input should be ...` wordings are approximations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kit.protocol.errors import Problem, invalid

Types = tuple[type, ...]
NULL = type(None)
STR: Types = (str,)
LIST: Types = (list,)
DICT: Types = (dict,)
BOOL: Types = (bool,)
STR_OR_NULL: Types = (NULL, str)
LIST_OR_NULL: Types = (NULL, list)
DICT_OR_NULL: Types = (NULL, dict)
STR_OR_LIST: Types = (str, list)

EXPECTED: dict[type, str] = {
    str: "Input should be a valid string",
    list: "Input should be a valid list",
    dict: "Input should be a valid dictionary",
    bool: "Input should be a valid boolean",
}
REQUIRED = "Field required"
EXTRA = "Extra inputs are not permitted"
ID_PATTERN = "^[a-zA-Z0-9_-]+$"
ROLES = ("user", "assistant", "system")

_id_matches = re.compile(r"[a-zA-Z0-9_-]+").fullmatch


class Shape(NamedTuple):
    """A block type: the fields it must have, and the types of all it may have."""

    required: tuple[str, ...]
    fields: dict[str, Types]


Flaw = tuple[str, str]
"""Where in the block (`.tool_use.id`) and what is wrong there."""


def _shape(required: dict[str, Types], cached: bool = True, **more: Types) -> Shape:
    cache = {"cache_control": DICT_OR_NULL} if cached else {}
    return Shape(tuple(required), {"type": STR, **required, **more, **cache})


def _server_result(content: Types = DICT) -> Shape:
    return _shape({"tool_use_id": STR, "content": content}, caller=DICT)


_CALL: dict[str, Types] = {"id": STR, "name": STR, "input": DICT}

BLOCKS: dict[str, Shape] = {
    "text": _shape({"text": STR}, citations=LIST_OR_NULL),
    "image": _shape({"source": DICT}, transformations=DICT_OR_NULL),
    "document": _shape(
        {"source": DICT},
        title=STR_OR_NULL,
        context=STR_OR_NULL,
        citations=DICT_OR_NULL,
    ),
    "search_result": _shape(
        {"source": STR, "title": STR, "content": LIST}, citations=DICT_OR_NULL
    ),
    "thinking": _shape({"thinking": STR, "signature": STR}, cached=False),
    "redacted_thinking": _shape({"data": STR}, cached=False),
    "tool_use": _shape(_CALL, caller=DICT, toolset_name=STR_OR_NULL),
    "tool_result": _shape(
        {"tool_use_id": STR},
        content=STR_OR_LIST,
        is_error=BOOL,
        toolset_name=STR_OR_NULL,
    ),
    "server_tool_use": _shape(_CALL, caller=DICT),
    "web_search_tool_result": _server_result((dict, list)),
    "web_fetch_tool_result": _server_result(),
    "code_execution_tool_result": _server_result(),
    "bash_code_execution_tool_result": _server_result(),
    "text_editor_code_execution_tool_result": _server_result(),
    "tool_search_tool_result": _server_result(),
    "container_upload": _shape({"file_id": STR}),
}
"""The block types of a message."""

RESULT_BLOCKS: dict[str, Shape] = {
    **{name: BLOCKS[name] for name in ("text", "image", "document", "search_result")},
    "tool_reference": _shape({"tool_name": STR}),
    "browser_state": _shape({"tabs": LIST}, state_changes=LIST_OR_NULL),
}
"""The block types inside a tool_result."""

SYSTEM_BLOCKS = {"text": BLOCKS["text"]}

BETA_BLOCKS = {
    "advisor_tool_result",
    "compaction",
    "fallback",
    "mcp_tool_listing",
    "mcp_tool_result",
    "mcp_tool_use",
    "tool_addition",
    "tool_removal",
}
"""Block types that come with a beta header; their fields are not checked."""


def message_shapes(messages: list[Any], beta: bool = False) -> Problem | None:
    """Each message has a known role and content, nothing else, and known blocks."""
    for i, message in enumerate(messages):
        flaw = message_flaw(message, beta)
        if flaw:
            return invalid(f"messages.{i}{flaw[0]}: {flaw[1]}")
    return None


def message_flaw(message: object, beta: bool = False) -> Flaw | None:
    """The first flaw of one message: role, content, other fields, blocks."""
    if not isinstance(message, dict):
        return "", EXPECTED[dict]
    if "role" not in message:
        return ".role", REQUIRED
    role = message["role"]
    if role not in ROLES:
        return ".role", "Input should be 'user' or 'assistant'"
    beta_system = beta and role == "system"
    if "content" not in message and not beta_system:
        return ".content", REQUIRED
    content = message.get("content", [])
    if not isinstance(content, (str, list)):
        return ".content", EXPECTED[list]
    if len(message) > 2 and not beta_system:
        for field in message:
            if field not in ("role", "content"):
                return f".{field}", EXTRA
    known = SYSTEM_BLOCKS if role == "system" else BLOCKS
    return None if isinstance(content, str) else blocks_flaw(content, known, beta)


def blocks_flaw(
    blocks: list[Any], known: Mapping[str, Shape], beta: bool = False
) -> Flaw | None:
    """The first flaw in a list of blocks, its place starting at `.content`."""
    for j, block in enumerate(blocks):
        flaw = block_flaw(block, known, beta)
        if flaw:
            return f".content.{j}{flaw[0]}", flaw[1]
    return None


def block_flaw(
    block: object, known: Mapping[str, Shape], beta: bool = False
) -> Flaw | None:
    """The first flaw of one block: its type, its fields, then what they hold."""
    if not isinstance(block, dict):
        return "", EXPECTED[dict]
    kind = block.get("type")
    shape = known.get(kind) if isinstance(kind, str) else None
    if shape is None:
        if beta and isinstance(kind, str) and kind in BETA_BLOCKS:
            return None
        return unknown_type(block, known)
    flaw = fields_flaw(block, shape)
    if flaw is None and kind in ("tool_use", "tool_result"):
        flaw = tool_flaw(block, kind, beta)
    if flaw is None and "cache_control" in block:
        flaw = cache_flaw(block["cache_control"])
    return (f".{kind}{flaw[0]}", flaw[1]) if flaw else None


def unknown_type(block: dict[str, Any], known: Mapping[str, Shape]) -> Flaw:
    """The refusal of a block whose type is missing or not known here."""
    if "type" not in block:
        return ".type", REQUIRED
    if not isinstance(block["type"], str):
        return ".type", EXPECTED[str]
    tags = ", ".join(f"'{name}'" for name in sorted(known))
    return "", (
        f"Input tag '{block['type'][:80]}' found using 'type' does not match any of"
        f" the expected tags: {tags}"
    )


def fields_flaw(block: dict[str, Any], shape: Shape) -> Flaw | None:
    """A missing field, one of a wrong type, or one too many."""
    for field in shape.required:
        if field not in block:
            return f".{field}", REQUIRED
    fields = shape.fields
    extra = None
    for field, value in block.items():
        types = fields.get(field)
        if types is None:
            extra = extra or field
        elif not isinstance(value, types):
            return f".{field}", EXPECTED[types[-1]]
    return None if extra is None else (f".{extra}", EXTRA)


def tool_flaw(block: dict[str, Any], kind: str, beta: bool = False) -> Flaw | None:
    """The id of a tool block, and the blocks inside a tool_result."""
    field = "id" if kind == "tool_use" else "tool_use_id"
    if not _id_matches(block[field]):
        return f".{field}", f"String should match pattern '{ID_PATTERN}'"
    content = block.get("content")
    if kind == "tool_result" and isinstance(content, list):
        return blocks_flaw(content, RESULT_BLOCKS, beta)
    return None


def cache_flaw(cache_control: dict[str, Any] | None) -> Flaw | None:
    """A cache breakpoint is null or of type ephemeral, the only one there is."""
    if cache_control is None:
        return None
    if "type" not in cache_control:
        return ".cache_control.type", REQUIRED
    if cache_control["type"] != "ephemeral":
        return ".cache_control.type", "Input should be 'ephemeral'"
    return None
