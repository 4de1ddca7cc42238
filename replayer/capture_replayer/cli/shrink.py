"""placeholder"""


def shrink(args: list[str], prog_name: str) -> None:
    """Later."""
