"""What the benches share: environments of peers, clients as processes that take orders, medians, tables.

A peer lives in an environment of its own under ``~/.cache/pliant/bench/NAME``, made on first use and never in the tree.
Absolute figures move from run to run; every bench runs the peer in the same run, interleaved, and prints ratios of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CACHE = Path.home() / ".cache" / "pliant" / "bench"
CONSTRAINTS = "torch==2.13.0\n"  # the CPU build: whatever needs torch pulls no gigabytes of CUDA
LEAD = 0.5  # seconds between an order and the moment at which all clients begin


def options_of(doc: str | None, rounds: int, quick_rounds: int = 1) -> argparse.ArgumentParser:
    """The parser of a bench, with the options that all of them have; read it with ``parsed``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=_positive, help=f"of which the median is taken [{rounds}; quick: {quick_rounds}]"
    )
    parser.add_argument("--quick", action="store_true", help="small and short: whether it runs, not a measurement")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    parser.set_defaults(full_rounds=rounds, quick_rounds=quick_rounds)
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    options = parser.parse_args()
    options.rounds = options.rounds or (options.quick_rounds if options.quick else options.full_rounds)
    return options


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


@dataclass(frozen=True)
class Peer:
    """The Python of a peer's environment, or why there is none."""

    python: Path | None
    reason: str = ""


def peer_environment(name: str, packages: Sequence[str], probe: str) -> Peer:
    """Make (once) an environment with these packages; ``probe`` is code that must run in it."""
    home = CACHE / name
    python = home / "bin" / "python"
    if python.exists() and _runs(python, probe):
        return Peer(python)
    say(f"making the environment of {name} in {home}")
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True, timeout=120)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pins = home / "constraints.txt"
        pins.write_text(CONSTRAINTS)
        subprocess.run([*pip, "-c", str(pins), *packages], check=True, capture_output=True, text=True, timeout=600)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or b"").strip().splitlines()[-1:] or ["no message"]
        return Peer(None, f"it does not install: {last[0]!s:.200}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Peer(None, f"it does not install: {error}")
    return Peer(python) if _runs(python, probe) else Peer(None, "it installs, but does not import")


def _runs(python: Path, code: str) -> bool:
    return subprocess.run([str(python), "-c", code], capture_output=True, timeout=120).returncode == 0


class Client:
    """A client process of a bench: one JSON order per line in, one JSON answer per line out."""

    def __init__(self, command: Sequence[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **env},
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Whatever else the peer prints is passed over."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"a client ended with exit code {self._process.wait()}")

    def ask(self, **order: Any) -> dict[str, Any]:
        self.order(**order)
        return self.answer()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def together(clients: Iterable[Client], **order: Any) -> list[dict[str, Any]]:
    """Give all the same order, to begin at the same moment, and collect the answers."""
    clients = list(clients)
    begin = time.time() + LEAD
    for client in clients:
        client.order(begin=begin, **order)
    return [client.answer() for client in clients]


def rss_mb(pid: int) -> float:
    """Memory in use by a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios within each turn: what slows a machine for a while slows both."""
    return median([a / b for a, b in zip(ours, theirs, strict=True)])


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    model = next(
        (s.split(":", 1)[1].strip() for s in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in s), "?"
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    shown = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        shown.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        shown.add_row(*row)
    Console(stderr=True).print(shown)


def times(ours: float, theirs: float | None) -> str:
    """How many times as much; '-' where there is nothing to compare with."""
    return f"{ours / theirs:,.1f} x" if theirs else "-"


def say(text: str) -> None:
    print(f"bench | {text}", file=sys.stderr, flush=True)


def finish(result: dict[str, Any], as_json: bool) -> None:
    """``missed``, if it is there, is shown to people, too."""
    for text in result.get("missed", ()):
        say(f"misses its aim: {text}")
    if as_json:
        print(json.dumps(result, indent=1))
