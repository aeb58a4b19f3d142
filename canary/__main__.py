"""``python -m canary``: the command line, where its script is not on the path."""

import sys

from canary.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
