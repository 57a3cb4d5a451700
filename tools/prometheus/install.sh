#!/usr/bin/env bash
# Prometheus and promtool for the tests of metrics, alerts and the Grafana board, from Debian's package. Only the programs: tests start
# their own server on a free loopback port, so no default server is left running. Does nothing where both are there.
set -euo pipefail
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: prometheus; install it with: sudo apt-get install -y --no-install-recommends prometheus" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then # services are not to be started by their installation
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap 'rm -f $policy' EXIT
fi
apt-get update -qq || true # a machine without a network may have all it needs in its cache
apt-get install -y -qq --no-install-recommends prometheus >/dev/null
echo "installed: prometheus"
