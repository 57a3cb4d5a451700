#!/usr/bin/env bash
# pytest in the environment with Ray, with this tree's Pliant and everything else of its .venv; without that environment pytest of
# .venv, where tests that need Ray are skipped (with CI=true they fail).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(tools/ray/build.sh --find)
[ -n "$python" ] || exec .venv/bin/python -m pytest "$@"
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
export PYTHONPATH=$PWD/src:$site:$PWD
export PATH=$PWD/.venv/bin:$PATH
exec "$python" -m pytest "$@"
