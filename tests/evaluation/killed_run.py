"""`python -m tests.evaluation.killed_run COUNT ARGUMENTS...`: linstereo, killed as soon as COUNT images are recorded.

The processes of a run count for themselves, so that none of them gets further however late another one would look.
"""

import os
import signal
import sys

from tests.evaluation.processes import lines_in

from linstereo.cli import main
from linstereo.evaluation.records import Record, RecordFolder


def kill_after(count: int) -> None:
    """Let every process of this group end, without any notice, with the record of that number."""
    append = RecordFolder.append

    def append_or_die(self: RecordFolder, record: Record, *, process: int) -> None:
        append(self, record, process=process)
        if lines_in(self.base.parent) >= count:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    RecordFolder.append = append_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    kill_after(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
