"""Kill a training run at random moments, again and again, and see that it ends as if nothing had happened.

    python -m tests.training.kill_and_resume FOLDER [KILLS]

Each session is a forked process that is killed with SIGKILL, somewhere in or after a random step, and then started
again, as the same command would. After every kill the checkpoint must be readable. At the end the weights must be those
of an uninterrupted run, bit for bit. Prints one line and exits with 0, or fails with an exception.
"""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch._dynamo  # every session would import these two anew
import torch.utils.tensorboard
from tests.training.tiny import final_weights, run_training, tiny_recipe, write_folder

from linstereo.checkpoints.checkpoint_file import read_safetensors
from linstereo.training.metrics_log import read_metrics
from linstereo.training.state import FILE_NAME, load_state

STAGES = ({"objective": "matching", "steps": 12}, {"steps": 60})


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    data = write_folder(folder / "pairs")
    recipe = tiny_recipe(
        data,
        stages=STAGES,
        checkpoint_every=2,
        validate_every=20,
        validation=[f"folder={data}"],
        validation_count=1,
    )
    # In a process of its own like all others, so that no thread of this one is alive when the next is forked.
    assert session(recipe, folder / "whole") == 0
    interrupted = folder / "interrupted"
    rng = random.Random(5)
    killed, steps_seen = 0, set()
    while killed < kills:
        code = session(recipe, interrupted, kill=(rng.randrange(6), 2 * rng.random()), loaders=2 * (killed % 5 == 4))
        assert code == -signal.SIGKILL, f"a session ended by itself with code {code} after {killed} kills"
        killed += 1
        if (interrupted / FILE_NAME).exists():
            steps_seen.add(load_state(interrupted / FILE_NAME).progress.total_steps)
    assert len(steps_seen) > 3, f"the kills came at steps {sorted(steps_seen)} only"
    assert session(recipe, interrupted) == 0
    for read in (final_weights, lambda run: read_safetensors(run / "linstereo.safetensors")):
        expected, found = read(folder / "whole"), read(interrupted)
        assert expected.keys() == found.keys()
        different = [name for name in expected if not torch.equal(expected[name], found[name])]
        assert not different, different
    logs = [entries(run) for run in (folder / "whole", interrupted)]
    assert logs[0] == logs[1]
    assert not list(interrupted.glob(".*.safetensors")), "half-written files are left"
    print(f"{killed} kills at steps {sorted(steps_seen)}: weights and log are the same")


def session(recipe, folder: Path, *, kill: tuple[int, float] | None = None, loaders: int = 0) -> int:
    """Train in a forked process; its exit code, negative for the signal that ended it.

    kill: when to kill it: after so many steps, and then so many times the time that a step takes.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            on_step = (lambda *_: None) if kill is None else Killer(*kill).on_step
            done, _ = run_training(recipe, folder, loaders=loaders, on_step=on_step)
            code = 0 if done else 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Killer:
    """Ends its own process from a thread, whatever the others are doing then."""

    def __init__(self, steps: int, rest: float) -> None:
        self.steps, self.rest = steps, rest
        self.last = 0.0
        if steps == 0:
            self.start(0.1)

    def on_step(self, *_: object) -> None:
        now = time.perf_counter()
        self.steps -= 1
        if self.steps == 0:
            self.start(min(now - self.last, 0.05))
        self.last = now

    def start(self, unit: float) -> None:
        timer = threading.Timer(self.rest * unit, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()


def entries(folder: Path) -> list[dict[str, object]]:
    """The log without what depends on the clock or on where a session began."""
    return [
        {name: value for name, value in entry.items() if name != "seconds_per_step"}
        for entry in read_metrics(folder / "metrics.jsonl")
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
