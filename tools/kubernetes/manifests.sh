#!/usr/bin/env bash
# Writes the plain manifests, for `kubectl apply -f`, from the chart with its default values.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
helm=$("$project/tools/kubernetes/helm.sh")
cat <<'HEAD'
# Made by `make manifests` from deploy/helm; do not edit. Install with `kubectl apply -f deploy/manifests/pliant.yaml`.
apiVersion: v1
kind: Namespace
metadata:
  name: pliant-system
HEAD
"$helm" template pliant "$project/deploy/helm" --namespace pliant-system --include-crds
