"""Train in two processes that share each batch, as torchrun would start them.

    python -m tests.training.two_processes OUT STEPS RECIPE_JSON

Exits with 0 if both processes did; what they wrote is in OUT.
"""

import os
import socket
import sys

import torch
from tests.training.tiny import run_training

from linstereo.processes import joined_workers
from linstereo.training.recipe_files import recipe_from_json


def main(out: str, steps: str, recipe_text: str) -> int:
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.environ.update(
                    MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank)
                )
                with joined_workers(gpu=True) as worker:
                    run_training(recipe_from_json(recipe_text), out, worker=worker, stop_after=int(steps))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
