"""`python -m capture_tui` is `capture-view`."""

from .cli import main

main()
