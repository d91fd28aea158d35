"""What can be wrong in the prose of a page: links, anchors, paths, commands, names."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from kit import stages
from kit.definitions import against, find
from kit.regions import Block, Page, Trouble

WhyNot = Callable[[list[str]], "str | None"]

LINK = re.compile(r"\]\(\s*<?([^\s)>]+)|^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", re.M)
HTML_LINK = re.compile(r"\b(?:href|src|srcset)=\"([^\"\s]+)")
HTML_ANCHOR = re.compile(r"<\w+[^>]*\b(?:id|name)=\"([^\"]+)\"")
HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
LINES = re.compile(r"L(\d+)(?:-L(\d+))?")
ELSEWHERE = re.compile(r"<!-- elsewhere: (.*?) -->", re.S)
# A path in code, and in a word that stands alone in it also a file of the root.
PATH = re.compile(r"(?:\./)?(\.?\w[\w.-]*/[\w./-]*)(?::(\d+)(?:-\d+)?)?")
FILE_LIKE = re.compile(r".*(/|\.[a-z]\w{0,4})")
ROOT_FILE = re.compile(r"[A-Z]+\.md|\w+\.toml|\.env\.\w+|requirements[\w-]*\.txt")
STAGE_FOLDER = re.compile(r"s\d\d_\w+$")
# Made by the first start or by the learner: named, but in no fresh copy.
MADE_LATER = {".venv", ".env", ".venv.lock", "work", "practice-workspace"}
TYPED = ("sh", "bash", "shell")  # every line of such a block is for the reader
SHELL = (*TYPED, "console", "text", "")  # of these, the lines after a $
LESSON = re.compile(r"docs/(s\d\d)_\w+\.md")
LISTS_ALL = re.compile(r"index\b.*|diff \S+ \S+(?: --.*)?")
BY_HAND = "line numbers go stale: let a code, place or index region write them"
STANDS_FOR = {"STAGE": "s01", "sNN": "s01"}  # in the usage of a command


class Finding(NamedTuple):
    """Something to put right: `docs/page.md:12: what`."""

    name: str
    line: int
    text: str

    @classmethod
    def of(cls, page: Page, line: int, text: str) -> Finding:
        return cls(page.name, line, text)

    def __str__(self) -> str:
        return f"{self.name}:{self.line}: {self.text}"


class Checker:
    """Checks pages, and keeps those that links lead to."""

    def __init__(self, read: Callable[[Path], Page], why_not: WhyNot) -> None:
        self._read = read
        self._why_not = why_not
        self._pages: dict[Path, Page | None] = {}
        self.unreadable: list[Finding] = []

    def page(self, path: Path) -> Page | None:
        """The page of a file; None, and a finding, when it cannot be read."""
        if path not in self._pages:
            try:
                self._pages[path] = self._read(path)
            except Trouble as trouble:
                self._pages[path] = None
                name = os.path.relpath(path, stages.ROOT)
                self.unreadable.append(Finding(name, 1, str(trouble)))
        return self._pages[path]

    def check(self, page: Page) -> Iterator[Finding]:
        """Everything that is wrong beside the generated regions."""
        found = [
            *self._links(page),
            *self._commands(page),
            *wrong_paths(page),
            *unmentioned(page),
        ]
        return (Finding.of(page, line, text) for line, text in found)

    def _links(self, page: Page) -> Iterator[tuple[int, str]]:
        for pattern in (LINK, HTML_LINK):
            for found in pattern.finditer(page.prose):
                target = next(filter(None, found.groups()))
                start = found.end() - 1
                line = page.line_at(start)
                by_hand = page.own[start] == page.prose[start]
                if problem := self._wrong_link(page, target, by_hand):
                    yield line, f"the link to {target}: {problem}"

    def _wrong_link(self, page: Page, target: str, by_hand: bool) -> str:
        """What is wrong with the target of a link, or ""."""
        if re.match(r"\w+:|//", target):
            return ""
        file, _, anchor = target.partition("#")
        path = Path(os.path.normpath(page.path.parent / unquote(file)))
        path = path if file else page.path
        if file.startswith("/") or stages.ROOT not in (path, *path.parents):
            return "it leads out of the repository"
        if not path.exists():
            return f"there is no such file{_nearest_file(path)}"
        if not anchor:
            return ""
        if path.suffix != ".md":
            return _wrong_lines(path, anchor, by_hand)
        other = page if path == page.path else self.page(path)
        known = anchors(other) if other else {anchor}
        if unquote(anchor) in known:
            return ""
        return f"there is no heading #{anchor}{_nearest(anchor, known, '#')}"

    def _commands(self, page: Page) -> Iterator[tuple[int, str]]:
        lines = [(span.line, span.text) for span in page.spans]
        for block in page.blocks:
            lines += _command_lines(block)
        for line, text in lines:
            for words in workshop_commands(text):
                meant = [STANDS_FOR.get(word, word) for word in words]
                if problem := self._why_not(meant):
                    command = " ".join(["./workshop", *map(shlex.quote, words)])
                    yield line, f"the command {command}: {' '.join(problem.split())}"


def _command_lines(block: Block) -> Iterator[tuple[int, str]]:
    """The lines of a fenced block that a reader is meant to type."""
    if block.language not in SHELL:
        return
    text = block.text.replace("\\\n", "  \n")
    for number, line in enumerate(text.split("\n"), start=block.line):
        if block.language in TYPED or line.startswith("$ "):
            yield number, line


def workshop_commands(text: str) -> Iterator[list[str]]:
    """The words after each `./workshop` in a line for the shell."""
    if "./workshop" not in text:
        return
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # an apostrophe, a quote that is not closed
        words = text.split()
    while "./workshop" in words:
        words = words[words.index("./workshop") + 1 :]
        ends = (n for n, word in enumerate(words) if re.match(r"[|&;><]|2>", word))
        yield words[: next(ends, len(words))]


def anchors(page: Page) -> set[str]:
    """The anchors that GitHub gives a page: its headings', and ids of its own."""
    found = set(HTML_ANCHOR.findall(page.prose))
    seen: dict[str, int] = {}
    for line, prose in zip(page.lines, page.prose.split("\n")):
        heading = HEADING.fullmatch(line)
        if heading and prose.lstrip().startswith("#"):
            name = slug(heading[1])
            count = seen[name] = seen.get(name, -1) + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def slug(heading: str) -> str:
    """GitHub's anchor for the Markdown of a heading."""
    parts = re.split(r"(`+)(.+?)\1", heading)
    del parts[1::3]  # the backticks; code is every second part now
    for at in range(0, len(parts), 2):
        text = re.sub(r"<[^>]+>|\]\([^)]*\)", "", parts[at])
        parts[at] = re.sub(r"(?<!\w)_(?=\w)|(?<=\w)_(?!\w)", "", text)
    return re.sub(r"[^\w\- ]", "", "".join(parts).strip().lower()).replace(" ", "-")


def _wrong_lines(path: Path, anchor: str, by_hand: bool) -> str:
    found = LINES.fullmatch(anchor)
    if not found:
        return f"#{anchor} is not a line, such as #L12 or #L12-L15"
    if by_hand:
        return BY_HAND
    last = int(found[2] or found[1])
    count = path.read_text(encoding="utf-8").count("\n")
    return f"the file has {count} lines" if last > count else ""


def wrong_paths(page: Page) -> Iterator[tuple[int, str]]:
    """The paths in code that lead nowhere. `<!-- elsewhere: A B -->` excuses some."""
    excused = {w for names in ELSEWHERE.findall(page.text) for w in names.split()}
    lines = [(span.line, span.text) for span in page.spans]
    lines += [line for block in page.blocks for line in _command_lines(block)]
    for line, text in lines:
        words = text.partition(" #")[0].split()
        for word in words:
            word = word.strip("\"',;()[]").partition("::")[0]
            if problem := _wrong_path(page, word, len(words) == 1, excused):
                yield line, f"`{word}`: {problem}"


def _wrong_path(page: Page, word: str, alone: bool, excused: set[str]) -> str:
    """What is wrong with a word that looks like a path of the repository, or ""."""
    found = PATH.fullmatch(word)
    path, line = found.groups() if found else (word, None)
    first = path.partition("/")[0]
    ours = STAGE_FOLDER.match(first) or (found and (stages.ROOT / first).is_dir())
    looks = FILE_LIKE.fullmatch(path) if found else ROOT_FILE.fullmatch(path)
    if not ours and not (alone and looks):
        return ""
    if first in MADE_LATER or path in excused or "NN" in path or "..." in path:
        return ""
    places = [base / path for base in (stages.ROOT, page.path.parent)]
    if not any(place.exists() for place in places):
        return f"there is no such file{_nearest_file(places[0])}"
    return BY_HAND if line else ""


def unmentioned(page: Page) -> Iterator[tuple[int, str]]:
    """What a stage adds or changes and its lesson does not name.

    Named is what stands in inline code or in a generated region, other than in a
    list of everything: an index, a whole diff or its summary.
    """
    found = LESSON.fullmatch(page.name)
    names = stages.stages()
    stage = next((name for name in names[1:] if found and name[:3] == found[1]), None)
    if stage is None:
        return
    shown = [r for r in page.regions if not LISTS_ALL.fullmatch(r.directive)]
    texts = [page.text[region.start : region.end] for region in shown]
    texts += [span.text for span in page.spans]
    words = set(re.findall(r"\w+", "\n".join(texts)))
    before = names[names.index(stage) - 1]
    for kind, changes in against(before, stage).items():
        for name in changes:
            if name not in words and kind != "gone":
                at = f"{stage}/code.py:{find(stage, name).first}"
                yield 1, f"the lesson does not name {name}, {kind} in {at}"


def _nearest(word: str, known: Iterable[str], mark: str = "") -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean {mark}{near[0]}?" if near else ""


def _nearest_file(path: Path) -> str:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return _nearest(path.name, sorted(names))
