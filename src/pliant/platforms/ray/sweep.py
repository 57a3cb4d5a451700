"""``python -m pliant.platforms.ray.sweep JOB NODE``: remove the cgroup that a killed agent left; the ``leash`` runs it."""

from __future__ import annotations

import sys

from pliant.core.errors import RetryableError
from pliant.platforms.cgroup import CgroupLimit


def main() -> int:
    job, node = sys.argv[1:]
    try:
        if (group := CgroupLimit.find(job, node)) is not None:
            group.remove()
    except (RetryableError, OSError) as error:
        print(f"cannot remove the cgroup of {node}: {error}", file=sys.stderr)  # noqa: T201  (to the agents' log)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
