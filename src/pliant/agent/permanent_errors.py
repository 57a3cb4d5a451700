"""Which ends of a program a restart would only repeat, by its exit code and its last output, and what to do about each. Pure.

An error that was handled is no cause, and must not be taken for one. A traceback counts only if it is one that ends Python: it
begins in the main module, the exit code is Python's for it, and nothing was written after it. If the exception was raised while
another was handled, both must be permanent: a lost connection may hide behind a missing module. Whatever is in doubt is
not permanent, and is retried.

``exits`` asks this of every error; whether the job fails is the master's decision (``core/nodes/permanent.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pliant.core.nodes.permanent import PermanentKind

EXCEPTION_CODE, USAGE_CODE, NOT_EXECUTABLE_CODE, NOT_FOUND_CODE = 1, 2, 126, 127  # of Python, argparse and shells
MAX_USAGE_LINES = 60  # from the usage text to the end of the output

_HEADER = re.compile(r"^Traceback \(most recent call last\):$")
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+(?:, in (?P<function>.+))?$')
_IMPORT = re.compile(r"^(?P<name>ModuleNotFoundError|ImportError): (?P<text>.+)$")
_MODULE = re.compile(r"No module named '?(?P<module>[\w.]+)'?")
_SYNTAX = re.compile(r"^(?P<text>(?:SyntaxError|IndentationError|TabError): .+)$")
_SYNTAX_AT = re.compile(r'^ +File "(?P<file>[^"<][^"]*)", line (?P<line>\d+)$')
_PLIANT = re.compile(
    r"^pliant\.core\.errors\.(?:InvalidRequest|SpecError|NotAvailable|Conflict|NotFound): (?P<text>.+)$"
)
_HINT = re.compile(r"^\s*what to do: (?P<hint>.+)$")
_NO_MAIN = re.compile(
    r"^\S*python[\d.]*\S*: (?:Error while finding module specification for .*\((?:\w+: )?)?(?P<text>No module named .+?)\)?$"
)
_NO_SCRIPT = re.compile(r"^\S*python[\d.]*\S*: (?P<text>can't open file .+)$")
_SHELL = re.compile(r"^.*\b(?:not found|No such file or directory|Permission denied)$")
_USAGE = re.compile(r"^\s*usage: ", re.IGNORECASE)
_USAGE_ERROR = re.compile(r"^(?:\S.*?: error: |error: )(?P<text>.+)$", re.IGNORECASE)
_BOX_TITLE = re.compile(r"^╭─+ Error ─*╮?$")  # how typer prints it
_ABSL = "FATAL Flags parsing error:"

# Modules whose package has another name.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "google.protobuf": "protobuf",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


@dataclass(frozen=True, slots=True)
class PermanentError:
    kind: PermanentKind
    text: str  # one line: the error itself
    hint: str  # what to do


@dataclass(frozen=True, slots=True)
class Ending:
    """What is left of a program."""

    returncode: int
    lines: Sequence[str]  # the end of its output, without blank lines at the end
    traceback: Sequence[str]  # the last one, with those that it is chained to; empty: there is none
    exception: Sequence[str]  # of the traceback: the line that names it, and everything that was written after that
    python: str = "python"  # that runs the program, as far as is known

    @property
    def last(self) -> str:
        return self.lines[-1] if self.lines else ""


def find_permanent(ending: Ending) -> PermanentError | None:
    """None: a restart may help."""
    return next((found for rule in _RULES if (found := rule(ending)) is not None), None)


def _missing_module(ending: Ending) -> PermanentError | None:
    if not _ends_python(ending):
        return None
    found = _IMPORT.match(ending.exception[0])
    if found is None or not all(map(_IMPORT.match, _exceptions(ending.traceback))):
        return None
    return PermanentError(
        PermanentKind.MISSING_MODULE, ending.exception[0], _how_to_install(found["text"], ending.python)
    )


def _missing_main_module(ending: Ending) -> PermanentError | None:
    """``python -m NAME``."""
    found = _NO_MAIN.match(ending.last) if ending.returncode == EXCEPTION_CODE else None
    if found is None:
        return None
    return PermanentError(PermanentKind.MISSING_MODULE, found["text"], _how_to_install(found["text"], ending.python))


def _syntax_error(ending: Ending) -> PermanentError | None:
    """In the main module there is no traceback above it. Of text that was compiled, such as a formula, the file is no file."""
    found = _SYNTAX.match(ending.last) if ending.returncode == EXCEPTION_CODE else None
    if found is None or (ending.traceback and not (_ends_python(ending) and len(_exceptions(ending.traceback)) == 1)):
        return None
    at = next((at for line in reversed(ending.lines[-8:]) if (at := _SYNTAX_AT.match(line))), None)
    if at is None:
        return None
    hint = f"fix line {at['line']} of {at['file']}, and run the job again"
    return PermanentError(PermanentKind.SYNTAX_ERROR, f"{found['text']} ({at['file']}, line {at['line']})", hint)


def _usage_error(ending: Ending) -> PermanentError | None:
    """Of argparse, click, typer, fire and absl: the usage text together with the error."""
    tail = ending.lines[-MAX_USAGE_LINES:]
    if ending.traceback:
        return None
    if ending.returncode == EXCEPTION_CODE and any(line.startswith(_ABSL) for line in tail):
        at = next(at for at, line in enumerate(tail) if line.startswith(_ABSL))
        said = tail[at + 1].strip() if at + 1 < len(tail) else "flags could not be parsed"
    elif ending.returncode == USAGE_CODE and any(map(_USAGE.match, tail)):
        said = _usage_message(tail)
    else:
        return None
    if not said:
        return None
    hint = "correct the arguments of the program; everything after its name in the command is passed on to it"
    return PermanentError(PermanentKind.USAGE_ERROR, said, hint)


def _missing_script(ending: Ending) -> PermanentError | None:
    found = _NO_SCRIPT.match(ending.last) if ending.returncode == USAGE_CODE else None
    if found is None:
        return None
    hint = "check the path; programs start in the job's working_dir (by default, where the job was started)"
    return PermanentError(PermanentKind.SCRIPT_NOT_FOUND, found["text"], hint)


def _missing_command(ending: Ending) -> PermanentError | None:
    """As a shell reports it."""
    if ending.returncode not in (NOT_EXECUTABLE_CODE, NOT_FOUND_CODE) or not _SHELL.match(ending.last):
        return None
    hint = "check the spelling, the PATH of the job and the execute permission"
    return PermanentError(PermanentKind.COMMAND_NOT_FOUND, ending.last.strip(), hint)


def _invalid_request(ending: Ending) -> PermanentError | None:
    """The error says itself what to do."""
    found = _PLIANT.match(ending.exception[0]) if _ends_python(ending) else None
    if found is None:
        return None
    hint = next((hint["hint"] for line in ending.exception[1:] if (hint := _HINT.match(line))), "")
    return PermanentError(
        PermanentKind.INVALID_REQUEST, found["text"], hint or "fix the program, and run the job again"
    )


_RULES: tuple[Callable[[Ending], PermanentError | None], ...] = (
    _missing_module,
    _missing_main_module,
    _syntax_error,
    _missing_script,
    _usage_error,
    _missing_command,
    _invalid_request,
)


def _ends_python(ending: Ending) -> bool:
    """Whether the last traceback is that of an exception which nobody handled, in the main thread of the program itself."""
    if ending.returncode != EXCEPTION_CODE or not ending.exception:
        return False
    if any(line and not line[0].isspace() for line in ending.exception[1:]):  # else it is a message of several lines
        return False
    header = max((at for at, line in enumerate(ending.traceback) if _HEADER.match(line)), default=None)
    if header is None:
        return False
    frames = [found for line in ending.traceback[header + 1 :] if (found := _FRAME.match(line))]
    if not frames or any(frame["function"] in ("spawn_main", "_bootstrap") for frame in frames[:4]):
        return False  # of a process that the program started
    first = frames[0]
    return first["function"] == "<module>" or first["function"] == "_run_module_as_main"


def _exceptions(traceback: Sequence[str]) -> list[str]:
    """The lines that name the exceptions of a chain: the first below each header that is not indented."""
    found = []
    for at, line in enumerate(traceback):
        if _HEADER.match(line):
            found.append(next((below for below in traceback[at + 1 :] if below and not below.startswith(" ")), ""))
    return found


def _usage_message(tail: Sequence[str]) -> str:
    """The error beside a usage text, if it ends the output: only what belongs to it follows."""
    for at, line in enumerate(tail):
        if _BOX_TITLE.match(line) and len(tail) - at <= 8:
            return " ".join(inner.strip(" │") for inner in tail[at + 1 :] if inner.startswith("│")).strip()
    usage = max(at for at, line in enumerate(tail) if _USAGE.match(line))
    said = next((found["text"] for line in reversed(tail[usage:]) if (found := _USAGE_ERROR.match(line))), "")
    if said:
        return said if len(tail) - usage <= MAX_USAGE_LINES else ""
    above = tail[usage - 1] if usage else ""  # fire prints the error first
    found = _USAGE_ERROR.match(above)
    return found["text"] if found else ""


def _how_to_install(text: str, python: str) -> str:
    named = _MODULE.search(text)
    if named is None:
        return f"the program runs with {python}: check that what it imports is installed there, in a version that fits"
    module = named["module"]
    package = PACKAGES.get(module) or PACKAGES.get(module.split(".")[0]) or module.split(".")[0]
    return (
        f"install it for the Python that runs the program: {python} -m pip install {package}; "
        f"if {module} is a module of your own, start the job in its folder or add that to PYTHONPATH (--env)"
    )
