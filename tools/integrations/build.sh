#!/usr/bin/env bash
# An environment with MLflow, W&B, transformers and Lightning for the tests of what connects Pliant with them: made once per
# machine, in the user's cache folder. It is apart from .venv, which it looks into for everything else (torch and accelerate above all).
# MLflow needs older versions of some packages than constraints.txt has; they are only here.
# Prints the path of its Python. With --find it makes nothing, and prints nothing if there is none.
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=tools/integrations/requirements.txt
home=${XDG_CACHE_HOME:-$HOME/.cache}/pliant/integrations-$(sha256sum "$wanted" | cut -c1-12)
venv=$PWD/.venv
if [ "${1:-}" != --find ] && [ ! -e "$home/.ready" ]; then
    [ -x "$venv/bin/python" ] || { echo "$venv is missing: make setup" >&2; exit 1; }
    mkdir -p "$(dirname "$home")"
    exec 9>"$home.lock"
    flock 9
    if [ ! -e "$home/.ready" ]; then
        echo "installing $(grep -v '^#' "$wanted" | tr '\n' ' ')into $home (once, a few minutes)" >&2
        rm -rf "$home"
        "$venv/bin/python" -m venv "$home"
        inside=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
        "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$inside/pliant-venv.pth"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2
        rm "$inside/pliant-venv.pth" # tests say by PYTHONPATH whose .venv is used
        touch "$home/.ready"
    fi
fi
[ ! -e "$home/.ready" ] || echo "$home/bin/python"
