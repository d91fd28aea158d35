"""A terminal for tests: a process on a pseudo-terminal, and what is seen of it."""

import codecs
import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.stages import stage_file, stages

CTRL_C, CTRL_D, CTRL_U, BACKSPACE = "\x03", "\x04", "\x15", "\x7f"
COLUMNS = 80
CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>]|[\r\x07]")
TOKEN = re.compile(
    r"\x1b\[\??(?P<count>\d*)[\d;]*(?P<code>[@-~])|\x1b[=>]|(?P<char>[^\x1b])", re.S
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# A new session has no terminal yet: the process takes this one, hears Ctrl-C even when
# the tests run in the background of a shell, and then becomes the program.
TAKE_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A program on a terminal of 80 columns, as a person at the keyboard has it."""

    def __init__(self, *words, env, cwd):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TAKE_TERMINAL, *map(str, words)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self._name = os.ttyname(slave)
        os.close(slave)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._at = 0
        self._open = True
        self.raw = ""

    @property
    def shown(self):
        """Everything printed and echoed so far, without control sequences."""
        return CONTROL.sub("", self.raw)

    def type(self, keys):
        """Presses these keys; Return is "\\r"."""
        os.write(self._master, keys.encode())

    def wait_for(self, text, within=10):
        """The output from the last match up to and with `text`."""
        at = self._at
        self.wait_until(lambda: text in self.shown[at:], repr(text), within)
        self._at = self.shown.index(text, at) + len(text)
        return self.shown[at : self._at]

    def wait_until(self, condition, what, within=10):
        """Reads on until the condition holds."""
        deadline = time.monotonic() + within
        while not condition():
            if not self._read(deadline - time.monotonic()):
                why = f"within {within} s" if self._open else "before the program ended"
                raise AssertionError(f"{what} did not come {why}")

    def interrupt_input(self):
        """Presses Ctrl-C once the program waits for a key.

        Pressed in the microseconds before that, Ctrl-C takes effect with the next key.
        """
        deadline = time.monotonic() + 5
        while not self._sleeps():
            assert time.monotonic() < deadline, "the program is busy for 5 s"
            time.sleep(0.001)
        self.type(CTRL_C)

    @contextmanager
    def output_stopped(self):
        """While this lasts, a program that prints waits, as after Ctrl-S."""
        slave = os.open(self._name, os.O_RDWR | os.O_NOCTTY)
        try:
            termios.tcflow(slave, termios.TCOOFF)
            yield
        finally:
            termios.tcflow(slave, termios.TCOON)
            os.close(slave)

    def _sleeps(self):
        """Whether the program waits for something."""
        pid = self.process.pid
        if os.path.exists("/proc/self/stat"):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
        else:
            command = ["ps", "-o", "state=", "-p", str(pid)]
            state = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
        return state[:1] in ("S", "I")

    def screen(self, start):
        """The rows and the cursor that the output from `start` on leaves."""
        return draw(self.raw[start:])

    def exit_code(self, within=30):
        """The exit code of the program, once it has ended."""
        deadline = time.monotonic() + within
        while self._read(deadline - time.monotonic()):
            pass
        try:
            return self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program did not end within {within} s") from None

    def close(self):
        """Ends what is left."""
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._master is not None:
            os.close(self._master)
            self._master = None

    def _read(self, timeout):
        """Takes in what comes next; False when nothing comes in time, or ever again."""
        wait = max(0, timeout)
        if not self._open or not select.select([self._master], [], [], wait)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError as error:  # how Linux says that the program has gone
            if error.errno != errno.EIO:
                raise
            data = b""
        self.raw += self._decode(data)
        self._open = bool(data)
        return self._open


def draw(output):
    """(rows, (row, column)) of a terminal after this output, from its top left on."""
    grid = [[" "] * COLUMNS for _ in range(40)]
    row = column = 0
    for token in TOKEN.finditer(output):
        count, code, char = int(token["count"] or 1), token["code"], token["char"]
        if char and char.isprintable():
            if column == COLUMNS:  # the cursor waits at the edge for the next one
                row, column = row + 1, 0
            grid[row][column] = char
        row += {"A": -count, "B": count}.get(code, char == "\n")
        column += {"C": count, "D": -count}.get(code, -1 if char == "\b" else 0)
        column += char is not None and char.isprintable()
        column = 0 if char == "\r" else count - 1 if code == "G" else column
        if code in ("K", "J", "P", "@"):
            before, after = grid[row][:column], grid[row][column:]
            rest = {"P": after[count:], "@": [" "] * count + after}.get(code, [])
            grid[row] = (before + rest + [" "] * COLUMNS)[:COLUMNS]
        if code == "J":
            grid[row + 1 :] = [[" "] * COLUMNS for _ in grid[row + 1 :]]
    return ["".join(line).rstrip() for line in grid], (row, column)


def copy_stages(root, env_file=None, change=lambda source: source):
    """A copy of the stages, changed or not, in a folder with a .env of its own."""
    for stage in stages():
        (root / stage).mkdir(parents=True)
        source = stage_file(stage).read_text(encoding="utf-8")
        (root / stage / "code.py").write_text(change(source), encoding="utf-8")
    (root / "README.md").touch()
    if env_file is not None:
        (root / ".env").write_bytes(env_file)
    return root


def run_many(jobs, folder):
    """Runs the programs of `jobs` on one import of the SDK (see warm_start.py).

    A job is {"script", "env", "cwd", "typed"}; gives (exit code, stdout, stderr) for
    each, in bytes.
    """
    folder.mkdir()
    for number, job in enumerate(jobs):
        (folder / f"{number}.in").write_bytes(job["typed"])
    todo = [{name: job[name] for name in ("script", "cwd", "env")} for job in jobs]
    (folder / "jobs.json").write_text(json.dumps(todo, default=str))
    host = subprocess.run(
        [sys.executable, Path(__file__).with_name("warm_start.py"), folder],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert host.returncode == 0, host.stderr.decode()
    return [
        (code, *((folder / f"{n}.{end}").read_bytes() for end in ("out", "err")))
        for n, code in enumerate(json.loads(host.stdout))
    ]
