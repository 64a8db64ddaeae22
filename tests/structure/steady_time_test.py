"""Rejects times of the wall clock in what the service waits for.

The wall clock steps: an administrator or NTP sets it. A wait, a deadline or an age that is reckoned
with it is then too long or too short by as much. The service's time is Clock (base/clock.h) or
SteadyTime() (base/steady_waits.h), its deadlines for gRPC are SteadyDeadline(), and its waits say for
how long, not until when.

Usage: steady_time_test.py REPOSITORY. Exit status 1 if something is wrong, or if the check fails to
find what it is given.
"""

from __future__ import annotations

import pathlib
import re
import sys

WALL = re.compile(
    r"absl::Now\(|system_clock|high_resolution_clock|CLOCK_REALTIME|\bgettimeofday\(|\btime\((?:nullptr|NULL|0|&)"
    r"|ToChronoTime\(|\b(?:Await|Wait|LockWhen|ReaderLockWhen|WaitForNotification)WithDeadline\("
    r"|GPR_CLOCK_REALTIME|\bwait_until\(|\bsleep_until\(|pthread_cond_timedwait|sem_timedwait"
)
COMMENT = re.compile(r"//.*")
# Where the wall time is meant: what is shown to people or written down with a date.
MEANT = {
    # The beginning of the service's time, and the one place that turns wall times into steady ones.
    "service/base/clock.h",
    "service/base/steady_waits.cc",
    # Told to Prometheus.
    "service/server/metrics/process_collector.cc",
    "service/server/metrics/call_exemplars.cc",
    # The date of a snapshot.
    "service/program/commands/store_command.cc",
}


def wall_times_in(text: str) -> list[tuple[int, str]]:
    """Lines, with what is wrong in each."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = WALL.search(COMMENT.sub("", line))
        if match:
            found.append((number, match.group().rstrip("(")))
    return found


def check_the_check() -> None:
    for wrong in (
        "const absl::Time end = absl::Now() + x;",
        "context.set_deadline(std::chrono::system_clock::now() + kTimeout);",
        "mutex_.AwaitWithDeadline(absl::Condition(&done), end);",
        "clock_gettime(CLOCK_REALTIME, &now);",
        "changed.wait_until(lock, end);",
        "const time_t now = time(nullptr);",
    ):
        assert wall_times_in(wrong), wrong
    for right in (
        "mutex_.AwaitWithTimeout(absl::Condition(&done), left);",
        "const absl::Time end = SteadyTime() + x;",
        "const absl::Time end = clock_->Now() + x;",
        "// absl::Now() would step.",
        "absl::SleepFor(period);",
        "const absl::Duration commit_time(absl::ZeroDuration());",
    ):
        assert not wall_times_in(right), right


def main() -> int:
    check_the_check()
    repository = pathlib.Path(sys.argv[1])
    problems, meant = [], set()
    for path in sorted(repository.glob("service/**/*.*")):
        if path.suffix not in (".cc", ".h"):
            continue
        name = path.relative_to(repository).as_posix()
        for line, what in wall_times_in(path.read_text()):
            if name in MEANT:
                meant.add(name)
            else:
                problems.append(f"{name}:{line}: {what}: the wall clock may step")
    problems += [f"{name}: has no wall time, and is listed here" for name in sorted(MEANT - meant)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
