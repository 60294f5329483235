"""``python -m budgetline``: the command line."""

import sys

from budgetline.cli import main

if __name__ == "__main__":
    sys.exit(main())
