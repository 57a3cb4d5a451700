"""The one cable between a cluster and this machine.

A cluster's network namespace has its own loopback, bridges, routes and iptables. A pair of virtual links joins it to the
machine, so that the API server can be called from outside. There is no way further: neither side forwards.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import zlib

from tools.kubernetes.testbed.ready import search_path

# Meant for tests of network devices (RFC 2544): nobody routes it. A cluster takes four addresses.
ADDRESSES = ipaddress.ip_network("198.18.0.0/15")
CABLES = ADDRESSES.num_addresses // 4


def connect(name: str, process: int) -> tuple[str, str]:
    """Join the namespace of ``process`` to the machine; gives the name of the link and the cluster's address."""
    first = zlib.crc32(name.encode())
    for attempt in range(CABLES):
        number = (first + attempt) % CABLES
        link = f"plk{number}"
        # The name of a link can be had once, so it is the claim on the addresses as well.
        if _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(process)):
            break
    else:
        raise RuntimeError("no link to the cluster could be made")
    host, cluster = ADDRESSES[number * 4 + 1], ADDRESSES[number * 4 + 2]
    inside = ("nsenter", "--target", str(process), "--net")
    for command in (
        ("ip", "addr", "add", f"{host}/30", "dev", link),
        ("ip", "link", "set", link, "up"),
        (*inside, "ip", "link", "set", "lo", "up"),
        (*inside, "ip", "addr", "add", f"{cluster}/30", "dev", "eth0"),
        (*inside, "ip", "link", "set", "eth0", "up"),
    ):
        if not _run(*command):
            raise RuntimeError(f"{' '.join(command)} failed")
    return link, str(cluster)


def disconnect(link: str) -> None:
    """The other end goes with it. It may be gone already, with the namespace."""
    _run("ip", "link", "del", link)


def _run(*command: str) -> bool:
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PATH": search_path()}, timeout=60)
    return done.returncode == 0
