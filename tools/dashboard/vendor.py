"""Fetch the libraries of the dashboard's page from npm and write them to ``static/vendor``, with their licences and checksums.

    python tools/dashboard/vendor.py

There is no build step: the files are those of the packages, but that modules import each other by path and not by a package's
name, since a page with a strict content security policy has no import map. ``vendored.json`` has, for each file, the SHA-256 of
the package's file and of ours, and the replacements that lead from the one to the other; ``tests/dashboard`` checks them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[2] / "src/pliant/dashboard/static/vendor"
PACKAGES = {"preact": "11.2.0", "htm": "3.1.1", "uplot": "1.6.32"}
FILES = {  # ours: package, file in it, replacements
    "preact.js": ("preact", "dist/preact.mjs", {"\n//# sourceMappingURL=preact.mjs.map": ""}),
    "hooks.js": (
        "preact",
        "hooks/dist/hooks.mjs",
        {'from"preact"': 'from"./preact.js"', "\n//# sourceMappingURL=hooks.mjs.map": ""},
    ),
    "htm.js": ("htm", "dist/htm.mjs", {}),
    # in a comment, which the report's bundler would take for an export
    "uplot.js": ("uplot", "dist/uPlot.esm.js", {"\nexport function costlyLerp(": "\nfunction costlyLerp("}),
    "uplot.css": ("uplot", "dist/uPlot.min.css", {}),
    "LICENSE.preact.txt": ("preact", "LICENSE", {}),
    "LICENSE.htm.txt": ("htm", "LICENSE", {}),
    "LICENSE.uplot.txt": ("uplot", "LICENSE", {}),
}


def fetch(name: str, version: str, folder: Path) -> Path:
    """The package's archive, as npm has checked it against the registry's own digest."""
    subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / f"{name}-{version}.tgz"


def main() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        archives = {name: fetch(name, version, Path(temporary)) for name, version in PACKAGES.items()}
        packages = {
            name: {"version": version, "archive_sha256": _sha256(archives[name].read_bytes())}
            for name, version in PACKAGES.items()
        }
        files = {}
        for ours, (package, path, replacements) in FILES.items():
            with tarfile.open(archives[package]) as archive:
                member = archive.extractfile(f"package/{path}")
                assert member is not None, f"{package} has no {path}"
                source = member.read()
            text = source.decode()
            for old, new in replacements.items():
                assert text.count(old) == 1, f"{path}: {old!r} is there {text.count(old)} times"
                text = text.replace(old, new)
            (VENDOR / ours).write_text(text)
            files[ours] = {
                "package": package,
                "path": path,
                "package_sha256": _sha256(source),
                "sha256": _sha256(text.encode()),
                "replacements": replacements,
            }
    (VENDOR / "vendored.json").write_text(json.dumps({"packages": packages, "files": files}, indent=2) + "\n")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
