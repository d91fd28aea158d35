"""Direct commands: a line like ``read_file README.md 20`` becomes a tool call.

The values fill the properties of the tool's ``input_schema``, the required ones
first. A ``command`` property, and the last property when it is a string, take the
rest of the line as it stands. ``TOOL {json}`` sends exactly that object, so that
wrong arguments can be tried as well.
"""

from __future__ import annotations

import json
import re
from typing import Any

Tool = dict[str, Any]

EXAMPLES = {
    "bash": "bash ls -la",
    "read_file": "read_file README.md 20",
    "write_file": "write_file a.txt hello world",
    "edit_file": 'edit_file a.txt "old text" "new text"',
    "glob": "glob **/*.py",
    "todo_write": 'todo_write [{"content": "Try it", "status": "pending"}]',
}
TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*'|\S+)(?:\s+|$)""")


class Misfit(ValueError):
    """The words do not fit the tool's schema; the text says how."""


def find_tool(tools: list[Tool], name: str) -> Tool | None:
    """The tool of that name; also ``mcp__SERVER__name``."""
    for tool in tools:
        own = str(tool.get("name"))
        if own == name or (own.startswith("mcp__") and own.endswith(f"__{name}")):
            return tool
    return None


def parse(words: str, tools: list[Tool]) -> tuple[Tool, str] | None:
    """(tool, rest of the line) when the first word names a tool of the request."""
    name, _, rest = words.strip().partition(" ")
    if "\n" in name:
        name, _, rest = words.strip().partition("\n")
    tool = find_tool(tools, name) if name else None
    return (tool, rest) if tool else None


def arguments(tool: Tool, rest: str) -> dict[str, Any]:
    """Map the rest of a line to the input of a tool.

    Raises:
        Misfit: when a value is missing, left over or of the wrong type.
    """
    rest = rest.strip()
    if (given := _json_object(rest)) is not None:
        return given
    names = property_order(tool)
    properties = _properties(tool)
    if names and (names[0] == "command" or len(names) == 1):
        return _single(names[0], properties[names[0]], rest, _required(tool))
    return _several(names, properties, rest, _required(tool))


def property_order(tool: Tool) -> list[str]:
    """The property names of a tool, the required ones first."""
    names = list(_properties(tool))
    required = _required(tool)
    return sorted(names, key=lambda name: name not in required)


def usage(tool: Tool) -> str:
    """One line: the name, the required values, the optional ones in brackets."""
    words = [str(tool.get("name"))]
    for name in property_order(tool):
        word = name.upper()
        words.append(word if name in _required(tool) else f"[{word}]")
    return " ".join(words)


def explain_misfit(tool: Tool, problem: str) -> str:
    """The answer to a command whose words do not fit."""
    name = str(tool.get("name"))
    lines = [f"{problem[:1].upper()}{problem[1:]}.", "", f"Usage: {usage(tool)}"]
    types = {n: _type(p) for n, p in _properties(tool).items()}
    special = [f"{n.upper()} is of type {t}" for n, t in types.items() if t != "string"]
    if special:
        lines.append(f"       {', '.join(special)}")
    if name in EXAMPLES:
        lines.append(f"For example: {EXAMPLES[name]}")
    lines.append(f"Or exactly as the tool gets it: {name} {_json_example(tool)}")
    return "\n".join(lines)


def _single(name: str, schema: Tool, rest: str, required: list[str]) -> dict[str, Any]:
    """The whole rest of the line is the one value."""
    if not rest:
        if name in required:
            raise Misfit(f"{name} is missing")
        return {}
    return {name: rest if _type(schema) == "string" else _value(name, schema, rest)}


def _several(
    names: list[str], properties: dict[str, Any], rest: str, required: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in names:
        if not rest:
            break
        schema = properties[name]
        if name == names[-1] and _type(schema) == "string":
            values[name] = _unquote(rest) if _is_one_token(rest) else rest
            return values
        match = TOKEN.match(rest)
        token = match.group(1) if match else rest
        rest = rest[match.end() :] if match else ""
        values[name] = _value(name, schema, _unquote(token))
    if rest:
        raise Misfit(f"nothing takes the words {rest[:40]!r}")
    missing = [name for name in required if name not in values]
    if missing:
        raise Misfit(f"{missing[0]} is missing")
    return values


def _value(name: str, schema: Tool, text: str) -> Any:
    """A word as the type of its property."""
    kind, text = _type(schema), text.strip()
    if kind == "string":
        return text
    if kind == "array" and text.startswith("[") and _json(text) is None:
        return text  # left to the tool, which may read other notations
    value = _json(text.lower() if kind == "boolean" else text)
    fits: dict[str, type | tuple[type, ...]] = {
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    wanted = fits.get(kind)
    if wanted is None:
        return text if value is None else value
    if not isinstance(value, wanted) or (
        kind in ("integer", "number") and isinstance(value, bool)
    ):
        raise Misfit(f"{name} should be of type {kind}, not {text[:40]!r}")
    return value


def _unquote(token: str) -> str:
    r"""A token without its quotes; in double quotes ``\n`` is a new line."""
    if len(token) < 2 or token[0] != token[-1] or token[0] not in "\"'":
        return token
    value = _json(token) if token[0] == '"' else None
    return value if isinstance(value, str) else token[1:-1]


def _is_one_token(text: str) -> bool:
    match = TOKEN.match(text)
    return bool(match and match.end() == len(text))


def _json(text: str) -> Any:
    """The JSON value of a text; None when there is none (NaN is not JSON)."""
    try:
        return json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        return None


def _json_object(text: str) -> dict[str, Any] | None:
    value = _json(text) if text.startswith("{") else None
    return value if isinstance(value, dict) else None


def _schema(tool: Tool) -> Tool:
    schema = tool.get("input_schema")
    return schema if isinstance(schema, dict) else {}


def _properties(tool: Tool) -> dict[str, Any]:
    properties = _schema(tool).get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(tool: Tool) -> list[str]:
    required = _schema(tool).get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def _type(schema: Any) -> str:
    """The type of a property; of several the first that is not null."""
    if not isinstance(schema, dict):
        return "any"
    kind = schema.get("type")
    choices = list(kind) if isinstance(kind, list) else [kind]
    for option in schema.get("anyOf") or []:
        choices.append(option.get("type") if isinstance(option, dict) else None)
    return next((str(c) for c in choices if c not in (None, "null")), "any")


def _json_example(tool: Tool) -> str:
    samples: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True}
    samples |= {"array": [], "object": {}}
    required = _required(tool) or property_order(tool)[:1]
    properties = _properties(tool)
    kinds = {name: _type(properties.get(name)) for name in required}
    return json.dumps({name: samples.get(kinds[name], "...") for name in required})
