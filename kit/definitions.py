"""The top-level definitions of a stage: where each stands, what it is, since when."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kit.stages import short_name, stage_file, stages

SHORT_VALUE = 60  # characters; of a longer value the head is shown
DOCSTRING = "__doc__"
Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Compound = (ast.Try, ast.If, ast.With)


class Definition(NamedTuple):
    """A function, class or setting; `text` is its lines, comments above included."""

    name: str
    first: int  # line numbers, from 1, both included
    last: int
    text: str
    kind: str  # "function", "class", "setting" or "docstring"
    about: str  # Markdown: the docstring's first line, or the value and the comment
    value: ast.expr | None  # what a setting is set to


def source(stage: str) -> str:
    """The text of a stage's code.py, its line ends as line feeds."""
    return stage_file(stage).read_text(encoding="utf-8")


def definitions(stage: str) -> dict[str, Definition]:
    """The definitions of a stage by name, in their order; `__doc__` is the first.

    Imports are none. What a top-level `try` or `with` sets is that whole statement.
    """
    return _parse(source(stage))


def find(stage: str, name: str) -> Definition:
    """One definition. Raises LookupError with a sentence that names the nearest."""
    found = definitions(stage)
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise LookupError(f"{short_name(stage)} defines no {name!r} at top level.{hint}")


def novelty(stage: str, name: str) -> str:
    """Since when it is as it is: "new in s03", "changed in s03" or "as in s01".

    "as in" names the earliest stage from which on the text is the same. In the first
    stage, where all is new, the answer is "".
    """
    names = stages()
    at = first = names.index(stage)
    text = definitions(stage)[name].text
    while first and text == _text(names[first - 1], name):
        first -= 1
    if first < at:
        return f"as in {short_name(names[first])}"
    if not at:
        return ""
    known = name in definitions(names[at - 1])
    return f"{'changed' if known else 'new'} in {short_name(stage)}"


def against(before: str, after: str) -> dict[str, list[str]]:
    """Names by what they are in `after`: {"new": [], "changed": [], "gone": []}.

    The docstring of the file is none of them.
    """
    old, new = definitions(before), definitions(after)
    names = [name for name in new if name != DOCSTRING]
    return {
        "new": [name for name in names if name not in old],
        "changed": [n for n in names if n in old and old[n].text != new[n].text],
        "gone": [name for name in old if name not in new],
    }


def _text(stage: str, name: str) -> str | None:
    found = definitions(stage).get(name)
    return found.text if found else None


@lru_cache(maxsize=64)
def _parse(text: str) -> dict[str, Definition]:
    tree = ast.parse(text)
    lines = text.split("\n")
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    found: dict[str, Definition] = {}
    for node in tree.body:
        for name, value in _bound(node):
            if name not in found and name not in imported:
                shown = ast.get_source_segment(text, value) if value else ""
                found[name] = _definition(name, node, lines, value, shown or "")
    return found


def _bound(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names a top-level statement defines, each with its value where it has one."""
    if isinstance(node, (*Function, ast.ClassDef)):
        yield node.name, None
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign):
        yield from _targets(node.target, node.value)
    elif isinstance(node, Compound):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _bound(child)
    elif isinstance(node, ast.Expr) and node.lineno == 1:
        yield DOCSTRING, node.value


def _targets(
    target: ast.expr, value: ast.expr | None
) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(values):
            values = [*value.elts]
        for part, one in zip(target.elts, values):
            yield from _targets(part, one)


def _definition(
    name: str, node: ast.stmt, lines: list[str], value: ast.expr | None, shown: str
) -> Definition:
    decorators = getattr(node, "decorator_list", [])
    first = top = min(part.lineno for part in (node, *decorators))
    last = node.end_lineno or first
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    text = "\n".join(lines[first - 1 : last])
    kind = "docstring" if name == DOCSTRING else "setting"
    if isinstance(node, (*Function, ast.ClassDef)):
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        about = as_prose((ast.get_docstring(node) or "").partition("\n")[0])
    else:
        last_line = lines[last - 1].encode()
        beside = last_line[node.end_col_offset or 0 :].decode().strip()
        above = " ".join(line.lstrip("# ") for line in lines[first - 1 : top - 1])
        remark = as_prose(beside.lstrip("# ") or above)
        about = ": ".join(part for part in (describe(value, shown), remark) if part)
    return Definition(name, first, last, text, kind, about, value)


def describe(value: ast.expr | None, shown: str) -> str:
    """A value as code, cut when it is long; a long list or the like by its size."""
    line = shown.partition("\n")[0]
    if shown and shown == line and len(line) <= SHORT_VALUE:
        return f"`{shown}`"
    count = size(value)
    if count is not None:
        return f"{type(value).__name__.lower()} of {count}"
    return f"`{line[: SHORT_VALUE - 3].rstrip()}...`" if line else ""


def as_prose(text: str) -> str:
    """Text with the characters escaped that Markdown would take for its own."""
    return re.sub(r"([\\*_<`\[\]])", r"\\\1", text)


def size(value: ast.expr | None) -> int | None:
    """How many items a written-out list, dict, set or tuple has; None for all else."""
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return len(value.elts)
    return len(value.keys) if isinstance(value, ast.Dict) else None
