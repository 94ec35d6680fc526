"""Entry point of `python -m dotr`, equal to the command `dotr`."""

import sys

from dotr.commands import main

sys.exit(main())
