"""Runs one `lakehouse` command after the other in one process, so that all of them share one JVM.

Started with the path of a socket, it serves; started with `run` before it and a command after it, it hands that command
over, with its own input and outputs, and ends with the command's exit code.
"""

import json
import os
import socket
import sys

STREAMS = (0, 1, 2)


def serve(path: str) -> None:
    """Run the commands that come, each with the input and the outputs of the process that sends it."""
    import lakehouse

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                message, streams, _, _ = socket.recv_fds(connection, 65_536, len(STREAMS))
                connection.sendall(str(_done(lakehouse.main, json.loads(message), streams)).encode())


def _done(main: object, arguments: list[str], streams: list[int]) -> int:
    kept = [os.dup(number) for number in STREAMS]
    _replace(streams)
    sys.argv = ["lakehouse", *arguments]
    try:
        main()  # type: ignore[operator]
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        _replace(kept)


def _replace(streams: list[int]) -> None:
    for number, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)


def run(path: str, arguments: list[str]) -> int:
    """Hand a command to the process that serves."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(arguments).encode()], STREAMS)
        return int(connection.recv(16))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    serve(sys.argv[1])
