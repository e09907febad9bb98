"""`python -m linstereo`, for where the `linstereo` script is not on the path."""

import sys

from linstereo.cli import main

sys.exit(main())
