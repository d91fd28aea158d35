"""s03: what may run is decided in Python, before it runs.

The model decides, Python executes: the loop sends the history to the model, runs the
commands it asks for, sends the results back, and ends when it asks for no more.

Adds: three gates before a call runs: a deny list, rules that ask, the user's answer.
Leaves out: hooks, a plan. The gates teach where to check; they are no sandbox.
Run: ./workshop run s03 (no key), or python s03_permission/code.py (key in .env)
"""

import codecs
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
STAGE = HERE.name[:3]
# This file hides the standard module `code`, which the debugger imports.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
try:
    import readline
except ImportError:  # not every Python is built with it
    readline = None
try:
    from anthropic import Anthropic
    from dotenv import load_dotenv
except ImportError as error:
    print(f"{error}: ./workshop run {STAGE} installs what is missing", file=sys.stderr)
    sys.exit(2)

ROOT = next((d for d in HERE.parents if (d / "README.md").exists()), HERE.parent)
ENV_FILE = ROOT / ".env"


def drop_empty_settings():
    """Makes an empty variable count as unset."""
    for name, value in list(os.environ.items()):
        if name.startswith(("ANTHROPIC_", "MODEL_ID")) and not value.strip():
            del os.environ[name]


drop_empty_settings()
with suppress(OSError, ValueError):  # what a bad .env leaves unset, main() names
    load_dotenv(ENV_FILE)
drop_empty_settings()
try:
    WORKDIR, client, setup_error = Path.cwd(), Anthropic(), None
except Exception as error:  # a folder that is gone, a proxy that the SDK cannot use
    WORKDIR, client, setup_error = Path("."), None, error

MODEL = os.getenv("MODEL_ID", "")
SYSTEM = f"You are a coding agent at {WORKDIR}. Act with your tools, then report."
MAX_TOKENS = 8000
MAX_TURNS = 50
BASH_TIMEOUT = 120  # seconds
OUTPUT_LIMIT = 50_000  # characters
LINE_LIMIT = 2000  # characters of one line that read_file shows
GLOB_LIMIT = 500  # paths
# A demonstration, not a boundary: the same command in another spelling passes.
DANGEROUS = [r"rm -rf /(\s|$)", r"(sudo|shutdown|reboot)(\s|$)", r"[^'\"]*> ?/dev/sd"]
SECRETS = ("API_KEY", "AUTH_TOKEN", "CUSTOM_HEADERS")
NOT_RUN = "Not run: the turn ended before this call."
INTERRUPTED = "Interrupted: this call may have partly run."
DENIED = "Permission denied."
UNSENDABLE = (400, 413, "UnicodeEncodeError")
TAKEN_BACK = ("refusal", "model_context_window_exceeded", *UNSENDABLE)
STOP_NOTES = {
    "end_turn": "the reply was empty, or held calls that were not run",
    "tool_use": "the reply held no tool call",
    "max_tokens": "the reply was cut off; type 'go on' for the rest",
    401: f"check ANTHROPIC_API_KEY in {ENV_FILE}",
    403: "this key may not do that; check its account",
    404: f"check MODEL_ID and ANTHROPIC_BASE_URL in {ENV_FILE}",
    429: "too many requests; wait a minute, then type 'go on'",
    529: "the API is overloaded; wait a minute, then type 'go on'",
    "APIConnectionError": "check the network and ANTHROPIC_BASE_URL, then type 'go on'",
}


def clip(text, limit, missing=0):
    """The text, or its head and tail around a line that says how much is missing."""
    half = limit // 2
    missing += max(0, len(text) - 2 * half)
    if not missing:
        return text
    tail = text[len(text) - half :]
    return f"{text[:half]}\n[... {missing:,} characters left out ...]\n{tail}"


def kill_group(process):
    """Ends the shell and everything it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def read_output(process):
    """What is printed until the shell ends or time is up, clipped as it comes in."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, missing, half = "", 0, OUTPUT_LIMIT // 2
    deadline = time.monotonic() + BASH_TIMEOUT
    while (left := deadline - time.monotonic()) > 0:
        ended = process.poll() is not None
        if ended:  # a background child may hold the pipe open, or go on printing
            kill_group(process)
            deadline = min(deadline, time.monotonic() + 0.2)
        wait = 0 if ended else min(left, 0.05)
        ready = select.select([process.stdout], [], [], wait)[0]
        chunk = os.read(process.stdout.fileno(), 65536) if ready else b""
        text += decode(chunk)
        if len(text) > 2 * OUTPUT_LIMIT:
            missing += len(text) - 2 * half
            text = text[:half] + text[len(text) - half :]
        if ended and not chunk:
            break
        if ready and not chunk:  # output is closed, the shell not yet gone
            time.sleep(0.0001)
    return clip(text, OUTPUT_LIMIT, missing).rstrip()


def run_bash(command):
    """What the command printed, in order, and its exit code when that is not 0."""
    if not isinstance(command, str):
        return "Error: command must be a string"
    if any(re.match(pattern, command) for pattern in DANGEROUS):
        return "Error: Dangerous command blocked"
    env = {k: v for k, v in os.environ.items() if not k.endswith(SECRETS)}
    try:
        with subprocess.Popen(
            ["bash", "-c", command], cwd=WORKDIR, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:
            try:
                output = read_output(process)
                timed_out = process.poll() is None
            finally:
                kill_group(process)
    except (OSError, ValueError) as error:
        return f"Error: {error}"
    if timed_out:
        return f"Error: Timeout ({BASH_TIMEOUT}s)\n{output}".rstrip()
    code = process.returncode
    exit_line = f"\n[exit code {code if code > 0 else 128 - code}]" if code else ""
    return (output or "(no output)") + exit_line


def check_text(**texts):
    """Raises a ValueError that names the first argument that is not text."""
    for name, text in texts.items():
        if not isinstance(text, (str, os.PathLike)):
            raise ValueError(f"{name} must be text, not {text!r}")


def safe_path(p):
    """The path p names, links followed; ValueError when it leaves the workspace."""
    path = (WORKDIR / os.path.expanduser(p)).resolve()
    if path not in GRANTED and not path.is_relative_to(WORKDIR.resolve()):
        raise ValueError(f"Path escapes workspace: {p}")
    return path


def file_path(p, must_exist=True):
    """The safe path of a file; ValueError for a folder, a device or a pipe."""
    path = safe_path(p)
    if not path.is_file() and (must_exist or os.path.lexists(path)):
        raise ValueError(f"{'Not a file' if path.exists() else 'No such file'}: {p}")
    return path


def run_read(path, limit=None):
    """The text of a file, or its first lines and how many more there are."""
    try:
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"limit must be a positive integer, not {limit!r}")
        check_text(path=path)
        with file_path(path).open(encoding="utf-8-sig", newline="") as file:
            text, rest = file.read(4 * OUTPUT_LIMIT), file.read(1)
    except Exception as error:
        return f"Error: {error}"
    lines = text.removesuffix("\n").split("\n")
    whole = lines[:-1] if rest and len(lines) > 1 else lines
    shown = [line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} [line cut here]"
             for line in whole[:limit]]
    while len(shown) > 1 and sum(map(len, shown)) + len(shown) > OUTPUT_LIMIT:
        shown = shown[: len(shown) * 9 // 10]
    more = len(lines) - len(shown)
    note = f"\n... ({more:,}{'+' if rest else ''} more lines)" if more else ""
    return ("\n".join(shown) or "(empty)") + note


def save(path, data):
    """Replaces a file in one step: after a failure the old content is still there."""
    draft = path.with_name(f".draft-{os.getpid()}")
    try:
        with draft.open("wb") as file:
            if path.exists():
                shutil.copymode(path, draft)
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def run_write(path, content):
    """Writes a whole file, making the folders it needs."""
    try:
        check_text(path=path, content=content)
        target, data = file_path(path, must_exist=False), content.encode()
        if not target.parent.exists():
            target.parent.mkdir(parents=True)
        save(target, data)
    except Exception as error:
        return f"Error: {error}"
    return f"Wrote {len(data)} bytes to {path}"


def run_edit(path, old_text, new_text):
    """Replaces the first place of old_text; every byte outside it stays."""
    try:
        check_text(path=path, old_text=old_text, new_text=new_text)
        target, old, new = file_path(path), old_text.encode(), new_text.encode()
        data = target.read_bytes()
        if data.count(b"\n") == data.count(b"\r\n") > 0:  # a file of CRLF lines
            old, new = (re.sub(b"\r?\n", b"\r\n", part) for part in (old, new))
        count = data.count(old) if data.decode() and old else 0
        if not count or old == new:
            raise ValueError("nothing to change: old_text and new_text are the same"
                             if count else f"old_text is empty or not in {path}")
        save(target, data.replace(old, new, 1))
    except Exception as error:
        return f"Error: {error}"
    return f"Edited {path}" + (f" (first of {count} places)" if count > 1 else "")


def glob_regex(parts):
    """The regex of a glob: * and ? match no leading dot, ** matches any folders."""
    wild, regex = {"*": "[^/]*", "?": "[^/]"}, ""
    for part in parts:
        marks = [wild.get(mark, re.escape(mark)) if len(mark) == 1 else
                 ("[" + re.sub(r"[\\[&~|]", r"\\\g<0>", mark[1:])).replace("[!", "[^/")
                 for mark in re.findall(r"\[!?.[^]]*\]|.", part, re.S)]
        dot = "" if part.startswith(".") else r"(?!\.)"
        regex += r"(?:[^./][^/]*/)*" if part == "**" else f"{dot}{''.join(marks)}/"
    return re.compile(regex[:-1])


def is_inside(entry):
    """Whether a directory entry is a file of the workspace, or a link to one."""
    if entry.is_file(follow_symlinks=False):
        return True
    with suppress(ValueError, OSError, RuntimeError):
        return safe_path(entry.path).is_file()
    return False


def find_files(base, matches):
    """The paths below base that match; links to folders are not followed."""
    found, folders = [], [""]
    while folders:
        folder = folders.pop()
        with suppress(OSError), os.scandir(os.path.join(base, folder)) as entries:
            for entry in entries:
                path = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path + "/")
                elif matches(path) and is_inside(entry):
                    found.append(path)
    return sorted(found)


def run_glob(pattern):
    """The files of the workspace that match the pattern, sorted, one a line."""
    try:
        check_text(pattern=pattern)
        parts = pattern.split("/")
        plain = list(takewhile(lambda part: not set(part) & set("*?["), parts[:-1]))
        base = safe_path("/".join([*plain, ""]))
        rest = [part for part in parts[len(plain) :] if part]
        rest += ["*"] * (rest[-1:] == ["**"])
        found = find_files(base, glob_regex(rest).fullmatch)
        folder = os.path.relpath(base, WORKDIR.resolve())
    except Exception as error:
        return f"Error: {error}"
    shown = [os.path.normpath(f"{folder}/{path}") for path in found[:GLOB_LIMIT]]
    if len(found) > GLOB_LIMIT:
        shown.append(f"... ({len(found):,} files match, {GLOB_LIMIT} are shown)")
    text = "\n".join(shown) or f"No file matches {pattern}"
    return os.fsencode(text).decode("utf-8", "replace")


TOOLS = [
    {"name": "bash",
     "description": "Run a command in bash, in the workspace, with empty input. "
     "What it prints comes back in order; what it leaves in the background is ended.",
     "input_schema": {"type": "object", "required": ["command"], "properties": {
         "command": {"type": "string"}}}},
    {"name": "read_file", "description": "Read a text file, or its first lines.",
     "input_schema": {"type": "object", "required": ["path"], "properties": {
         "path": {"type": "string"}, "limit": {"type": "integer"}}}},
    {"name": "write_file", "description": "Write a whole text file and its folders.",
     "input_schema": {"type": "object", "required": ["path", "content"], "properties": {
         "path": {"type": "string"}, "content": {"type": "string"}}}},
    {"name": "edit_file", "description": "Replace the first place of a text in a file.",
     "input_schema": {"type": "object", "required": ["path", "old_text", "new_text"],
                      "properties": {"path": {"type": "string"},
                                     "old_text": {"type": "string"},
                                     "new_text": {"type": "string"}}}},
    {"name": "glob", "description": "List the files that match, such as **/*.py.",
     "input_schema": {"type": "object", "required": ["pattern"], "properties": {
         "pattern": {"type": "string"}}}},
]

TOOL_HANDLERS = {
    "bash": run_bash,
    "read_file": run_read,
    "write_file": run_write,
    "edit_file": run_edit,
    "glob": run_glob,
}

GRANTED = set()  # the paths outside the workspace that the user said yes to
DENIED_CALLS = []  # the calls of this user turn that may not run
# An entry is a program and then what its arguments hold; * and ? as in file names.
DENY_LIST = [
    "sudo", "doas", "pkexec", "su", "shutdown", "reboot", "halt", "poweroff",
    "init [06]", "telinit", "systemctl poweroff", "systemctl reboot", "mkfs*", "rm /",
    "rm //*", "rm /.*", "rm /[*]*", "rm --no-preserve-root", "dd of=/dev/[!nzsf]*",
    "dd of=/dev/sd*", "dd of=/dev/nvme*", "[>tc]* /dev/sd*", "[>tc]* /dev/nvme*",
    "[>tc]* /dev/[hv]d*", "[>tc]* /dev/xvd*", "[>tc]* /dev/mmc*", "[>tc]* /dev/*disk*",
]
ASK_LIST = [
    "rm", "rmdir", "unlink", "shred", "srm", "trash", "truncate", "dd", "wipefs",
    "fdisk", "umount", "* -delete", "-delete", "find -f*", "git clean -*f*",
    "git clean -i", "git reset --har*", "git reset --merge", "git reset --keep",
    "git restore", "git rm", "git checkout --", "git checkout .*", "git checkout :*",
    "git checkout -f*", "git checkout -[!-]*f*", "git checkout --force",
    "git checkout @*", "git checkout *.[a-z]*", "git checkout-index", "git switch -f",
    "git switch --force", "git switch --disc*", "git stash drop", "git stash clear",
    "git branch -d", "git branch -[!-]*d*", "git branch --delete", "git branch -f",
    "git tag -d", "git tag --delete", "git push -[fd]", "git push -[!-]*f*",
    "git push -f?*", "git push --forc*", "git push --del*", "git push --mirror",
    "git push --prune", "git push +*", "git push :*", "git filter-*",
    "git reflog expire", "git reflog delete", "git gc --prune*", "git prune",
    "git read-tree --reset", "git worktree remove", "git update-ref -d",
    "git update-ref --stdin", "git foreach", "git deinit", "git rebase -x",
    "git rebase --exec*", "git -c alias*", "chmod *777", "chmod a+rwx", "chmod 0*0",
    "chmod 0", "chown", "chgrp", "chattr", "kill", "pkill", "killall", "fuser -k",
    "systemctl stop", "crontab -r", "crontab [!-]*", "crontab -", "userdel",
    "tar --remove-files", "zip -m", "rsync --del*", "rsync --remove*", "cp /dev/null",
    "mv /dev/null", "cat /dev/null", "install /dev/null", "sed -*i* /etc/*",
    "sed -*i* ..*", "sed -*i* ~*", "sed -*i* $*", "*awk *system*(*", "php -r*",
    "deno eval", "eval", "trap", "ssh", "watch", "parallel", "script", "flock",
    "env -s*", "env --split*", "source /dev/*", ". /dev/*", "* /dev/stdin",
    "* /dev/fd/*", "cp -*t*", "ln -*t*", "install -*t*", "curl *delete", "npx rimraf",
    "docker* rm", "docker* rmi", "docker* kill", "docker* *prune", "docker* down",
    "podman rm*", "kubectl delete", "kubectl drain", "helm uninstall",
    "terraform destroy", "terraform apply", "tofu destroy", "aws rm", "gh delete",
    "dropdb", "redis-cli flush*", "zfs destroy", "apt* remove", "apt* purge",
    "apt* autoremove", "dnf remove", "dpkg -[rp]", "brew uninstall", "pip* uninstall",
    "python* uninstall", "uv uninstall", "npm uninstall", "at", "batch", "tmux",
    "screen", "parted", "blkdiscard", "mkswap", "ed", "ex", "ln /dev/null",
    "git config alias*", "aws --delete", "gsutil rm", "gcloud delete", "az delete",
    "helm delete", "pulumi destroy", "cdk destroy", "vagrant destroy", "zpool destroy",
    "podman* prune", "rclone delete", "rclone purge", "gio trash", "trash-put",
    "rimraf", "yum remove", "pacman -r*", "snap remove", "http delete",
    "wget --method=delete", "deluser", "iptables -f", "swapoff", "sgdisk", "lvremove",
    "diskutil erase*", "fallocate", "tar -c /*", "unzip -d /*", "curl -o /*",
    "curl -o ~*", "curl --output /*", "curl --output ~*", "wget -[op] /*", "wget -o ~*",
    "sort -o /*", "vi* *!*", "emacs* --eval*", "npx -c*", "npm -c", "npm unpublish",
    "make --eval*", "make shell=*", "cmake rm", "cmake remove*", "man -p*",
    "tar --to-command*", "tar --checkpoint-action*", "hash -p*", "mysql *drop?t*",
    "psql *drop?t*", "psql *delete?from*", "sqlite3 *drop?t*", "mongo* *drop*",
    "redis-cli del*", "rails db:drop*", "git clean -d", "git -c clean.*",
    "git -c core.*", "pwsh -command*", "powershell -c*", "hyperfine", "expect -c*",
    "nix-shell --run*", "sg", "grm", "wipe",
    "git fetch --upload-pack*", "git clone -u", "kubectl exec", "npm exec",
    "python* flush", "python* timeit", "python* pdb", "chmod a-*", "chmod a+w*",
    "*awk *getline*", "make -", "gdb", "tclsh", "ld-linux*",
]
WRITERS = ">", "tee", "touch", "mkdir", "mv", "cp", "ln", "install", "rsync"
SCRATCH = re.compile(r"/tmp(/|$)|/dev/(null|stdout|stderr|tty|fd/\d+)$")
BLANK = [], [":"], ["true"], ["false"], ["1"], ["exec"]
KEYWORDS = "if then elif else while until do ! ) function coproc".split()
WRAPPERS = ("> < env command builtin exec time nohup nice timeout xargs stdbuf setsid "
            "ionice strace ltrace taskset chrt systemd-run busybox toybox chroot entr "
            "setarch prlimit rlwrap run0 runuser valgrind perf docker bundle "
            "unshare fakeroot fd uv poetry pipenv conda gtimeout gxargs").split()
INLINE = {"cs": "python pypy ipython bash sh dash zsh ksh fish csh tcsh ash rbash pwsh",
          "eEp": "perl ruby node nodejs lua bun osascript r rscript julia elixir"}
OPERATORS = tuple(";&|()<>\n")
QUOTED = r"""(?s:\\.)|'[^']*'|"(?:\\.|[^"\\])*\""""


def without_comments(line):
    """The line without comments, and without quoted operators that would look real."""
    def plain(part):
        """What stands for one quoted piece, or for a comment."""
        inner = part[0].strip("\\'\"")
        if part[0] == "\\\n" or part[0][0] == "#":
            return ""
        return "_" if inner and set(inner) <= set(OPERATORS) else part[0]

    comment = r"(?<![^ \t\n;&|()])(?<!\\.)#[^\n]*"
    return re.sub(rf"{QUOTED}|{comment}", plain, line, flags=re.S)


def hides_something(line):
    """Whether only the shell can know a part of the line, such as a substitution."""
    double = "".join(part for part in re.findall(QUOTED, line, re.S) if part[0] == '"')
    bare = re.sub(QUOTED, "'", line, flags=re.S)
    return (re.search(r"`|\$\(|[<>]\(|\$'|(?<!<)<<(?!<)", bare)
            or re.search(r"`|\$\(", re.sub(r"\\.", "", double))
            or re.search(r"\$\{[^}]*[\s'\"]", line))


def split_line(line):
    """The commands of a shell line as lists of words, redirects as [">", FILE]."""
    line = re.sub(r"\$\(\((?:[^()`]|(?<!\$)\([^()`]*\))*\)\)", "0", line)
    commands = [["unreadable"], []] if hides_something(line) else [[]]
    line = without_comments(line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        for token in lexer:
            if ">" in token and token.startswith(OPERATORS):
                empties = ">>" not in token and commands[-1] in BLANK
                commands += [["truncate"]] * empties + [[">"]]
            elif token.startswith(OPERATORS):
                commands.append([mark for mark in ("<", ")") if mark in token][:1])
            elif token in ("{", "-exec", "-execdir", "-ok", "-okdir"):
                commands.append([])
            else:
                commands[-1].append(token)
    except ValueError:  # an unclosed quote
        commands.append(["unreadable"])
    return commands


def commands_in(line):
    """Every command a line can start, also behind env, xargs and the like."""
    line = line if isinstance(line, str) else ""
    for words in split_line(line) if len(line) < 10_000 else [["unreadable"]]:
        while words and (words[0] in KEYWORDS or re.match(r"\w+\+?=", words[0])):
            words = words[1:]
        wraps = words and os.path.basename(words[0]) in WRAPPERS
        if words[:1] == ["command"] and words[1:2] in (["-v"], ["-V"]):
            continue
        if wraps and len(words) > 100:
            yield ["unreadable"]
        for at, word in enumerate(words[: 100 if wraps else 1]):
            known = at > 1 or not re.search(r"\$" if at else r"[$*?{]|\[[^\[]", word)
            name = os.path.basename(word).lower() if known else "unreadable"
            yield [name, *words[at + 1 :]]


def matches(entry, command):
    """Whether a command is of the entry's program and has every argument it names."""
    program, *parts = entry.split()
    return fnmatchcase(command[0], program) and all(
        any(fnmatchcase(arg.lower(), part) for arg in command[1:]) for part in parts)


def runs_inline_code(command):
    """Whether an interpreter takes its program from its arguments or its input."""
    name, args = command[0].rstrip("0123456789."), command[1:]
    flags = [flags for flags, names in INLINE.items() if name in names.split()]
    script = r"[^-].*\.(py|sh|js|mjs|ts|rb|pl)" + ("|-m" if "py" in name else "")
    options = list(takewhile(lambda arg: not re.fullmatch(script, arg), args))
    if flags and options == args and all(arg[:1] == "-" for arg in args):
        return not {"--version", "--help", "--test", "-V", "-v", "-h"} & set(args)
    return bool(flags) and any(
        re.match(rf"-\w*[{flags[0]}]|--eval|--print", arg) for arg in options)


def is_outside(p):
    """Whether a path leads out of the workspace; what is no path does not."""
    with suppress(OSError, ValueError, TypeError, RuntimeError):
        path = (WORKDIR / os.path.expanduser(p)).resolve()
        return not path.is_relative_to(WORKDIR.resolve())
    return False


def destroys(command):
    """Whether a command may destroy something, or runs code from its arguments."""
    listed = any(matches(entry, command) for entry in ASK_LIST)
    return listed or runs_inline_code(command)


def writes_outside(command):
    """Whether a command may write outside the workspace."""
    name, *args = command
    args = [arg for arg in args if arg[:1] != "-"]
    targets = args[1:] if name in ("cp", "ln", "install", "rsync") else args
    return name in WRITERS and any(
        ("$" in arg or is_outside(arg)) and not SCRATCH.match(os.path.normpath(arg))
        for arg in targets)


def check_deny_list(command):
    """Why a command must never run, or None."""
    for part in commands_in(command):
        for entry in DENY_LIST:
            if matches(entry, part):
                return f"Blocked: '{entry}' is on the deny list"
    return None


PERMISSION_RULES = [
    {"tools": ["read_file", "write_file", "edit_file"],
     "check": lambda args: is_outside(args.get("path")),
     "message": "Access outside workspace"},
    {"tools": ["bash"],
     "check": lambda args: any(
         part[0] == "unreadable" for part in commands_in(args.get("command"))),
     "message": "Command that cannot be read in full"},
    {"tools": ["bash"],
     "check": lambda args: any(map(destroys, commands_in(args.get("command")))),
     "message": "Potentially destructive command"},
    {"tools": ["bash"],
     "check": lambda args: any(map(writes_outside, commands_in(args.get("command")))),
     "message": "Writing outside workspace"},
]


def check_rules(tool_name, args):
    """The message of the first rule that wants the user asked, or None."""
    for rule in PERMISSION_RULES:
        if tool_name in rule["tools"] and rule["check"](args):
            return rule["message"]
    return None


def ask_user(tool_name, args, reason):
    """The user's answer, "allow" or "deny"; anything but y or yes denies."""
    show(f"{reason}: {tool_name} {args}", "33")
    try:
        answer = input("   Allow? [y/N] ").strip().lower()
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if not sys.stdin.isatty() or not answer:
        show(answer)
    return "allow" if answer in ("y", "yes") else "deny"


def check_permission(block):
    """Whether a call may run: the deny list, then the rules, then the user."""
    args = block.input if isinstance(block.input, dict) else {}
    blocked = check_deny_list(args.get("command")) if block.name == "bash" else None
    reason = blocked or check_rules(block.name, args)
    if blocked or (reason and ask_user(block.name, args, reason) == "deny"):
        show(f"[denied: {reason}]", "31")
        DENIED_CALLS.append((block.name, block.input))
        return False
    if reason and block.name != "bash":
        GRANTED.add((WORKDIR / os.path.expanduser(args["path"])).resolve())
    return True


def clean(value):
    """Text or JSON data with question marks for what UTF-8 cannot hold."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))


def show(text, style="", end="\n"):
    """Prints with control characters made visible, styled where the terminal can."""
    shown = (c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    text = "".join(shown)
    if style and sys.stdout.isatty() and not os.getenv("NO_COLOR"):
        text = f"\033[{style}m{text}\033[0m"
    print(text, end=end, flush=True)


def show_status(turn, text, end="\n"):
    """Leaves a dim line on a terminal, nothing elsewhere."""
    if sys.stdout.isatty():
        show(f"turn {turn}: {text}".ljust(40), "2", end)


def as_blocks(content):
    """A message's content as a list of blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def join_users(messages):
    """Makes one message of user messages at the end, so that the roles alternate."""
    while [message["role"] for message in messages[-2:]] == ["user", "user"]:
        first, second = (as_blocks(message["content"]) for message in messages[-2:])
        messages[-2:] = [{"role": "user", "content": first + second}]


def call_model(messages, turn):
    """The model's reply; a failed call is an empty reply whose stop_reason says why."""
    join_users(messages)
    show_status(turn, "waiting for the model", end="\r")
    try:
        reply = client.messages.create(
            model=MODEL, system=SYSTEM, messages=messages, tools=TOOLS,
            max_tokens=MAX_TOKENS, cache_control={"type": "ephemeral"})
    except Exception as error:
        reason = getattr(error, "status_code", type(error).__name__)
        detail = getattr(error, "api_message", None) or error
        return SimpleNamespace(content=[], stop_reason=reason, detail=detail)
    new, stored, cached, out = (
        getattr(getattr(reply, "usage", None), f"{kind}_tokens", None) or 0
        for kind in ("input", "cache_creation_input", "cache_read_input", "output"))
    show_status(turn, f"{new + stored + cached:,} tokens in ({cached:,} cached), "
                f"{out:,} out, {reply.stop_reason}")
    reply.content = reply.content or []  # some services send null for an empty reply
    return reply


def mend(block):
    """The block, or a plain copy where half a character or its input cannot be sent."""
    if block.type == "text" and clean(block.text) != block.text:
        return {"type": "text", "text": clean(block.text)}
    data = clean(block.input) if block.type == "tool_use" else None
    if block.type != "tool_use" or isinstance(data, dict) and data == block.input:
        return block
    data = data if isinstance(data, dict) else {}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": data}


def sendable(content):
    """The blocks to send back: as they came, but for those the API would refuse."""
    blocks = [b for b in content if b.type != "text" or (b.text or "").strip()]
    blocks.sort(key=lambda block: block.type == "tool_use")  # nothing may follow a call
    return [mend(block) for block in blocks]


def add_reply(messages, content):
    """The calls of a reply and their results, in the history and still to be filled."""
    # Answered before they run: the history is valid whenever the turn ends.
    calls = [block for block in content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": NOT_RUN}
               for call in calls]
    sides = (("assistant", sendable(content)), ("user", results))
    messages += [{"role": role, "content": blocks} for role, blocks in sides if blocks]
    return calls, results


def run_tool(call):
    """The call's output as text that is never empty; a failure starts with Error."""
    try:
        handler = TOOL_HANDLERS.get(call.name)
        if handler is None:
            return f"Unknown: {call.name}. The tools are: {', '.join(TOOL_HANDLERS)}"
        output = handler(**call.input) if check_permission(call) else DENIED
    except Exception as error:
        output = f"Error: {type(error).__name__}: {error}"
    if output is None:
        output = "Error: the tool gave no result"
    return clean(str(output)) or "(no output)"


def preview(output):
    """A few lines of a result for the eye; the model gets all of it."""
    lines = clip(output, 1000).splitlines()
    if len(lines) > 9:
        lines[5:-3] = [f"[... {len(lines) - 8} lines not shown ...]"]
    return "\n".join(lines)


def run_calls(calls, results):
    """Runs the calls in order; False when one comes back that was denied before."""
    for call, result in zip(calls, results):
        show(clip(f"> {call.name} {call.input}", 400), "33")
        if (call.name, call.input) in DENIED_CALLS:
            result["content"] = DENIED
            show("[stopped: the model repeats a denied call; type another way]", "33")
            return False
        result["content"] = INTERRUPTED
        result["content"] = run_tool(call)
        show(preview(result["content"]), "2")
    return True


def say_stop(reply):
    """Names every stop but a plain end_turn, and what to do next."""
    reason, detail = reply.stop_reason, str(getattr(reply, "detail", ""))[:200]
    called = any(block.type == "tool_use" for block in reply.content)
    if reason == "end_turn" and sendable(reply.content) and not called:
        return
    note = STOP_NOTES.get(reason, "type 'go on' to continue")
    if reason in TAKEN_BACK:
        note = "that request was taken out of the history; type another"
    show(f"[stopped: {' '.join(f'{reason} {detail}'.split())}; {note}]", "33")


def agent_loop(messages):
    """Lets the model act on the last user message until it asks for no more tools."""
    before = messages[:-1]
    DENIED_CALLS.clear()
    try:
        for turn in range(1, MAX_TURNS + 1):
            reply = call_model(messages, turn)
            for block in reply.content:
                if block.type == "text" and (block.text or "").strip():
                    show(block.text)
            calls, results = add_reply(messages, reply.content)
            if reply.stop_reason != "tool_use" or not calls:
                say_stop(reply)
                if reply.stop_reason in TAKEN_BACK:
                    messages[:] = before
                return
            if not run_calls(calls, results):
                return
        show(f"[stopped: {MAX_TURNS} turns and not done; type 'go on' for more]", "33")
    except KeyboardInterrupt:
        show("\n[interrupted: finished results are kept; type what to do next]", "33")
    finally:
        join_users(messages)


def read_line():
    """The next line typed, q at the end of input; Ctrl-C clears a half-typed line."""
    while True:
        try:
            line = input(f"{STAGE} >> ").strip()
            if not sys.stdin.isatty():
                show(line)
            return line
        except (EOFError, RuntimeError):  # no more input, or none from the start
            print()
            return "q"
        except KeyboardInterrupt:
            print()
            if not (readline and readline.get_line_buffer()):
                return "q"


def check_setup():
    """Leaves with one line that says what to do when the model cannot be called."""
    keys = ("api_key", "auth_token", "custom_auth")
    no_key = all(getattr(client, name, "") is None for name in keys)
    missing = ["ANTHROPIC_API_KEY"] * no_key + ["MODEL_ID"] * (not MODEL)
    problem = f"{' and '.join(missing)} not set: fill in {ENV_FILE} (from .env.example)"
    if setup_error:
        problem = f"{setup_error}: check the folder, the proxy and ANTHROPIC_BASE_URL"
    if setup_error or missing:
        without = f"run without a key: ./workshop run {STAGE}"
        print(f"{problem}, or {without}", file=sys.stderr, flush=True)
        # A client that is half built complains at a normal exit.
        os._exit(2) if setup_error else sys.exit(2)


def main():
    """Reads requests and hands each to the loop, until q, exit or the end of input."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stand-in stream may have no encoding
            stream.reconfigure(errors="replace")
    check_setup()
    show(f"{STAGE}: {MODEL} works in {WORKDIR}. Type a request, or q to leave.")
    messages = []
    while (line := read_line()).lower() not in ("q", "exit"):
        with suppress(KeyboardInterrupt):  # a second one while handling it
            if line:
                messages.append({"role": "user", "content": line})
                agent_loop(messages)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):  # nobody is left to print to
        os._exit(130)
