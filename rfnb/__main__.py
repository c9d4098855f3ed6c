"""`python -m rfnb`: the command `rfnb`, where its script is not on the path."""

import sys

from rfnb.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
