"""Images without a registry, as archives that containerd imports.

``localhost/pliant:dev`` is this project: an empty image, into which every container of the testbed's nodes gets the
machine's /usr, the Python interpreter and the project mounted, read-only (``mounts``). So a Pod runs the code as it lies in
the tree, without an image to build. The project has a place of its own in the image: wherever a person put it, such as
below /tmp, a Pod may mount something else there.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tools.kubernetes.testbed.ready import BINARIES

PROJECT = Path(__file__).parents[3]
PAUSE, BUSYBOX, PLIANT = "localhost/pause:3.2", "localhost/busybox:1", "localhost/pliant:dev"
INSIDE = Path("/opt/pliant")  # of a container: the project's place
USER = 10001
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def mounts() -> dict[Path, Path]:
    """The folders of containers, and what they are on this machine."""
    interpreter = Path(sys.base_prefix).resolve()  # the environment links to it by its path
    python = {} if interpreter.is_relative_to("/usr") else {interpreter: interpreter}
    ours = {INSIDE / name: PROJECT / name for name in ("src", "examples")}
    return {Path("/usr"): Path("/usr"), **python, INSIDE / "venv": Path(sys.prefix).resolve(), **ours}


def build(folder: Path) -> None:
    """All images, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    pause = _Layer()
    pause.file("pause", (BINARIES / "pause").read_bytes(), 0o755)
    _archive(folder / "pause.tar", PAUSE, pause, entrypoint=["/pause"])
    _archive(folder / "busybox.tar", BUSYBOX, _busybox())
    env = [f"PATH={INSIDE}/venv/bin:{SYSTEM_PATH}", f"PYTHONPATH={INSIDE}/src", "PYTHONUNBUFFERED=1"]
    _archive(folder / "pliant.tar", PLIANT, _pliant(), env=env, user=str(USER))


def _busybox() -> _Layer:
    layer = _Layer()
    program = shutil.which("busybox", path="/bin:/usr/bin")
    assert program is not None
    layer.folder("bin")
    layer.file("bin/busybox", Path(program).read_bytes(), 0o755)
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in sorted(set(applets) - {"busybox"}):
        layer.link(f"bin/{applet}", "busybox")
    layer.folder("tmp", 0o1777)
    layer.folder("etc")
    layer.file("etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
    return layer


def _pliant() -> _Layer:
    layer = _Layer()
    for name in ("usr", "etc", "proc", "sys", "dev", "run", "var", "opt"):
        layer.folder(name)
    layer.folder("tmp", 0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):
        layer.link(name, f"usr/{name}")
    people = f"root:x:0:0:root:/:/bin/sh\npliant:x:{USER}:{USER}:pliant:/tmp:/bin/sh\n"
    layer.file("etc/passwd", people.encode())
    layer.file("etc/group", f"root:x:0:\npliant:x:{USER}:\n".encode())
    return layer


class _Layer:
    """A file system as an archive in memory."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w")  # noqa: SIM115  # closed by ``close``

    def folder(self, name: str, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), mode
        self._tar.addfile(info, io.BytesIO(data))

    def link(self, name: str, target: str) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)

    def close(self) -> bytes:
        self._tar.close()
        return self._bytes.getvalue()


def _archive(
    path: Path, name: str, layer: _Layer, *, entrypoint: Sequence[str] = (), env: Sequence[str] = (), user: str = ""
) -> None:
    """In the form that ``docker save`` writes and ``ctr images import`` reads."""
    data = layer.close()
    digest = hashlib.sha256(data).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": list(env) or [f"PATH={SYSTEM_PATH}"], "Entrypoint": list(entrypoint) or None, "User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tools/kubernetes"}],
    }
    config_bytes = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(config_bytes).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for member, content in (
            (config_name, config_bytes),
            (f"{digest}/layer.tar", data),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
