"""The order of the rules. The real API's precedence is unknown; this is ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kit.protocol import history as h
from kit.protocol import request as r
from kit.protocol.errors import Problem, invalid
from kit.protocol.shapes import EXPECTED, message_shapes
from kit.protocol.thinking import thinking_unchanged
from kit.protocol.wire import VERSIONS, as_sent

REQUEST_RULES: tuple[Callable[[r.Request], Problem | None], ...] = (
    r.no_thread,
    r.required_fields,
    r.field_types,
    r.max_tokens_range,
    r.model_not_empty,
    r.sampling_parameters,
    r.unknown_fields,
    r.top_level_cache,
    r.system_blocks,
    r.tool_shapes,
    r.tool_names_unique,
)

HISTORY_RULES: tuple[Callable[[h.History], Problem | None], ...] = (
    h.first_is_user,
    h.content_not_empty,
    h.text_not_blank,
    h.tool_blocks_in_their_role,
    h.tool_use_ids_unique,
    h.calls_and_results_pair,
    h.no_prefill,
)


def check_request(
    body: object,
    *,
    extra_fields: bool = False,
    version: str = VERSIONS[0],
    models: Collection[str] | None = None,
    issued: Mapping[str, dict[str, Any]] | None = None,
    counting: bool = False,
) -> Problem | None:
    """The first rule a request body breaks, or None. Never raises on JSON.

    `extra_fields` allows what comes with a beta header. `models` None accepts any
    name. `issued` is what `remember` noted of earlier replies. `counting` is for
    `count_tokens`, which takes no `max_tokens`.
    """
    if not isinstance(body, dict):
        return invalid(EXPECTED[dict])
    request = r.Request(body, extra_fields, version, models, counting)
    for rule in REQUEST_RULES:
        found = rule(request)
        if found:
            return found
    found, history = _check_messages(body["messages"], extra_fields)
    if history is None:
        return found
    return (
        r.cache_breakpoints(request, history)
        or thinking_unchanged(history, issued)
        or r.model_known(request)
    )


def check_history(messages: object) -> Problem | None:
    """The first rule that `messages` break: shapes, roles, content, pairing, end.

    Takes JSON, or a history that holds SDK or other plain objects. Never raises on
    JSON.
    """
    if not isinstance(messages, list):
        return invalid(f"messages: {EXPECTED[list]}")
    return _check_messages(as_sent(messages) if _has_objects(messages) else messages)[0]


def _check_messages(
    messages: list[Any], beta: bool = False
) -> tuple[Problem, None] | tuple[None, h.History]:
    """The first Problem, or the history when there is none."""
    found = h.at_least_one_message(messages) or message_shapes(messages, beta)
    if found:
        return found, None
    history = h.read_history(messages)
    for rule in HISTORY_RULES:
        found = rule(history)
        if found:
            return found, None
    return None, history


JSON_TYPES = (dict, list, str, int, float, type(None))


def _has_objects(messages: list[Any]) -> bool:
    """Whether a message, a content or a block is not JSON."""
    for message in messages:
        if not isinstance(message, JSON_TYPES):
            return True
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, JSON_TYPES):
            return True
        blocks = content if isinstance(content, list) else ()
        if not all(isinstance(block, JSON_TYPES) for block in blocks):
            return True
    return False
