"""Long runs as processes that can be killed: `Nursery` starts, kills and waits for them.

Run as a script this file is the nursery's other side: it imports once and forks a process
for each job, so that a test can afford many of them. A process sleeps a little in each
batch, and works in small pieces. It can also end itself, as abruptly as by SIGKILL, right
before its n-th change of the file system.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SUPPORT = Path(__file__).parent
CHANGES = ("open", "fsync", "replace", "unlink", "mkdir", "rmdir")


class Nursery:
    """Starts processes that score or audit with a table model."""

    def __enter__(self):
        paths = [str(SUPPORT), str(SUPPORT.parents[1])]
        self._other = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        return self

    def __exit__(self, *error):
        self._other.stdin.close()
        self._other.wait(timeout=60)
        self._other.stdout.close()

    def run(self, kill_after=None, **job):
        """Run a job, killed after so many seconds.

        Returns
        -------
        (int, str)
            Its exit code, -9 if it was killed; and the error that it ended with.
        """
        self._other.stdin.write(json.dumps(job) + "\n")
        pid = int(self._other.stdout.readline())
        if (
            kill_after is not None
            and not select.select([self._other.stdout], [], [], kill_after)[0]
        ):
            with suppress(ProcessLookupError):  # it ended in the same moment
                os.kill(pid, signal.SIGKILL)
        code, error = json.loads(self._other.stdout.readline())
        return code, error


def survive(nursery, *, kills, rng, check, clean, **job):
    """Run a job again and again, killing it `kills` times at random moments.

    Whenever it comes to its end, `check` looks at what it left, `clean` takes that away,
    and it begins anew.
    """
    began = time.monotonic()
    assert nursery.run(**job) == (0, "")
    whole = time.monotonic() - began
    check()
    clean()
    done = 0
    while done < kills:
        code, error = nursery.run(kill_after=rng.uniform(0, 0.4 * whole), **job)
        assert code in {0, -9}, error
        if code:
            done += 1
        else:
            check()
            clean()
    assert nursery.run(**job) == (0, "")
    check()


def _serve():
    import long_runs_jobs

    for line in sys.stdin:
        job = json.loads(line)
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            _child(job, writer, long_runs_jobs)
        os.close(writer)
        _tell(pid)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reader) as told:
            _tell([os.waitstatus_to_exitcode(status), told.read()])


def _tell(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _child(job, writer, jobs):
    code = 1
    try:
        crash_at = job.pop("crash_at", None)
        if crash_at is not None:
            _crash_before(crash_at)
        getattr(jobs, job.pop("task"))(**job)
        code = 0
    except BaseException as error:
        os.write(writer, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(code)


def _crash_before(number):
    """End this process right before its change of that number, as SIGKILL would."""
    left = [number]

    def counting(change):
        def counted(*args, **options):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return change(*args, **options)

        return counted

    for name in CHANGES:
        setattr(os, name, counting(getattr(os, name)))


if __name__ == "__main__":
    _serve()
