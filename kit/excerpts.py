"""What a page shows of the stages' code: excerpts, diffs, the index, counts."""

from __future__ import annotations

import ast
import os
from argparse import Namespace
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from kit.definitions import (
    DOCSTRING,
    Definition,
    against,
    definitions,
    find,
    novelty,
    size,
    source,
)
from kit.regions import Trouble, chosen, fenced
from kit.stages import find_stage, short_name, stage_file, stages


def code(page: Path, args: Namespace) -> str:
    """A definition, or the lines of it from one text to another, under a caption."""
    stage = find_stage(args.stage)
    found = find(stage, args.symbol)
    lines = found.text.split("\n")
    first, last = chosen(lines, args.start, args.end)
    where = link(page, stage, found.first + first - 1, found.first + last - 1)
    caption = ", ".join(part for part in (where, novelty(stage, found.name)) if part)
    return f"{caption}\n\n{fenced(lines[first - 1 : last], 'python')}"


def place(page: Path, args: Namespace) -> str:
    """A link to a definition, its line numbers included."""
    stage = find_stage(args.stage)
    found = find(stage, args.symbol)
    return link(page, stage, found.first, found.last)


def diff(page: Path, args: Namespace) -> str:
    """The unified diff of two stages or of one definition, or the names in it."""
    before, after = find_stage(args.before), find_stage(args.after)
    if args.summary:
        return summary(page, before, after)
    if args.symbol is None:
        old, new, first_old, first_new = source(before), source(after), 1, 1
        caption = f"{link(page, before)} to {link(page, after)}"
    else:
        found = find(after, args.symbol)
        known = definitions(before).get(args.symbol)
        old, first_old = (known.text, known.first) if known else ("", 0)
        new, first_new = found.text, found.first
        caption = link(page, after, found.first, found.last)
        if known:
            caption = f"{link(page, before, known.first, known.last)} to {caption}"
    lines = unified(old, new, first_old, first_new, args.context)
    if not lines:
        what = args.symbol or "the code"
        raise Trouble(f"{what} is the same in {args.before} and {args.after}")
    return f"{caption}\n\n{fenced(lines, 'diff')}"


def summary(page: Path, before: str, after: str) -> str:
    """A list of what is new, changed and gone, each a link to where it is."""
    items = []
    for kind, names in against(before, after).items():
        stage = before if kind == "gone" else after
        found = [definitions(stage)[name] for name in names]
        links = (linked(page, stage, one, f"`{one.name}`") for one in found)
        if names:
            items.append(f"- {kind}: {', '.join(links)}")
    return "\n".join(items)


def index(page: Path, args: Namespace) -> str:
    """The table of a stage's definitions, or of all stages' with a column for each."""
    if args.stage is None:
        return _whole_index(page)
    stage = find_stage(args.stage)
    rows = [["name", "what it is", "where", "since"]]
    for one in _listed(stage):
        since = novelty(stage, one.name) or f"new in {short_name(stage)}"
        where = link(page, stage, one.first, one.last)
        rows.append([f"`{one.name}`", one.about, where, since])
    return table(rows)


def _whole_index(page: Path) -> str:
    names = stages()
    newest: dict[str, Definition] = {}
    for stage in names:
        newest.update({one.name: one for one in _listed(stage)})
    rows = [["name", "what it is", *map(short_name, names)]]
    for one in newest.values():
        cells = (_cell(page, stage, one.name) for stage in names)
        rows.append([f"`{one.name}`", one.about, *cells])
    return table(rows)


def table(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cell(page: Path, stage: str, name: str) -> str:
    """The lines of a definition in a stage, and whether they are new or changed."""
    found = definitions(stage).get(name)
    if found is None:
        return ""
    kind = novelty(stage, name).partition(" ")[0] or "new"
    lines = linked(page, stage, found, _range(found.first, found.last))
    return lines if kind == "as" else f"{lines} {kind}"


def _listed(stage: str) -> list[Definition]:
    found = definitions(stage)
    return [one for name, one in found.items() if name != DOCSTRING]


def count(page: Path, args: Namespace) -> str:
    """A figure of the stages, of one of them, or of what lies between two."""
    if args.what not in COUNTS:
        raise Trouble(f"count takes {', '.join(COUNTS)}; not {args.what!r}")
    usage, figure = COUNTS[args.what]
    most = len(usage.split())
    if not most - usage.count("[") <= len(args.of) <= most:
        raise Trouble(f"write it as: count {args.what} {usage}".rstrip())
    number = figure(*args.of)
    return f"{number:,}" if isinstance(number, int) else str(number)


def _lines(word: str, symbol: str | None = None) -> int:
    stage = find_stage(word)
    text = find(stage, symbol).text if symbol else source(stage).removesuffix("\n")
    return len(text.split("\n"))


def _functions(word: str) -> int:
    return sum(one.kind == "function" for one in _listed(find_stage(word)))


def _items(word: str, symbol: str) -> int:
    found = size(find(find_stage(word), symbol).value)
    if found is None:
        raise Trouble(f"{symbol} is not a written-out list, dict, set or tuple")
    return found


def _value(word: str, symbol: str) -> object:
    value = find(find_stage(word), symbol).value
    if not isinstance(value, ast.Constant):
        raise Trouble(f"{symbol} is not set to a plain value")
    return value.value


def _changed_lines(mark: str, before: str, after: str) -> int:
    old, new = source(find_stage(before)), source(find_stage(after))
    return sum(line.startswith(mark) for line in unified(old, new, 1, 1, 0))


def _names(kind: str, before: str, after: str) -> int:
    return len(against(find_stage(before), find_stage(after))[kind])


COUNTS: dict[str, tuple[str, Callable[..., object]]] = {
    "stages": ("", lambda: len(stages())),
    "lines": ("STAGE [SYMBOL]", _lines),
    "functions": ("STAGE", _functions),
    "definitions": ("STAGE", lambda word: len(_listed(find_stage(word)))),
    "tools": ("STAGE", lambda word: _items(word, "TOOLS")),
    "items": ("STAGE SYMBOL", _items),
    "value": ("STAGE SYMBOL", _value),
    "added": ("STAGE STAGE", partial(_changed_lines, "+")),
    "removed": ("STAGE STAGE", partial(_changed_lines, "-")),
    "new": ("STAGE STAGE", partial(_names, "new")),
    "changed": ("STAGE STAGE", partial(_names, "changed")),
}


def unified(
    old: str, new: str, first_old: int, first_new: int, context: int
) -> list[str]:
    """The hunks of a unified diff, with true line numbers; [] for equal texts.

    first_old, first_new: the line numbers in their files at which the texts begin.
    """
    a, b = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    lines = []
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        spans = _hunk(first_old + i, i_end - i), _hunk(first_new + j, j_end - j)
        lines.append(f"@@ -{spans[0]} +{spans[1]} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a[i1:i2]]
            else:
                lines += [f"-{line}" for line in a[i1:i2]]
                lines += [f"+{line}" for line in b[j1:j2]]
    return lines


def _hunk(first: int, count: int) -> str:
    """Where a hunk is; an empty one is named by the line before it."""
    if count == 1:
        return str(first)
    return f"{first if count else max(first - 1, 0)},{count}"


def link(page: Path, stage: str, first: int = 0, last: int = 0) -> str:
    """A link from the page to lines of a stage, or to the whole of it."""
    name = f"{stage}/code.py"
    shown = f"{name}:{_range(first, last)}" if first else name
    return f"[{shown}]({_target(page, stage, first, last)})"


def linked(page: Path, stage: str, found: Definition, text: str) -> str:
    """A link from the page to a definition, shown as the text."""
    return f"[{text}]({_target(page, stage, found.first, found.last)})"


def _target(page: Path, stage: str, first: int, last: int) -> str:
    path = os.path.relpath(stage_file(stage), page.parent).replace(os.sep, "/")
    if not first:
        return path
    return f"{path}#L{first}" + (f"-L{last}" if last > first else "")


def _range(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


DIRECTIVES = {
    "code": code,
    "place": place,
    "diff": diff,
    "index": index,
    "count": count,
}
