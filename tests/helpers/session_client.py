"""A client process that holds four Sessions at once, with unary calls among them: `session_client.py ADDRESS NUMBER`.

Every Session waits for each of its answers, and for its own unary calls; between Sessions nothing is in step.
"""

from __future__ import annotations

import sys
import threading

from capture_server.build import chunk, open_request, tensor
from capture_server.client import Client, cancel, data, release


def session(address: str, name: str) -> None:
    client = Client(address)
    cancel(client, name, "early", 1)
    with client.session() as conversation:
        conversation.ask(open_request(name), "accepted")
        for step in range(8):
            conversation.echoed(chunk(name, "w", step, [tensor("t", data(500 * step, name), parts=2)]))
            if step == 3:
                cancel(client, name, "late", 1)
                conversation.refused(chunk(name, "late", 1, [tensor("t", b"x")]), "CANCELLED")
        conversation.refused(chunk(name, "early", 1, [tensor("t", b"x")]), "CANCELLED")
        release(conversation)
    client.close()


def main() -> None:
    address, number = sys.argv[1], sys.argv[2]
    failed: list[BaseException] = []

    def guarded(name: str) -> None:
        try:
            session(address, name)
        except BaseException as error:  # noqa: BLE001 - a thread's error has to be the process's
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(f"s{number}-{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"{failed[0]!r}")


if __name__ == "__main__":
    main()
