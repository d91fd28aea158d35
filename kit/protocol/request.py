"""Rules of a request body outside its messages: parameters, tools, cache, model.

Every rule takes a Request and gives the first Problem it finds, or None.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from kit.protocol.errors import Problem, invalid, problem
from kit.protocol.history import History
from kit.protocol.shapes import (
    BOOL,
    DICT,
    DICT_OR_NULL,
    EXPECTED,
    EXTRA,
    LIST,
    REQUIRED,
    STR,
    STR_OR_LIST,
    STR_OR_NULL,
    SYSTEM_BLOCKS,
    Types,
    block_flaw,
    cache_flaw,
)

SAMPLING = ("temperature", "top_p", "top_k")
SAMPLING_VERSION = "2023-06-01"
"""The version that still takes the SAMPLING parameters."""

FIELDS: dict[str, Types] = {
    "max_tokens": (int, float),
    "model": STR,
    "messages": LIST,
    "cache_control": DICT_OR_NULL,
    "container": (type(None), str, dict),
    "diagnostics": DICT_OR_NULL,
    "inference_geo": STR_OR_NULL,
    "metadata": DICT,
    "output_config": DICT,
    "service_tier": STR,
    "speed": STR_OR_NULL,
    "stop_sequences": LIST,
    "stream": BOOL,
    "system": STR_OR_LIST,
    "thinking": DICT,
    "tool_choice": DICT,
    "tools": LIST,
    "user_profile_id": STR,
    "workspace_id": STR,
}
"""The top-level fields and their types (anthropic 2.14)."""

NAME_PATTERN = "^[a-zA-Z0-9_-]{1,128}$"
_name_matches = re.compile(r"[a-zA-Z0-9_-]{1,128}").fullmatch

TOOL_FIELDS: dict[str, Types] = {
    "name": STR,
    "input_schema": DICT,
    "type": STR_OR_NULL,
    "description": STR,
    "allowed_callers": LIST,
    "cache_control": DICT_OR_NULL,
    "defer_loading": BOOL,
    "eager_input_streaming": (type(None), bool),
    "input_examples": LIST,
    "strict": BOOL,
}

MAX_BREAKPOINTS = 4


class Request(NamedTuple):
    """A body that is an object, and how to read it."""

    body: dict[str, Any]
    beta: bool = False
    version: str = "2026-10-21"
    models: Collection[str] | None = None
    counting: bool = False


# Parameters


def no_thread(request: Request) -> Problem | None:
    """A history kept on the server is refused so that clients resend all of it.

    First of all rules: a thread's body holds the new messages only.
    """
    if request.body.get("thread") is None:
        return None
    return problem(
        "invalid_request_error",
        "thread: this request is not supported with `thread`",
        error_code="thread_unsupported_request",
    )


def required_fields(request: Request) -> Problem | None:
    """`max_tokens` (not when counting tokens), `model` and `messages` are there."""
    fields = ("model", "messages") if request.counting else tuple(FIELDS)[:3]
    for field in fields:
        if field not in request.body:
            return invalid(f"{field}: {REQUIRED}")
    return None


def field_types(request: Request) -> Problem | None:
    """Each known field has its type; the wordings approximate the API's."""
    for field, value in request.body.items():
        types = FIELDS.get(field)
        if types is not None and field != "max_tokens" and not isinstance(value, types):
            return invalid(f"{field}: {EXPECTED[types[-1]]}")
    return None


def max_tokens_range(request: Request) -> Problem | None:
    """`max_tokens` is a whole number from 0 on (0 only fills the cache)."""
    value = request.body.get("max_tokens", 0)
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole:
        return invalid("max_tokens: Input should be a valid integer")
    if value < 0:
        return invalid("max_tokens: Input should be greater than or equal to 0")
    return None


def model_not_empty(request: Request) -> Problem | None:
    """A model is named; the wording approximates the API's."""
    if request.body["model"]:
        return None
    return invalid("model: String should have at least 1 character")


def sampling_parameters(request: Request) -> Problem | None:
    """The current version has no sampling parameters; wordings approximate."""
    for field in SAMPLING:
        if field not in request.body:
            continue
        if request.version != SAMPLING_VERSION:
            return invalid(f"{field}: {EXTRA}")
        value = request.body[field]
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return invalid(f"{field}: Input should be a valid number")
    return None


def unknown_fields(request: Request) -> Problem | None:
    """Other top-level fields come with a beta only."""
    if request.beta:
        return None
    for field in request.body:
        if field not in FIELDS and field not in SAMPLING:
            return invalid(f"{field}: {EXTRA}")
    return None


def top_level_cache(request: Request) -> Problem | None:
    """`cache_control` beside the messages marks the last block of the request."""
    flaw = cache_flaw(request.body.get("cache_control"))
    return invalid(f"{flaw[0][1:]}: {flaw[1]}") if flaw else None


def system_blocks(request: Request) -> Problem | None:
    """A system prompt in blocks is made of text blocks that say something."""
    system = request.body.get("system")
    for n, block in enumerate(system if isinstance(system, list) else ()):
        flaw = block_flaw(block, SYSTEM_BLOCKS)
        if flaw:
            where = flaw[0].removeprefix(".text")
            return invalid(f"system.{n}{where}: {flaw[1]}")
        if not block["text"]:
            return invalid("system: text content blocks must be non-empty")
    return None


# Tools


def tool_shapes(request: Request) -> Problem | None:
    """Each tool is the caller's own, well formed, or one of the server's, as it is."""
    for n, tool in enumerate(request.body.get("tools", ())):
        if not isinstance(tool, dict):
            return invalid(f"tools.{n}: {EXPECTED[dict]}")
        kind = tool.get("type")
        if kind is None or kind == "custom":
            found = custom_tool(f"tools.{n}.custom", tool)
        elif not isinstance(kind, str):
            found = invalid(f"tools.{n}.type: {EXPECTED[str]}")
        elif kind == "function":  # another vendor's spelling of a custom tool
            found = invalid(
                f"tools.{n}: Input tag 'function' found using 'type' does not match"
                " any of the expected tags: 'custom' and the server tools"
            )
        else:
            continue
        if found:
            return found
    return None


def custom_tool(path: str, tool: dict[str, Any]) -> Problem | None:
    """Name and input schema, then every other field."""
    for field in ("name", "input_schema"):
        if field not in tool:
            return invalid(f"{path}.{field}: {REQUIRED}")
    for field, value in tool.items():
        types = TOOL_FIELDS.get(field)
        if types is not None and not isinstance(value, types):
            return invalid(f"{path}.{field}: {EXPECTED[types[-1]]}")
    if not _name_matches(tool["name"]):
        return invalid(f"{path}.name: String should match pattern '{NAME_PATTERN}'")
    if "type" not in tool["input_schema"]:
        return invalid(f"{path}.input_schema.type: {REQUIRED}")
    if tool["input_schema"]["type"] != "object":
        return invalid(f"{path}.input_schema.type: Input should be 'object'")
    flaw = cache_flaw(tool.get("cache_control"))
    if flaw:
        return invalid(f"{path}{flaw[0]}: {flaw[1]}")
    extra = next((field for field in tool if field not in TOOL_FIELDS), None)
    return None if extra is None else invalid(f"{path}.{extra}: {EXTRA}")


def tool_names_unique(request: Request) -> Problem | None:
    """No two tools, the server's included, share a name."""
    names = [tool.get("name") for tool in request.body.get("tools", ())]
    named = [name for name in names if isinstance(name, str)]
    if len(set(named)) == len(named):
        return None
    return invalid("tools: Tool names must be unique.")


# Cache, length, model


def cache_breakpoints(request: Request, history: History) -> Problem | None:
    """At most four breakpoints; the top-level one takes a place like the others.

    It takes none when the last block already has its own, for then it adds nothing.
    """
    body = request.body
    blocks = [block for turn in history.turns for _, _, block in turn.blocks]
    marked = [*_listed(body, "tools"), *_listed(body, "system"), *blocks]
    marked.extend(block for _, _, block in history.system)
    for block in blocks:
        if block["type"] == "tool_result":
            marked.extend(_listed(block, "content"))
    found = sum([block.get("cache_control") is not None for block in marked])
    if body.get("cache_control") is not None:
        found += not (blocks and blocks[-1].get("cache_control"))
    if found <= MAX_BREAKPOINTS:
        return None
    return invalid(
        f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided."
        f" Found {found}."
    )


def _listed(holder: dict[str, Any], field: str) -> list[Any]:
    value = holder.get(field)
    return value if isinstance(value, list) else []


def prompt_fits(tokens: int, maximum: int) -> Problem | None:
    """A prompt of `tokens` tokens fits into `maximum`. For a server that counts."""
    if tokens <= maximum:
        return None
    return invalid(f"prompt is too long: {tokens} tokens > {maximum} maximum")


def model_known(request: Request) -> Problem | None:
    """The model is one of `models`, when they are given."""
    name = request.body["model"]
    if request.models is None or name in request.models:
        return None
    return problem("not_found_error", f"model: {name}")
