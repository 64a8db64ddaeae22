"""Rejects what runs, waits or sleeps beside the service's execution.

Threads, pauses and loops are begun by base/execution.h, and waits are those of absl::Mutex and
absl::Notification: so a test can run the same code in an order that a seed decides
(tests/support/seeded_execution.h). Only what implements this names threads of the system, condition
variables or sleeps, and a few edges do, each with its reason. Reader's locks of absl::Mutex are rejected
too: ThreadSanitizer is not told of them (tests/support/abseil_for_tsan.cc).

Usage: execution_test.py REPOSITORY. Exit status 1 if something is wrong, or if the check fails to find
what it is given.
"""

from __future__ import annotations

import pathlib
import re
import sys

OWN_WAY = re.compile(
    r"std::j?thread\b(?!::hardware_concurrency)|std::this_thread|std::async\b|std::(?:future|promise)\b"
    r"|std::condition_variable|std::(?:shared_|recursive_)?(?:timed_)?mutex\b|std::\w+_semaphore\b"
    r"|absl::CondVar|absl::BlockingCounter|absl::Barrier\b|\bSleepFor\b|\bsleep_(?:for|until)\b"
    r"|\busleep\(|::sleep\(|\b(?:clock_)?nanosleep\b|\bsched_yield\b|\bpthread_(?:create|cond|mutex)\w*"
    r"|\bsem_(?:wait|timedwait)\b|\bSYS_futex\b"
)
READERS = re.compile(r"\bReader(?:MutexLock|Lock|LockWhen|TryLock|Unlock)\b")
COMMENT = re.compile(r"//.*")
EDGES = {
    "service/base/execution.cc": "the machine's execution",
    "service/base/steady_waits.cc": "its waits",
    "service/base/clock.h": "its timers, of which tests have their own",
    "service/program/signals.cc": "a thread that waits for signals, and is ended by one",
    "service/stores/datasets/mixed_datasets.cc": "many readers at a time; nobody waits while he has it",
}


def problems(name: str, text: str) -> list[str]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = COMMENT.sub("", line)
        if READERS.search(code):
            found.append(
                f"{name}:{number}: ThreadSanitizer is not told of reader's locks: take absl::MutexLock, "
                "or std::shared_mutex as an edge"
            )
        match = OWN_WAY.search(code)
        if match and name not in EDGES:
            found.append(f"{name}:{number}: {match.group()}: begins or waits beside base/execution.h")
    return found


def check_the_check() -> None:
    for wrong in (
        "  std::thread thread_;",
        "std::this_thread::yield();",
        "const std::lock_guard<std::mutex> lock(mutex_);",
        "absl::CondVar changed_;",
        "feedback.sleep = absl::SleepFor;",
        "std::this_thread::sleep_for(1s);",
        "::usleep(10);",
        "const absl::ReaderMutexLock lock(&mutex_);",
        "mutex_.ReaderLock();",
    ):
        assert len(problems("service/a.cc", wrong)) == 1, wrong
    assert not problems("service/base/execution.cc", "std::thread thread_;")
    assert problems("service/base/execution.cc", "absl::ReaderMutexLock lock(&mutex_);")
    for right in (
        "std::thread::hardware_concurrency()",
        "Thread thread_;",
        "mutex_.AwaitWithTimeout(absl::Condition(&never), kRetry);",
        "// As std::thread.",
        "Pause(kPeriod);",
        "options.sleep(kPeriod);",
        "int ReaderLockBytes = 0;",
    ):
        assert not problems("service/a.cc", right), right


def main() -> int:
    check_the_check()
    repository = pathlib.Path(sys.argv[1])
    found = []
    for path in sorted(repository.glob("service/**/*.*")):
        if path.suffix in (".cc", ".h"):
            found += problems(path.relative_to(repository).as_posix(), path.read_text())
    for name in EDGES:
        path = repository / name
        if not path.exists() or not any(
            OWN_WAY.search(COMMENT.sub("", line)) for line in path.read_text().splitlines()
        ):
            found.append(f"{name}: needs no exception, and is listed here")
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
