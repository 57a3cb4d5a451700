#!/usr/bin/env bash
# The database servers for the tests of the Brain's store: PostgreSQL and MariaDB, from Debian's packages.
# Only the servers' programs: tests start their own on a free port with a temporary data folder, so no default server is made,
# started or left running. Does nothing where both are there.
set -euo pipefail
wanted=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || wanted+=(postgresql)
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || wanted+=(mariadb-server-core) # mariadb-server adds a service, and starts it
[ ${#wanted[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: ${wanted[*]}; install them with: sudo apt-get install -y --no-install-recommends ${wanted[*]}" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
settings=/etc/postgresql-common/createcluster.conf
undo=()
finish() {
    for step in "${undo[@]}"; do eval "$step"; done
}
trap finish EXIT
if [ ! -e $policy ]; then # services are not to be started by their installation
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    undo+=("rm -f $policy")
fi
apt-get update -qq || true # a machine without a network may have all it needs in its cache
if [[ " ${wanted[*]} " == *" postgresql "* ]]; then
    apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
    cp $settings $settings.pliant
    undo+=("mv $settings.pliant $settings")
    echo 'create_main_cluster = false' >>$settings
fi
apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
echo "installed: ${wanted[*]}"
