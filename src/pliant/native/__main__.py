"""``python -m pliant.native DESCRIPTION.json``: see ``worker``."""

import sys

from pliant.native.worker import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
