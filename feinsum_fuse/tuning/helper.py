"""The child of :mod:`.helpers`: calls what it is sent, until its input ends."""

from __future__ import annotations

import os
import sys
import warnings

from .helpers import receive, send


def main() -> None:
    """Serve."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")  # of mappings that nobody keeps
    while True:
        try:
            function, arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except Exception as error:  # the parent raises it
            answer = False, error
        send(answers, answer)


if __name__ == "__main__":
    main()
