"""``python -m sessiontree`` is ``sessiontree``."""

import sys

from sessiontree.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
