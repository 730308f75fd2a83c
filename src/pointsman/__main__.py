"""``python -m pointsman`` is the command ``pointsman``."""

from pointsman.cli import main

main()
