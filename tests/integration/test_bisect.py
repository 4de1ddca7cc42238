"""`git bisect run capture-replay …` over a repository with a planted regression."""

from __future__ import annotations

import shlex
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import grpc

from capture_recorder import Recorder
from helpers.processes import BIN

SERVER = '''"""Shouts."""
import signal, sys
from concurrent import futures
import grpc

def shout(request, context):
    return {answer}

server = grpc.server(futures.ThreadPoolExecutor(2))
handler = grpc.unary_unary_rpc_method_handler(shout)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Shout", {{"Say": handler}}),))
server.add_insecure_port(sys.argv[1])
server.start()
signal.sigwait([signal.SIGTERM])
'''
GOOD, BAD, BROKEN = "request.upper()", "request.upper()[:10]", "request.upper() +"
HISTORY = [GOOD, GOOD, GOOD, GOOD, BROKEN, GOOD, GOOD, BAD, BAD]
"""The answer in each commit. Of the ones between the first and the last, bisecting looks at the broken one first."""


def git(repository: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Founder", "-c", "user.email=founder@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *arguments], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record(capture: Path) -> None:
    """Somebody's bug report: what a good server answered."""
    recorder = Recorder(capture, on_error="raise")
    server = grpc.server(futures.ThreadPoolExecutor(2), interceptors=[recorder.interceptor()])
    handler = grpc.unary_unary_rpc_method_handler(lambda request, _context: request.upper())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Shout", {"Say": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        say = channel.unary_unary("/test.Shout/Say")
        for words in (b"short", b"longer than that"):
            say(words)
    server.stop(1).wait(5)
    recorder.close()


def test_bisect_finds_the_commit_and_skips_the_one_whose_server_does_not_start(tmp_path: Path) -> None:
    repository, capture = tmp_path / "repository", tmp_path / "bug.cap"
    repository.mkdir()
    record(capture)
    git(repository, "init", "--quiet", "--initial-branch", "main")
    for number, answer in enumerate(HISTORY):
        (repository / "server.py").write_text(f"# {number}\n" + SERVER.format(answer=answer))
        git(repository, "add", "server.py")
        git(repository, "commit", "--quiet", "-m", f"Change {number}")
    commits = git(repository, "rev-list", "--reverse", "HEAD").split()
    git(repository, "bisect", "start", commits[-1], commits[0])
    spawn = shlex.join([sys.executable, "server.py"]) + " {address}"
    found = git(repository, "bisect", "run", str(BIN / "capture-replay"), str(capture), "--spawn", spawn)
    assert f"{commits[HISTORY.index(BAD)]} is the first bad commit" in found
    log = git(repository, "bisect", "log")
    assert f"git bisect skip {commits[HISTORY.index(BROKEN)]}" in log
    assert "the server did not start: it ended with status 1" in found
    assert "SyntaxError" in found, "what it printed leads to why"
    assert git(repository, "status", "--porcelain") == "", "nothing is left in the tree"
