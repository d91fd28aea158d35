"""A Markdown page as upkeep sees it: generated regions, fenced blocks, and prose.

A region stands between two comments, so that a page reads well wherever it is shown:

    <!-- gen: DIRECTIVE -->        alone on a line, and below it <!-- /gen -->, or
    text <!-- gen: DIRECTIVE -->300<!-- /gen --> text        inside a line
"""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

CLOSE = "<!-- /gen -->"
OPENING = re.compile(r"(\s*)<!-- gen: (\S.*?) -->\s*")
INLINE = re.compile(r"<!-- gen: (\S.*?) -->(.*?)<!-- /gen -->")
MARKER = re.compile(r"<!--\s*/?\s*gen\b.*?(-->|$)", re.M | re.I)
FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^\s`]*)[^`]*")
SPAN = re.compile(r"(?<!`)(`+)(?!`)((?:[^\n]|\n(?!\s*\n))+?)(?<!`)\1(?!`)")
COMMENT = re.compile(r"<!--.*?-->", re.S)
STARTS_LINE = re.compile(r"\s*([-*+>]\s*|\d+[.)]\s+)*")


class Trouble(Exception):
    """What is wrong with a region, in words that its author can act on."""


class Region(NamedTuple):
    """`text[start:end]` of the page is what the directive generates."""

    line: int
    directive: str
    start: int
    end: int
    indent: str = ""
    inline: bool = True
    snippet: str = ""  # the last python block above it that is not generated


class Block(NamedTuple):
    """A fenced block: the number of its first line, its language, its text."""

    line: int
    language: str
    text: str


class Span(NamedTuple):
    """Inline code, its line breaks made spaces."""

    line: int
    text: str


class Page:
    """One page; `name` is its path from the repository's root. Lines count from 1.

    `problems` are (line, sentence), and leave it unfit for filling. `prose` is `text`
    with blanks for what is fenced, a comment or inline code, so that places agree;
    `own` has blanks for what is generated as well.
    """

    def __init__(self, path: Path, name: str, text: str) -> None:
        self.path = path
        self.name = name
        self.text = text
        self.lines = text.split("\n")
        self.problems: list[tuple[int, str]] = []
        self.regions: list[Region] = []
        self.blocks: list[Block] = []
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        unfenced = self._read_blocks()
        without_code = SPAN.sub(_blank, unfenced)
        self._read_inline(without_code)
        self.prose = COMMENT.sub(_blank, without_code)
        self.own = self._without_regions(self.prose)
        written = COMMENT.sub(_blank, self._without_regions(unfenced))
        self.spans = [
            Span(self.line_at(found.start()), " ".join(found[2].split()))
            for found in SPAN.finditer(written)
        ]

    def line_at(self, offset: int) -> int:
        """The number of the line that holds the offset."""
        return bisect_right(self._starts, offset)

    def filled(self, contents: dict[Region, str]) -> str:
        """The text with the contents of these regions in their place."""
        text = self.text
        for region in sorted(contents, key=lambda region: -region.start):
            text = text[: region.start] + contents[region] + text[region.end :]
        return text

    def _read_blocks(self) -> str:
        """Find what is fenced and the regions of whole lines; the text without both's

        markers. The end of a region ends a fence in it as well: however damaged, what
        is generated is replaced.
        """
        kept = list(self.lines)
        snippet = ""
        opened: Region | None = None
        fence: re.Match[str] | None = None
        fenced_at = 0
        for number, line in enumerate(self.lines, start=1):
            closes = line.strip() == CLOSE
            if opened and closes:
                end = self._starts[number - 1]
                self.regions.append(opened._replace(end=end))
                opened = fence = None
            elif fence:
                mark = line.strip()
                if mark.startswith(fence[2]) and not mark.strip(fence[2][0]):
                    inside = self.lines[fenced_at : number - 1]
                    lines = [one.removeprefix(fence[1]) + "\n" for one in inside]
                    self.blocks.append(Block(fenced_at + 1, fence[3], "".join(lines)))
                    if fence[3] == "python" and not opened:
                        snippet = self.blocks[-1].text
                    fence = None
            elif marker := OPENING.fullmatch(line):
                if opened:
                    self._unclosed(opened)
                start = self._starts[number]
                opened = Region(
                    number, marker[2], start, start, marker[1], False, snippet
                )
            elif fence := FENCE.fullmatch(line):
                fenced_at = number
            elif closes:
                self.problems.append((number, f"{CLOSE} closes no region"))
            else:
                continue
            kept[number - 1] = " " * len(line)
        if opened:
            self._unclosed(opened)
        elif fence:
            self.problems.append((fenced_at, "the fenced block is not closed"))
        return "\n".join(kept)

    def _unclosed(self, opened: Region) -> None:
        sentence = f"the region {opened.directive!r} is not closed: {CLOSE} is missing"
        self.problems.append((opened.line, sentence))

    def _read_inline(self, text: str) -> None:
        """Find the regions inside lines; every other marker is a problem."""
        text = self._without_regions(text)
        for found in INLINE.finditer(text):
            line = self.line_at(found.start())
            self.regions.append(Region(line, found[1], *found.span(2)))
            before = text[self._starts[line - 1] : found.start()]
            if STARTS_LINE.fullmatch(before):
                sentence = f"{found[1]!r} makes its line HTML: put a word before it"
                self.problems.append((line, sentence))
            if "--" in found[1]:
                sentence = f"{found[1]!r}: inside a line no comment may hold --"
                self.problems.append((line, sentence))
        for found in MARKER.finditer(INLINE.sub(_blank, text)):
            sentence = f"{found[0]} is not a whole region, nor alone on its line"
            self.problems.append((self.line_at(found.start()), sentence))
        self.regions.sort(key=lambda region: region.start)

    def _without_regions(self, text: str) -> str:
        for region in self.regions:
            start, end = region.start, region.end
            text = text[:start] + _spaces(text[start:end]) + text[end:]
        return text


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _blank(found: re.Match[str]) -> str:
    return _spaces(found[0])


def fenced(lines: list[str], language: str) -> str:
    """Lines as a fenced block; its fence is longer than any row of backticks in it."""
    text = "\n".join(lines)
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def chosen(lines: list[str], start: str | None, end: str | None) -> list[int]:
    """The first and last line (from 1) of the part from `start` to `end`.

    The first line that holds `start`, and the first from there on that holds `end`;
    None stands for the first and the last of all. Raises Trouble.
    """
    places = [1, len(lines)]
    for at, text in enumerate((start, end)):
        if text is not None:
            after = enumerate(lines[places[0] - 1 :], start=places[0])
            found = [number for number, line in after if text in line]
            if not found:
                raise Trouble(f"no line{' after that' * at} contains {text!r}")
            places[at] = found[0]
    return places
