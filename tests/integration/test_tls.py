"""TLS and mTLS to the target, with certificates made for the test."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.processes import HELPERS, replay
from helpers.service import stop
from helpers.tls_server import secure_server

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs the openssl command to make certificates"
)


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate for shard.test, and a client's."""
    folder = tmp_path_factory.mktemp("pki")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *new_key,
        "-keyout",
        folder / "ca.key",
        "-out",
        folder / "ca.pem",
        "-subj",
        "/CN=ca",
        "-days",
        "2",
    )
    for name in ("server", "client"):
        request, names = folder / f"{name}.csr", folder / f"{name}.ext"
        names.write_text("subjectAltName=DNS:shard.test\n")
        openssl("req", *new_key, "-keyout", folder / f"{name}.key", "-out", request, "-subj", f"/CN={name}")
        openssl(
            *("x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial"),
            *("-out", folder / f"{name}.pem", "-days", "2", "-extfile", names),
        )
    return folder


@contextmanager
def serving(pki: Path, *, client_certificate: bool) -> Iterator[str]:
    server, port = secure_server("127.0.0.1:0", pki, client_certificate=client_certificate)
    yield f"127.0.0.1:{port}"
    stop(server)


def test_tls(pki: Path, opaque_capture: Path) -> None:
    with serving(pki, client_certificate=False) as target:
        trusting = ("--target", target, "--ca", pki / "ca.pem", "--timeout", "3")
        assert replay(opaque_capture, *trusting, "--server-name", "shard.test").returncode == 0
        wrong_name = replay(opaque_capture, *trusting)
        no_trust = replay(opaque_capture, "--target", target, "--tls", "--server-name", "shard.test", "--timeout", "3")
        plain = replay(opaque_capture, "--target", target, "--timeout", "3")
    for done, hint in (
        (wrong_name, "do the certificates fit?"),
        (no_trust, "do the certificates fit?"),
        (plain, "--tls"),
    ):
        assert done.returncode == 125
        assert hint in done.stdout
        assert "Traceback" not in done.stderr


def test_mutual_tls(pki: Path, opaque_capture: Path) -> None:
    with serving(pki, client_certificate=True) as target:
        arguments = ("--target", target, "--ca", pki / "ca.pem", "--server-name", "shard.test", "--timeout", "3")
        mine = ("--cert", pki / "client.pem", "--key", pki / "client.key")
        assert replay(opaque_capture, *arguments, *mine).returncode == 0
        assert replay(opaque_capture, *arguments).returncode in (1, 125)  # TLS 1.3 refuses after the handshake


@pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mutual"])
def test_a_spawned_server_that_speaks_tls(mutual: bool, pki: Path, opaque_capture: Path) -> None:
    command = f"{shlex.join([sys.executable, str(HELPERS / 'tls_server.py')])} {{address}} {shlex.quote(str(pki))}"
    spawn = ("--spawn", command + " mutual" * mutual, "--start-timeout", "20")
    trusting = ("--ca", pki / "ca.pem", "--server-name", "shard.test")
    mine = ("--cert", pki / "client.pem", "--key", pki / "client.key") if mutual else ()
    done = replay(opaque_capture, *spawn, *trusting, *mine)
    assert done.returncode == 0, done.stdout + done.stderr
    stranger = replay(opaque_capture, *spawn[:2], "--start-timeout", "2", "--tls", "--server-name", "shard.test")
    assert stranger.returncode == 125
    assert "do the certificates fit?" in stranger.stdout


def test_files_that_are_not_there_or_no_certificates(pki: Path, opaque_capture: Path) -> None:
    done = replay(opaque_capture, "--target", "127.0.0.1:1", "--ca", pki / "none.pem")
    assert done.returncode == 2
    nonsense = pki / "nonsense.pem"
    nonsense.write_text("nonsense")
    done = replay(opaque_capture, "--target", "127.0.0.1:1", "--ca", nonsense, "--timeout", "1")
    assert done.returncode == 125
    assert "Traceback" not in done.stderr
