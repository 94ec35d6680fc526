"""`python -m dotr`: the same program as `dotr`."""

import sys

from dotr.cli import main

sys.exit(main())
