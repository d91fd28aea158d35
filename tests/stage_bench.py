"""A stage to be played with in one process, and interrupted at any moment."""

import functools
import io
import shutil
import signal
import sys

from kit.stages import load_stage


class Screen(io.TextIOWrapper):
    """Standard output that is a terminal, or not, and forgets what was printed."""

    def __init__(self, is_terminal):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)
        self.isatty = lambda: is_terminal


class Fresh:
    """A stage, loaded once, put back to how it was before each conversation."""

    def __init__(self, name):
        self.name, self.module = name, load_stage(name)
        kept = vars(self.module).items()
        self._names = {k: v for k, v in kept if not k.startswith("__")}
        self._hooks = {k: list(v) for k, v in getattr(self.module, "HOOKS", {}).items()}

    def again(self, **settings):
        """The module with its own values, and these instead of some of them."""
        namespace = vars(self.module)
        for name in {n for n in namespace if not n.startswith("__")} - {*self._names}:
            del namespace[name]
        namespace.update(self._names)
        for name, value in self._names.items():
            if isinstance(value, (dict, set, list)):
                namespace[name] = value.copy()
        if self._hooks:
            namespace["HOOKS"] = {k: list(v) for k, v in self._hooks.items()}
        namespace.update(settings)
        return self.module


# Where most bytecodes of a stage are, one character after the other: one moment enough.
PRINTING = ("show", "clip", "<genexpr>")


@functools.cache
def fresh(name):
    """The Fresh of a stage, the same one each time."""
    return Fresh(name)


class Interrupts:
    """Ctrl-C at moments that nothing in the stage chooses.

    `at`: before which bytecode of the stage, where chance is not to choose it.
    """

    def __init__(self, mode, file, rng=None, at=None):
        self.mode, self.file, self.rng, self.at = mode, str(file), rng, at
        self.left = self.seen = self.escaped = 0

    def during(self, turn):
        """Runs a user turn under interrupts; what gets out of it ends here."""
        if self.mode == "as scripted":
            return turn()
        tracer = sys.gettrace()
        try:
            try:
                try:
                    self.start()
                    return turn()
                finally:
                    self.left = 0
            except KeyboardInterrupt:  # before the stage could take it, or a second one
                self.left = 0
                self.escaped += 1
        except KeyboardInterrupt:
            self.left = 0
            self.escaped += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.settrace(tracer)

    def start(self):
        """Sets the moment of the first one, in bytecodes of the stage or in time."""
        if self.mode == "at a bytecode":
            self.left = self.at or int(10 ** self.rng.uniform(1, 3))
            sys.settrace(self.trace)
        else:
            self.left = self.rng.choice([1, 1, 2])
            signal.signal(signal.SIGALRM, self.ring)
            first, then = 10 ** self.rng.uniform(-4.5, -2), self.rng.uniform(2e-5, 1e-3)
            signal.setitimer(signal.ITIMER_REAL, first, then)

    def ring(self, *_):
        """The clock's handler: the signal that Ctrl-C sends."""
        if self.left > 0:
            self.left -= 1
            self.seen += 1
            signal.raise_signal(signal.SIGINT)

    def trace(self, frame, event, _):
        """Counts the stage's bytecodes and interrupts it before one of them."""
        code = frame.f_code
        if code.co_filename != self.file or code.co_name in PRINTING:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self.seen += 1
                raise KeyboardInterrupt
        return self.trace


def fill(folder):
    """An empty workspace with three files and a link, and a folder outside."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in ("ws/a.txt", "ws/sub/b.txt", "ws/gone.txt", "outside/o.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("a\nb\na\n")
    (folder / "ws" / "link").symlink_to("../outside/o.txt")
    return folder / "ws"
