"""python3 -m packhouse.command: the command line `packhouse`."""

import sys

from packhouse.command.program import main

sys.exit(main())
