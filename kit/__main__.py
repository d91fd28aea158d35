"""Start of `./workshop` and of `python -m kit`."""

import os
import sys

# The launcher starts this file by its path from any directory. Only the repo's own
# root may lead sys.path then: not this folder, and not a workspace full of files
# that an agent wrote under names such as random.py.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [os.path.dirname(HERE), *(p for p in sys.path if p not in (HERE, ""))]

from kit.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
