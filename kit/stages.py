"""The stages: found from their folders, named by a learner, loaded as modules."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def stages() -> list[str]:
    """The stage names in teaching order: every folder `sNN_name` with a code.py."""
    return sorted(path.parent.name for path in ROOT.glob("s[0-9][0-9]_*/code.py"))


def short_name(stage: str) -> str:
    """`s01` for `s01_agent_loop`."""
    return stage.partition("_")[0]


def stage_file(stage: str) -> Path:
    """The code.py of a stage name as `stages()` gives it."""
    return ROOT / stage / "code.py"


def _spellings(stage: str) -> set[str]:
    """What a learner may type for this stage."""
    number, _, title = stage.partition("_")
    digits = number[1:]
    return {stage, number, digits, str(int(digits)), f"s{int(digits)}", title}


def find_stage(word: str) -> str:
    """The stage meant by `s01`, `1`, `agent_loop`, `s01_agent_loop` or its path.

    Raises LookupError with a sentence that names the nearest stage.
    """
    wanted = word.strip().lower().removeprefix("./").rstrip("/")
    wanted = wanted.removesuffix("/code.py").replace("-", "_")
    names = stages()
    meant = {spelling: stage for stage in names for spelling in _spellings(stage)}
    if wanted in meant:
        return meant[wanted]
    near = difflib.get_close_matches(wanted, meant, n=1, cutoff=0.5)
    hint = f" Did you mean {short_name(meant[near[0]])}?" if near else ""
    known = ", ".join(map(short_name, names)) or "none found in this folder"
    raise LookupError(f"There is no stage {word!r}.{hint} Stages: {known}.")


def load_stage(name_or_path: str | Path) -> ModuleType:
    """A fresh module object of a stage, or of any copy of one given by its path.

    The source is compiled anew each time and no bytecode is kept: two versions of a
    file written within one second must never be taken for each other. The module
    carries the stage's name and is not entered in `sys.modules`, where a module
    called `code` would hide the standard library's.
    """
    path = Path(name_or_path)
    if path.suffix != ".py":
        path = stage_file(find_stage(str(name_or_path)))
    name = path.resolve().parent.name if path.name == "code.py" else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module
