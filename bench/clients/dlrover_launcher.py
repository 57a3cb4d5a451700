"""dlrover-run as installed does not start with this torch: its call of torch's SubprocessHandler lacks an argument."""

from __future__ import annotations

import functools
import sys

from dlrover.trainer.torch import elastic_run

if __name__ == "__main__":
    elastic_run.SubprocessHandler = functools.partial(elastic_run.SubprocessHandler, numa_options=None)
    sys.exit(elastic_run.main())
