"""`python -m llmprism`: the same as the `llmprism` command."""

import sys

from llmprism.cli import main

if __name__ == "__main__":
    sys.exit(main())
