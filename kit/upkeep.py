"""`./workshop upkeep`: fills the generated regions of the pages, or checks them.

A page holds <!-- gen: DIRECTIVE --> and <!-- /gen -->, each alone on a line, around:

    code STAGE SYMBOL [--from TEXT] [--to TEXT]     a definition, or lines of it
    diff STAGE STAGE [SYMBOL] [--context LINES]     what differs; all without SYMBOL
    diff STAGE STAGE --summary                      the names of what is new or changed
    index [STAGE]                                   every definition, with its place
    run STAGE PROMPT...                             a run with these lines typed
    output                                          what the python block above prints
    python FILE                                     a snippet in a file, and its output

or, inside a line, around a word: `count WHAT...` (excerpts.COUNTS) and `place STAGE
SYMBOL`. Words are quoted as for the shell. run, output and python take --from, --to or
--lines A-B for a part, and --exit CODE when the program is meant to fail.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from kit import excerpts, recorded, stages
from kit.mdchecks import Checker, Finding, WhyNot
from kit.nest import Nest
from kit.recorded import Recorder
from kit.regions import CLOSE, Page, Region, Trouble

THREADS = 2 * (os.cpu_count() or 1)
INLINE = ("count", "place")


class Parser(argparse.ArgumentParser):
    """argparse that answers a mistake with Trouble."""

    def error(self, message: str) -> NoReturn:
        raise Trouble(f"{message}; {' '.join(self.format_usage().split())}")


def build_parsers() -> dict[str, Parser]:
    """The words that each directive takes."""
    parsers: dict[str, Parser] = {}

    def add(name: str, *words: str) -> Parser:
        parser = Parser(name, add_help=False, allow_abbrev=False)
        parsers[name] = parser
        for word in words:
            parser.add_argument(word, metavar=word.upper())
        return parser

    for command in (add("code", "stage", "symbol"), *_printing(add)):
        command.add_argument("--from", dest="start", metavar="TEXT")
        command.add_argument("--to", dest="end", metavar="TEXT")
    add("place", "stage", "symbol")
    command = add("diff", "before", "after")
    command.add_argument("symbol", nargs="?")
    command.add_argument("--summary", action="store_true")
    command.add_argument("--context", type=int, default=2, metavar="LINES")
    add("index").add_argument("stage", nargs="?")
    add("count", "what").add_argument("of", nargs="*")
    return parsers


def _printing(add: Callable[..., Parser]) -> list[Parser]:
    """The directives that show what was printed."""
    commands = [add("run", "stage"), add("python", "file"), add("output")]
    commands[0].add_argument("prompt", nargs="+", metavar="PROMPT")
    for command in commands:
        command.add_argument("--lines", metavar="A-B")
        command.add_argument("--exit", type=int, default=0, metavar="CODE")
    return commands


PARSERS = build_parsers()


def render(recorder: Recorder, page: Page, region: Region) -> str:
    """What stands in a region, its line ends included. Raises Trouble."""
    try:
        name, *words = shlex.split(region.directive)
        args = PARSERS[name].parse_args(words)
        if name == "run":
            text = recorded.run_region(recorder, args)
        elif name == "python":
            text = recorded.python_region(recorder, args)
        elif name == "output":
            text = recorded.output_region(recorder, args, region.snippet)
        else:
            text = excerpts.DIRECTIVES[name](page.path, args)
    except (LookupError, ValueError, OSError) as error:
        raise Trouble(str(error.args[-1])) from error
    if CLOSE in text:
        raise Trouble(f"what it generates holds {CLOSE}")
    return text if region.inline else textwrap.indent(f"\n{text}\n\n", region.indent)


def misplaced(region: Region) -> str:
    """Why a region can never be filled, or ""."""
    name = region.directive.split()[0]
    if name not in PARSERS:
        near = difflib.get_close_matches(name, PARSERS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(PARSERS)}"
        return f"there is no directive {name!r}; {hint}"
    if region.inline != (name in INLINE):
        form = "inside a line" if name in INLINE else "alone on its line"
        return f"{region.directive!r} has to stand {form}"
    return ""


def read(path: Path) -> Page:
    """A page, its line ends as line feeds. Raises Trouble."""
    try:
        text = path.read_text(encoding="utf-8")  # universal newlines
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"cannot be read: {error}") from error
    page = Page(path, os.path.relpath(path, stages.ROOT), text)
    found = [(region.line, misplaced(region)) for region in page.regions]
    page.problems += [(line, why) for line, why in found if why]
    return page


def pages_here() -> list[Path]:
    """Every page that upkeep looks after."""
    named = [stages.ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    found = sorted((stages.ROOT / "docs").rglob("*.md"))
    return [path for path in [*named, *found] if path.is_file()]


def pages_named(files: Sequence[str]) -> list[Path]:
    """The files, seen from here or from the root. Raises LookupError."""
    paths = []
    for file in files:
        tried = [(base / file).resolve() for base in (Path.cwd(), stages.ROOT)]
        found = [path for path in tried if path.is_file()]
        if not found:
            raise LookupError(f"There is no file {file!r}.")
        paths.append(found[0])
    return paths


def upkeep(files: Sequence[str], check: bool, why_not: WhyNot) -> int:
    """Fill the pages, all when none is named, or only check them: the exit code.

    `why_not` says what is wrong with the words after `./workshop`, or None. Raises
    LookupError for a file that is not there.
    """
    paths = pages_named(files) if files else pages_here()
    checker = Checker(read, why_not)
    pages = [page for path in paths if (page := checker.page(path))]
    with Nest(recorded.SETTINGS) as nest:
        contents, findings = generate(pages, Recorder(nest))
    if check:
        for page in pages:
            findings += stale(page, contents[page.path])
            findings += checker.check(page)
    else:
        for page in pages:
            write(page, contents[page.path])
    findings += checker.unreadable
    for finding in sorted(findings):
        print(finding)
    regions = sum(len(page.regions) for page in pages)
    state = f"{len(findings)} to put right" if findings else "all is well"
    print(f"{len(pages)} pages, {regions} generated regions: {state}.")
    return 1 if findings else 0


def generate(
    pages: Sequence[Page], recorder: Recorder
) -> tuple[dict[Path, dict[Region, str]], list[Finding]]:
    """What belongs into each region of each page, and why some cannot be filled.

    A page with a problem of its own is left alone as a whole.
    """
    contents: dict[Path, dict[Region, str]] = {page.path: {} for page in pages}
    findings = []
    for page in pages:
        findings += [Finding.of(page, line, why) for line, why in page.problems]

    def fill(task: tuple[Page, Region]) -> Finding | None:
        page, region = task
        try:
            contents[page.path][region] = render(recorder, page, region)
        except Trouble as trouble:
            return Finding.of(page, region.line, f"{region.directive}: {trouble}")
        return None

    tasks = [(p, region) for p in pages if not p.problems for region in p.regions]
    pool = ThreadPoolExecutor(THREADS)
    try:
        for done, finding in enumerate(pool.map(fill, tasks), start=1):
            findings += [finding] if finding else []
            show_progress(f"{done} of {len(tasks)} regions")
    finally:
        pool.shutdown(cancel_futures=True)
        show_progress("")
    return contents, findings


def show_progress(text: str) -> None:
    """Show a text to who waits at a terminal, in place of the one before."""
    if sys.stderr.isatty():
        print(text.ljust(30), end="\r", file=sys.stderr, flush=True)


def stale(page: Page, contents: dict[Region, str]) -> list[Finding]:
    """The regions whose text is not what belongs there."""
    command = f"run: ./workshop upkeep {page.name}"
    found = [
        Finding.of(page, region.line, f"stale: {region.directive}; {command}")
        for region, text in contents.items()
        if page.text[region.start : region.end] != text
    ]
    if b"\r" in page.path.read_bytes():
        found.append(Finding.of(page, 1, f"line ends are not line feeds; {command}"))
    return found


def write(page: Page, contents: dict[Region, str]) -> None:
    """Put the contents into the page's file, in one step, when that changes it."""
    changed = [r for r, text in contents.items() if page.text[r.start : r.end] != text]
    data = page.filled(contents).encode()
    if page.problems or data == page.path.read_bytes():
        return
    draft = page.path.with_name(f".{page.path.name}.draft-{os.getpid()}")
    try:
        draft.write_bytes(data)
        shutil.copymode(page.path, draft)
        draft.replace(page.path)
    finally:
        draft.unlink(missing_ok=True)
    print(f"{page.name}: {len(changed)} regions filled")
