"""What the practice model says of itself, and the list of what can be typed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from kit import direct
from kit.scripting import GROUPS, READ_AT_MOST, Script, scripts

WIDTH = 78
COMMANDS_SHOWN = 12
STAGE_OF_TOOL = {
    "bash": "s01",
    "read_file": "s02",
    "write_file": "s02",
    "edit_file": "s02",
    "glob": "s02",
    "todo_write": "s05",
}
SHELL_WORDS = "ls cat pwd cd echo python3 python git grep mkdir rm mv cp touch wc head"

Json = dict[str, Any]


def introduce(
    words: str, has: Callable[[str], bool], tools: list[Json], missing: Script | None
) -> str:
    """Say what this is, why nothing was played, and what can be typed.

    Args:
        words: what the learner typed.
        has, tools: as for ``listing``.
        missing: a script that fits the words, but whose tools are not there.
    """
    words = " ".join(words[:READ_AT_MOST].split())
    shown = words if len(words) <= 40 else f"{words[:40]}..."
    why = f'I have no script for "{shown}".' if words else ""
    if missing:
        lacking = [name for name in missing.needs if not has(name)]
        stage = STAGE_OF_TOOL.get(lacking[0])
        since = f" (it comes with {stage})" if stage and tools else ""
        why = f'"{shown}" needs the tool {lacking[0]}{since}.'
    lines = ["I am a script, not a model: I know fixed moves only."]
    for sentence in (why, _command_hint(words, has)):
        lines += textwrap.wrap(sentence, WIDTH, break_on_hyphens=False)
    if any("\u4e00" <= char <= "\u9fff" for char in words):
        lines.append("我是按剧本回放的脚本，不是模型。可以输入下面的词句：")
    return "\n".join([*lines, "", listing(has, tools)])


def _command_hint(words: str, has: Callable[[str], bool]) -> str:
    """Point to the direct command when the words look like a shell command."""
    first = words.split(" ")[0]
    if has("bash") and first in SHELL_WORDS.split():
        return f"To run it as a command, type: bash {words[:60]}"
    return ""


def _commands(tools: list[Json]) -> list[str]:
    named = [t for t in tools if isinstance(t.get("input_schema"), dict)]
    lines = [_command(tool) for tool in named[:COMMANDS_SHOWN]]
    if len(named) > COMMANDS_SHOWN:
        lines.append(f"... and {len(named) - COMMANDS_SHOWN} more tools")
    return _wrapped(lines, "  ")


def _command(tool: Json) -> str:
    name, usage = str(tool.get("name")), direct.usage(tool)
    return direct.EXAMPLES.get(name) or (usage if len(usage) < 60 else name + " {json}")


def _wrapped(items: list[str], label: str) -> list[str]:
    """Items joined by bars, never broken inside, under a label."""
    lines = [label + items[0]] if items else []
    for item in items[1:]:
        longer = f"{lines[-1]} | {item}"
        if len(longer) <= WIDTH:
            lines[-1] = longer
        else:
            lines.append(" " * len(label) + item)
    return lines


def listing(has: Callable[[str], bool], tools: list[Json], titles: bool = False) -> str:
    """What can be typed with these tools, for a terminal of 80 columns.

    Args:
        has: whether a tool is offered.
        tools: the tools of the request, for the direct commands.
        titles: one line for each script with what it shows, instead of a short list.
    """
    playable = [s for s in scripts() if s.type and all(map(has, s.needs))]
    lines = ["Type one of these:"]
    for group in GROUPS:
        members = [s for s in playable if s.group == group]
        if titles:
            lines += [f"  {s.type:<27} {s.title}" for s in members]
        elif members:
            lines += _wrapped([s.type for s in members], f"  {group:<11} ")
    if not titles:
        lines.append("  help        what each of them shows")
    if tools:
        lines += ["Or call a tool yourself:", *_commands(tools)]
    return "\n".join(lines)
