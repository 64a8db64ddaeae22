"""python3 -m packhouse: the command line `packhouse`."""

import sys

from packhouse.command.program import main

if __name__ == "__main__":
    sys.exit(main())
