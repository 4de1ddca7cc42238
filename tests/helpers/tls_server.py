"""The tests' service over TLS: `python tls_server.py HOST:PORT PKI [mutual]`."""

from __future__ import annotations

import sys
from concurrent import futures
from pathlib import Path

import grpc


def secure_server(address: str, pki: Path, *, client_certificate: bool) -> tuple[grpc.Server, int]:
    """A server, started, and its port."""
    from helpers.service import HANDLERS

    credentials = grpc.ssl_server_credentials(
        [((pki / "server.key").read_bytes(), (pki / "server.pem").read_bytes())],
        (pki / "ca.pem").read_bytes() if client_certificate else None,
        client_certificate,
    )
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", HANDLERS),))
    port = server.add_secure_port(address, credentials)
    server.start()
    return server, port


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    secure_server(sys.argv[1], Path(sys.argv[2]), client_certificate="mutual" in sys.argv)[0].wait_for_termination()
