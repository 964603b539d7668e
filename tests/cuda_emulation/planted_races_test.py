#!/usr/bin/env python3
"""The thread sanitizer finds every planted race, and none in the same kernels without it.

  planted_races_test.py PROGRAM    PROGRAM is built from planted_races.cpp
"""
import os
import subprocess
import sys


def run(program, *arguments):
    environment = dict(os.environ, TSAN_OPTIONS="exitcode=66")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout, done.stderr


def main():
    program = sys.argv[1]
    names = run(program)[1].splitlines()
    failures = [] if len(names) >= 5 else ["the program lists its kernels"]
    for name in names:
        for planted in ("0", "1"):
            code, _, report = run(program, name, planted)
            found = code == 66 and "data race" in report
            if found != (planted == "1") or code not in (0, 66):
                failures.append(f"{name}, planted {planted}: exit code {code}\n{report[:2000]}")
    code, _, report = run(program, "right")
    if code != 0:
        failures.append(f"kernels without a fault: exit code {code}\n{report[:4000]}")
    for failure in failures:
        print(failure)
    print(f"{len(names)} planted races, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
