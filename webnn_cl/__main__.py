"""``python -m webnn_cl``: the command line."""

import sys

from webnn_cl.cli import main

sys.exit(main())
