"""Measures what the workshop promises and prints each figure beside its limit.

`./workshop bench` runs everything (about two minutes), `./workshop bench bash glob` the
named parts, `--json` prints one object. Times drift from machine to machine, so a turn
of the loop and a glob are compared with a reference in the same run.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kit import stages

RUNS = 5  # of each loop; the best counts, it was disturbed least


class Figure(NamedTuple):
    """One measured value, its unit, and the most it may be (None = for information)."""

    name: str
    value: float
    unit: str
    limit: float | None = None


def load(name: str, workspace: Path) -> Any:
    """The stage as a fresh module that works in the given folder."""
    stage: Any = stages.load_stage(stages.find_stage(name))
    stage.WORKDIR = workspace
    return stage


def seconds(action: Callable[[], object]) -> float:
    """How long one call of the action takes, in seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_new_process(code: str, folder: Path) -> tuple[float, float]:
    """Seconds and added megabytes that `code` takes with stage s05 loaded as `stage`.

    A process of its own, because the memory peak of a process never falls again.
    """
    script = (
        "import resource, sys, time\nfrom pathlib import Path\nfrom kit import stages\n"
        "stage = stages.load_stage(stages.find_stage('s05'))\n"
        f"stage.WORKDIR = Path({str(folder)!r})\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit\n"
        f"before, start = peak(), time.perf_counter()\n{code}\n"
        "print(time.perf_counter() - start, (peak() - before) / 1e6)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=stages.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return float(printed[-2]), float(printed[-1])


def bench_bash(folder: Path) -> Iterator[Figure]:
    """The bash tool: a flood, a background child, the cost of a command."""
    took, grown = in_new_process(
        "stage.BASH_TIMEOUT = 2\nassert 'Timeout' in stage.run_bash('yes')", folder
    )
    yield Figure("bash `yes`, 2 s timeout: memory", grown, "MB", 20)
    yield Figure("bash `yes`, 2 s timeout: returns after", took, "s", 2.7)
    stage = load("s05", folder)
    took = seconds(lambda: stage.run_bash("sleep 60 & echo x"))
    yield Figure("bash `sleep 60 & echo x`", took, "s", 1)
    times = [seconds(lambda: stage.run_bash("true")) for _ in range(200)]
    yield Figure("bash `true`, median of 200", statistics.median(times) * 1e3, "ms", 5)


def bench_read(folder: Path) -> Iterator[Figure]:
    """read_file with a limit, on a file of 1 GB."""
    block = b"one line of a large file\n" * 40_000
    with (folder / "large.txt").open("wb") as file:
        for _ in range(1000):
            file.write(block)
    took, grown = in_new_process(
        "assert stage.run_read('large.txt', 20).count('one line') == 20", folder
    )
    yield Figure("read_file, limit 20, 1 GB file: time", took * 1e3, "ms", 50)
    yield Figure("read_file, limit 20, 1 GB file: memory", grown, "MB", 10)


def bench_glob(folder: Path) -> Iterator[Figure]:
    """glob over 100,000 files against os.walk over the same tree."""
    for number in range(1000):
        part = folder / f"d{number % 30}" / f"e{number}"
        part.mkdir(parents=True)
        for name in range(100):
            (part / f"f{name}.{'py' if name % 2 else 'txt'}").touch()
    stage = load("s05", folder)
    pairs = [
        (
            seconds(lambda: sum(len(files) for _, _, files in os.walk(folder))),
            seconds(lambda: stage.run_glob("**/*.py")),
        )
        for _ in range(5)
    ]
    walk, glob = (min(column) for column in zip(*pairs))
    yield Figure("os.walk over 100,000 files", walk * 1e3, "ms")
    yield Figure("glob **/*.py over the same, ratio to os.walk", glob / walk, "x", 3)


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers with a bash call until the history holds as many results as asked for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        turns, done = int(self.path.split("/")[1]), body.count(b'"tool_use_id"')
        block: dict[str, Any] = {"type": "text", "text": "done"}
        if done < turns:
            block = {
                "type": "tool_use",
                "id": f"toolu_{done}",
                "name": "bash",
                "input": {"command": "true"},
            }
        reply = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "bench",
            "content": [block],
            "stop_sequence": None,
            "stop_reason": "tool_use" if done < turns else "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        data = json.dumps(reply).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(data)}\r\n"
        head += "content-type: application/json\r\n\r\n"
        self.wfile.write(head.encode() + data)


@contextlib.contextmanager
def canned_server() -> Iterator[str]:
    """The address of a server with canned replies, in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "kit.bench", "--canned"],
        cwd=stages.ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.kill()
        server.communicate()


def serve_canned() -> None:
    """Serves on a free port, which is printed first, until the process is ended."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canned)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def bare_loop(client: Any, tools: list[dict[str, Any]]) -> None:
    """The reference: the shortest loop that works, with the same SDK and shell."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    while True:
        reply = client.messages.create(
            model="bench", messages=messages, tools=tools, max_tokens=8000
        )
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            return
        results = []
        for block in reply.content:
            if block.type == "tool_use":
                done = subprocess.run(
                    ["bash", "-c", block.input["command"]],
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                output = done.stdout + done.stderr or "(no output)"
                results.append(
                    {"type": "tool_result", "tool_use_id": block.id, "content": output}
                )
        messages.append({"role": "user", "content": results})


def run_stage(stage: Any) -> None:
    """One user turn of the stage's own loop."""
    stage.agent_loop([{"role": "user", "content": "go"}])


def best_turns(loops: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Milliseconds of a turn of each loop: the best of RUNS, taken in rotation."""
    best = dict.fromkeys(loops, float("inf"))
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for name in [*loops] * RUNS:
            best[name] = min(best[name], seconds(loops[name]) / turns * 1e3)
    return best


def bench_loop(folder: Path) -> Iterator[Figure]:
    """A turn of s01 and of s05 against a turn of the bare loop, at two lengths."""
    import anthropic

    with canned_server() as address:
        for turns in (50, 200):
            client = anthropic.Anthropic(api_key="bench", base_url=f"{address}/{turns}")
            loops: dict[str, Callable[[], object]] = {}
            for name in ("s01", "s05"):
                stage: Any = load(name, folder)
                stage.client, stage.MODEL, stage.MAX_TURNS = client, "bench", turns + 1
                loops[name] = partial(run_stage, stage)
            loops["bare"] = partial(bare_loop, client, stage.TOOLS[:1])
            best = best_turns(loops, turns)
            bare = best.pop("bare")
            yield Figure(f"bare loop, {turns} turns: a turn", bare, "ms")
            for name, took in best.items():
                ratio = took / bare
                yield Figure(f"{name}, {turns} turns: a turn to bare", ratio, "x", 1.5)


def bench_start(folder: Path) -> Iterator[Figure]:
    """The launcher and `kit` before a stage starts, when everything is installed."""
    command = [str(stages.ROOT / "workshop"), "help"]
    times = [
        seconds(
            lambda: subprocess.run(command, cwd=folder, capture_output=True, check=True)
        )
        for _ in range(5)
    ]
    yield Figure(
        "second start of ./workshop, median of 5", statistics.median(times), "s", 0.5
    )


PARTS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "bash": bench_bash,
    "read": bench_read,
    "glob": bench_glob,
    "loop": bench_loop,
    "start": bench_start,
}


def measure(parts: list[str]) -> Iterator[Figure]:
    """The figures of the named parts, each in an empty folder that is removed again."""
    for part in parts:
        folder = Path(tempfile.mkdtemp(prefix="workshop-bench-"))
        try:
            yield from PARTS[part](folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def main(words: list[str]) -> int:
    """Prints the figures: 0 when all keep their limits, 1 when one does not, 2 for a
    word that is no part."""
    parts = [word for word in words if word != "--json"]
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"No such part: {', '.join(unknown)}. The parts are: {', '.join(PARTS)}.")
        return 2
    figures = []
    for figure in measure(parts or list(PARTS)):
        figures.append(figure)
        if "--json" not in words:
            bound = "" if figure.limit is None else f"at most {figure.limit:g}"
            over = figure.limit is not None and figure.value > figure.limit
            print(
                f"{figure.name:48} {figure.value:9.2f} {figure.unit:3} {bound:13}"
                f"{'  OVER' if over else ''}".rstrip(),
                flush=True,
            )
    if "--json" in words:
        print(json.dumps([figure._asdict() for figure in figures], indent=2))
    return int(any(f.limit is not None and f.value > f.limit for f in figures))


if __name__ == "__main__":
    serve_canned() if sys.argv[1:] == ["--canned"] else sys.exit(main(sys.argv[1:]))
