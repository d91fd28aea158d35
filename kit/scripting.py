"""Scripts as data: load them, choose one by the words typed, find the step to play.

The format of a script is described in ``kit/scripts/README.md``.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kit.conversation import Round

FOLDER = Path(__file__).with_name("scripts")
GROUPS = ("loop", "files", "permission", "hooks", "plan", "replies", "errors")
READ_AT_MOST = 2000  # characters of the learner's text that are looked at
HEAD_LINES = 8
LINE_WIDTH = 200

TOKEN = re.compile(r"[a-z0-9_*./~'+-]+|[^\x00-\x7f]+")
# A question about doing something is not a request to do it.
QUESTION = re.compile(
    r"^(how (do|does|did|can|could|should|would|to)|why|what (does|do|did|would)|"
    r"what is an?|when (should|do|does)|should i|is it|explain (what|how|why))\b"
)
# <file> is a relative file name without "..", <file:py> one with that ending.
FILE_MARK = re.compile(r"<file(?::(\w+))?>")
QUOTES = {
    '"': '"',
    "'": "'",
    "\u201c": "\u201d",
    "\u2018": "\u2019",
    "\u300c": "\u300d",
}
QUOTED = "|".join(f"{start}([^{end}]+){end}" for start, end in QUOTES.items())
SLOT = re.compile(r"\{([a-z_]+)(?:\|([a-z]+))?\}")

Step = dict[str, Any]


@dataclass(frozen=True)
class Script:
    """One script; ``words`` and ``unless`` hold compiled terms."""

    name: str
    title: str
    type: str
    group: str
    needs: tuple[str, ...]
    priority: int
    words: tuple[tuple[re.Pattern[str], ...], ...]
    unless: tuple[re.Pattern[str], ...]
    variables: dict[str, list[tuple[re.Pattern[str], str]]]
    steps: tuple[Step, ...]


@dataclass
class Scene:
    """What a script can see: its tools, the values from the words, the rounds."""

    tools: Callable[[str], bool]
    values: dict[str, str]
    rounds: list[Round]
    resumed_at: int = -1
    results: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    reminded: bool = False


def normalize(text: str) -> str:
    """Lower-case words with single spaces; other scripts apart from ASCII words."""
    folded = unicodedata.normalize("NFKC", text).lower()
    tokens = TOKEN.findall(folded.replace("\u2019", "'"))
    stripped = (token.rstrip(".'-").lstrip("'-") for token in tokens)
    return " ".join(t for t in stripped if any(c.isalnum() or c == "*" for c in t))


@lru_cache(maxsize=1)
def scripts() -> tuple[Script, ...]:
    """All scripts of ``kit/scripts``, in the order of their groups and file names."""
    loaded = [load(path) for path in sorted(FOLDER.glob("*.json"))]
    order = {group: place for place, group in enumerate(GROUPS)}
    return tuple(sorted(loaded, key=lambda s: order.get(s.group, len(order))))


def load(path: Path) -> Script:
    """Read one script file.

    Raises:
        ValueError, KeyError: when the file is not JSON or lacks a field.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    return Script(
        name=path.stem.lstrip("0123456789_"),
        title=data["title"],
        type=data.get("type", ""),
        group=data.get("group", ""),
        needs=tuple(data.get("needs", ())),
        priority=data.get("priority", 0),
        words=tuple(tuple(map(_term, rule)) for rule in data["words"]),
        unless=tuple(map(_term, data.get("unless", ()))),
        variables={
            name: [(_finder(pattern), value) for pattern, value in choices]
            for name, choices in data.get("vars", {}).items()
        },
        steps=tuple(data["steps"]),
    )


def choose(words: str, tools: Callable[[str], bool]) -> tuple[Script | None, bool]:
    """The script for the words and whether its tools are there.

    The rule with the most terms wins, then priority, then the longest words found. A
    script whose tools are missing is returned only when no other one fits.
    """
    missing: Script | None = None
    for script in ranked(words[:READ_AT_MOST]):
        if all(map(tools, script.needs)):
            return script, True
        missing = missing or script
    return missing, False


@lru_cache(maxsize=256)
def ranked(words: str) -> tuple[Script, ...]:
    """The scripts that fit the words, the best one first."""
    text = normalize(words)
    if QUESTION.match(text):
        return ()
    scored = [(_score(script, text), script) for script in scripts()]
    fitting = [(score, script) for score, script in scored if score]
    return tuple(
        script for _, script in sorted(fitting, key=lambda f: f[0], reverse=True)
    )


def values_of(script: Script, words: str) -> dict[str, str]:
    """The script's variables read from the learner's words."""
    words = words[:READ_AT_MOST]
    values: dict[str, str] = {}
    for name, choices in script.variables.items():
        for pattern, value in choices:
            if match := pattern.search(words):
                own = match.group(match.lastindex or 0)
                values[name] = own if value == "=" else fill(value, values, {})
                break
    return values


def play(script: Script, scene: Scene) -> Step | None:
    """The step that comes after the rounds so far; None when no step fits.

    The rounds are followed from the first one, so the same history always leads to
    the same step. ``scene.results`` is filled on the way.
    """
    place, played, times = 0, -1, 0
    for number in range(len(scene.rounds) + 1):
        outcome = scene.rounds[number - 1].outcome if number else "ok"
        found = _next(script.steps, place, outcome, scene)
        if found is None and number == scene.resumed_at and outcome == "error":
            found = played  # the learner said: once more
        if found is None:
            return None
        step = script.steps[found]
        times = times + 1 if found == played else 1
        scene.values["n"] = str(times)
        if number == len(scene.rounds):
            return step
        _remember(step, scene.rounds[number], scene)
        repeat = step.get("repeat", 1)
        place = found if repeat is True or times < repeat else found + 1
        played = found
    return None


def fill(template: Any, values: dict[str, str], results: dict[str, str]) -> Any:
    """A template with its slots filled, through lists and dicts.

    ``{name}`` is a value from the words, or the result of the call of that name.
    """
    if isinstance(template, dict):
        return {key: fill(value, values, results) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(part, values, results) for part in template]
    if not isinstance(template, str):
        return template

    def slot(match: re.Match[str]) -> str:
        name, how = match.group(1), match.group(2)
        if name in values:
            return FILTERS[how or "plain"](values[name])
        return FILTERS[how or "block"](results.get(name, ""))

    return SLOT.sub(slot, template)


def block(text: str) -> str:
    """A tool result as a quotation: indented, only its head when it is long."""
    lines = text.splitlines() or ["(empty)"]
    shown = [f"    {_cut(line)}" for line in lines[:HEAD_LINES]]
    if len(lines) > HEAD_LINES:
        shown.append(f"    ... (the first {HEAD_LINES} of {len(lines):,} lines)")
    return "\n".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}... (line cut)"


def _first(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _shell(text: str) -> str:
    return shlex.quote(text)


FILTERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "block": block,
    "line": lambda text: _cut(_first(text)) or "(empty)",
    "first": _first,
    "size": lambda text: f"{len(text):,} characters",
    "count": lambda text: str(len([line for line in text.splitlines() if line])),
    "sh": _shell,
    "py": repr,
}


def _term(term: str) -> re.Pattern[str]:
    """``a|b c|d*``: whole words, but for other scripts, which use no spaces."""
    choices = []
    for choice in sorted(term.split("|"), key=len, reverse=True):
        pattern = re.escape(choice).replace(r"\*", r"\S*")
        choices.append(rf"(?<!\S){pattern}(?!\S)" if choice.isascii() else pattern)
    return re.compile("|".join(choices))


def _finder(pattern: str) -> re.Pattern[str]:
    """A pattern of ``vars``, its ``<file>`` and ``<quoted>`` marks written out."""

    def name(match: re.Match[str]) -> str:
        ending = match.group(1) or "[a-z][a-z0-9]*"
        return rf"(?<![\w./~-])(\w[\w-]*(?:[./][\w-]+)*\.{ending})(?![\w/])"

    written = FILE_MARK.sub(name, pattern).replace("<quoted>", f"(?:{QUOTED})")
    return re.compile(written, re.IGNORECASE | re.ASCII)


def _score(script: Script, text: str) -> tuple[int, int, int] | None:
    if any(term.search(text) for term in script.unless):
        return None
    scores = []
    for rule in script.words:
        found = [term.search(text) for term in rule]
        if all(found):
            length = sum(len(match.group()) for match in found if match)
            scores.append((len(rule), script.priority, length))
    return max(scores, default=None)


def _next(steps: Sequence[Step], place: int, outcome: str, scene: Scene) -> int | None:
    for index in range(place, len(steps)):
        after = steps[index].get("after", "ok")
        if after not in (outcome, "any"):
            continue
        conditions = steps[index].get("when")
        if not conditions or all(_holds(each, scene) for each in conditions):
            return index
    return None


def _holds(condition: str, scene: Scene) -> bool:
    """One condition of ``when``; see the README of the scripts for the words."""
    word, _, rest = condition.partition(" ")
    if word == "not":
        return not _holds(rest, scene)
    if word == "has":
        return scene.tools(rest)
    if word == "given":
        return bool(scene.values.get(rest))
    if word == "reminded":
        return scene.reminded
    if word == "saw":
        name, _, text = rest.partition(" ")
        return text in scene.results.get(name, "")
    return scene.outcomes.get(rest) == {"failed": "error"}.get(word, word)


def _remember(step: Step, done: Round, scene: Scene) -> None:
    """Keep the results of a round under the names of the step's calls."""
    scene.reminded = scene.reminded or done.reminded
    for planned, made in zip(step.get("calls", ()), done.calls, strict=False):
        label = planned[2] if len(planned) > 2 else planned[0]
        scene.results[label] = made.result
        scene.outcomes[label] = made.outcome
