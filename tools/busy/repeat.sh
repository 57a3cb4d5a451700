#!/usr/bin/env bash
# Do the tests hold on a busy machine? Runs `make TARGETS` RUNS times beside `stress-ng --cpu CPUS`, and says how each ended.
#     tools/busy/repeat.sh [RUNS [CPUS [TARGETS...]]]      default: 10 2 test
# The output of a run that fails is kept in .busy/; exit code 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-10} cpus=${2:-2}
targets=("${@:3}")
[ ${#targets[@]} -gt 0 ] || targets=(test)
command -v stress-ng >/dev/null || { echo "stress-ng is missing: apt-get install stress-ng" >&2; exit 2; }
mkdir -p .busy
stress-ng --cpu "$cpus" --quiet &
load=$!
trap 'kill $load 2>/dev/null; wait $load 2>/dev/null || true' EXIT
failed=0
for run in $(seq "$runs"); do
    log=.busy/$run.log
    began=$(date +%s)
    if make "${targets[@]}" </dev/null >"$log" 2>&1; then result=passed; else result=FAILED failed=$((failed + 1)); fi
    echo "run $run of $runs: $result after $(($(date +%s) - began)) s, load $(cut -d' ' -f1 /proc/loadavg)"
    if [ $result = passed ]; then rm "$log"; else grep -E '^(FAILED|ERROR) ' "$log" || tail -n 5 "$log"; fi
done
[ $failed = 0 ]
