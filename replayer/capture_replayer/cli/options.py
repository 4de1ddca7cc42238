"""Types and options that the commands of the replayer share, and their help in sections."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..client import Tls
from ..engine import TIMEOUT
from ..place import BadTarget, Target
from ..spawn import STARTS_WITHIN, Spawn

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_Command = TypeVar("_Command", bound=Callable[..., Any])


class CaptureFile(click.ParamType[str]):
    """The path of a capture. It is read more than once, so it cannot be standard input."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "-":
            self.fail("a capture is read more than once here: save standard input in a file and name that", param, ctx)
        return str(value)


class Seconds(click.ParamType[float]):
    """A time limit: a number above 0, or `inf`."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = 0.0
        if not seconds > 0:  # so written that NaN is refused too
            self.fail(f"{value!r} is not a number of seconds above 0", param, ctx)
        return seconds


class Factor(click.ParamType[float]):
    """How many times as fast: `10`, `10x` or `0.5`."""

    name = "factor"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            factor = float(str(value).removesuffix("x"))
        except ValueError:
            factor = 0.0
        if not 0 < factor < float("inf"):
            self.fail(f"{value!r} is not a number above 0", param, ctx)
        return factor


class MetadataType(click.ParamType[tuple[str, "str | bytes"]]):
    """`key=value`, a pair of metadata; the value of a `-bin` key is given in base64."""

    name = "key=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | bytes]:
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        key = key.strip().lower()
        if not sign or not key or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in key):
            self.fail(f"{value!r} is not key=value", param, ctx)
        if not key.endswith("-bin"):
            if not (text.isascii() and text.isprintable()):
                self.fail(
                    f"the value of {key!r} is not printable ASCII; a key that ends in -bin takes base64", param, ctx
                )
            return key, text
        try:
            return key, base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError:
            self.fail(f"the value of {key!r} is not base64", param, ctx)


class Sectioned(click.Command):
    """A command whose help has its options in sections. `sections`: a title, and the names of its options; what is in
    none of them comes last."""

    def __init__(self, *args: Any, sections: dict[str, tuple[str, ...]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        rows = {option.name: row for option in options if (row := option.get_help_record(ctx)) is not None}
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([rows.pop(name) for name in names])
        if rows:
            with formatter.section("Other options"):
                formatter.write_dl(list(rows.values()))


_PEM: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _applied(command: _Command, options: list[Callable[[_Command], _Command]]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def tls_options(command: _Command) -> _Command:
    """--tls, --ca, --cert, --key, --server-name."""
    return _applied(
        command,
        [
            click.option("--tls", is_flag=True, help="Speak TLS to the server."),
            click.option("--ca", metavar="PEM", type=_PEM, help="Trust this authority (implies --tls)."),
            click.option("--cert", metavar="PEM", type=_PEM, help="Client certificate; with --key."),
            click.option("--key", metavar="PEM", type=_PEM, help="Key of the client certificate."),
            click.option(
                "--server-name", metavar="NAME", help="Name that the server's certificate is for, if not the target's."
            ),
        ],
    )


def comparison_options(command: _Command) -> _Command:
    """--ignore, --ignore-metadata, --accept, --rules."""
    return _applied(
        command,
        [
            click.option(
                "--ignore", metavar="FIELD", multiple=True,
                help="Leave this field out: a path such as chunk.envelope.work_id or items[*].id, with globs; "
                "'**' is any number of fields. May be given again.",
            ),
            click.option(
                "--ignore-metadata", metavar="KEY", multiple=True,
                help="Leave these headers and trailing metadata out, by a glob. May be given again.",
            ),
            click.option(
                "--accept", type=click.Choice(["identical", "equivalent"]), default="identical", show_default=True,
                help="What passes: the same bytes, or another encoding of the same message too.",
            ),
            click.option(
                "--rules", metavar="TOML", multiple=True, type=click.Path(path_type=str),
                help="Take such rules from a file. May be given again.",
            ),
        ],
    )  # fmt: skip


def tls_from(tls: bool, ca: Path | None, cert: Path | None, key: Path | None, server_name: str | None) -> Tls | None:
    """How to speak TLS, if at all. Raises click.UsageError."""
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key go together")
    return Tls(ca, cert, key, server_name) if tls or ca or cert or server_name else None


def where(
    targets: tuple[str, ...], spawn: str | None, tls: Tls | None, *, timeout: float = TIMEOUT, starts_within: float
) -> list[Target | Spawn]:
    """The targets, or what is to be spawned. Raises click.UsageError."""
    if targets and spawn is not None:
        raise click.UsageError("--target and --spawn do not go together: one server is there, the other is started")
    if not targets and spawn is None:
        raise click.UsageError("give a server with --target HOST:PORT, or start one with --spawn 'COMMAND {address}'")
    if spawn is not None:
        return [spawned(spawn, tls, starts_within)]
    try:
        return [Target(target, tls, timeout) for target in targets]
    except BadTarget as error:
        raise click.UsageError(f"--target: {error}") from None


def spawned(command: str, tls: Tls | None, starts_within: float = STARTS_WITHIN) -> Spawn:
    """A command to be spawned. Raises click.UsageError."""
    try:
        return Spawn(command, starts_within, tls)
    except ValueError as error:
        raise click.UsageError(f"--spawn: {error}") from None
