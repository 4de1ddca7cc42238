"""The command `capture-replay`, and `diff` of `capture-file`: one module for each."""

from .replay import main

__all__ = ["main"]
