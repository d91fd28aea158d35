"""A process that has loaded the SDK once, and forks a fresh child for every program.

Loading the SDK takes a second, a short program a tenth of one. `Nest` is this end. The
rest of the file is the other: it runs as a script and loads nothing of kit, so that a
child finds the files of the repository as they are when it begins.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any


class Nest:
    """Runs Python programs in forks of one process, which the first of them starts.

    settings: the environment of that process; what Python reads only when it starts,
    such as PYTHONHASHSEED, holds for all programs. May be used from many threads.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._folder = tempfile.mkdtemp()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._life = -1

    def __enter__(self) -> Nest:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process:
            os.close(self._life)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, **request: object) -> int:
        """The exit code of a program, or minus the signal that ended it.

        request: file, path (where its imports begin), cwd, env, stdin and stdout (both
        files), seconds (the most it may take). Raises OSError without the SDK.
        """
        with self._lock:
            if self._process is None:
                self._start()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.path.join(self._folder, "nest"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as lines:
                answer = lines.readline()
        if not answer:
            raise OSError("the process that runs the programs has ended")
        return int(answer)

    def _start(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(self._folder, "nest"))
            listener.listen(64)
            theirs, self._life = os.pipe()
            fds = (listener.fileno(), theirs)
            self._process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), *map(str, fds)],
                env=self._settings,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            os.close(theirs)


def main(listener_fd: int, life_fd: int) -> int:
    """Serve one program per connection until the other end of `life_fd` closes."""
    warm_up()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    listener = socket.socket(fileno=listener_fd)
    while life_fd not in select.select([listener_fd, life_fd], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(life_fd)
            return keep(connection)
        connection.close()
    return 0


def warm_up() -> None:
    """Load the SDK, and what it loads on a first call; port 1 answers nobody."""
    import dotenv  # noqa: F401
    from anthropic import Anthropic, APIConnectionError

    client = Anthropic(api_key="none", base_url="http://127.0.0.1:1", max_retries=0)
    with suppress(APIConnectionError):
        client.messages.create(model="none", max_tokens=1, messages=[])


def keep(connection: socket.socket) -> int:
    """Run the program that is asked for in a child, and answer its exit code.

    Returns in the child only.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        return become(request)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(request["seconds"])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(f"{code}\n".encode())
    os._exit(0)


def become(request: dict[str, Any]) -> int:
    """Run a Python file as `python FILE` would, in this process: its exit code."""
    os.setsid()
    os.umask(0o022)
    stdin = os.open(request["stdin"], os.O_RDONLY)
    stdout = os.open(request["stdout"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for old, new in ((stdin, 0), (stdout, 1), (stdout, 2)):
        os.dup2(old, new)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    file = request["file"]
    sys.argv[:] = [file]
    sys.path[0] = request["path"]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = file
    ended: list[object] = [1]

    def leave() -> None:
        """Skip what is left of the interpreter's end: it takes as long as a run."""
        sys.stdout.flush()
        os._exit(ended[0] if isinstance(ended[0], int) else 0)

    atexit.register(leave)  # first registered, last called
    try:
        with open(file, "rb") as program:
            code = compile(program.read(), file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
        ended[0] = 0
    except SystemExit as left:
        ended[0] = left.code
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
            ended[0] = 1
    except Exception as error:
        trace = error.__traceback__
        traceback.print_exception(type(error), error, trace and trace.tb_next)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
