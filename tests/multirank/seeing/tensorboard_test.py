#!/usr/bin/python3
"""Event files of real runs, read by TensorBoard's own reader (of .venv, made by scripts/setup --readers) and by a parser of
the test's own, and the Prometheus endpoint, read over HTTP.

  tensorboard_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import glob
import json
import os
import re
import socket
import struct
import subprocess
import sys
import unittest
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, ROOT, Case, with_keys  # noqa: E402

BINARY = ""
READER = os.path.join(ROOT, ".venv", "bin", "python")
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[one.step, one.value, one.wall_time] for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""
RUN = with_keys(N0, log__tensorboard=True, data__split="90,10,0", eval__every=4, eval__batches=1, checkpoint__every=3,
                checkpoint__keep_last=0)


def crc32c(data):
    """CRC-32C by its definition, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """[(number, value)] of a protocol buffer."""
    at, found = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        found.append((key >> 3, data[at:at + size]))
        at += size
    return found


def events_of(path):
    """[{field number: value}] of an event file, its checksums checked."""
    with open(path, "rb") as file:
        data = file.read()
    at, events = 0, []
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        body = data[at + 12:at + 12 + length]
        assert masked(data[at:at + 8]) == check and masked(body) == struct.unpack_from("<I", data, at + 12 + length)[0]
        events.append(dict(fields(body)))
        at += 16 + length
    return events


def scalars_of(event):
    values = [dict(fields(value)) for _, value in fields(event.get(5, b""))]
    return {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}


def as_float(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Figures(unittest.TestCase):
    def read(self, case):
        """{tag: [(step, value)]}, by TensorBoard."""
        result = subprocess.run([READER, "-c", READ, case.path("runs/case")], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {tag: [(step, value) for step, value, _ in rows] for tag, rows in json.loads(result.stdout).items()}

    def trained(self, case, steps, resume):
        result = case.run(with_keys(RUN, train__steps=steps), 1, ["--resume", resume])
        self.assertEqual(result.code, 0, result)

    def rows(self, case):
        """Step events by step, and losses of validations; a start takes back what came after its first step."""
        rows = {"step": {}, "eval": {}}
        for event in case.events():
            if event["event"] == "start":
                for kept in rows.values():
                    for step in [step for step in kept if step >= event["first_step"]]:
                        del kept[step]
            elif event["event"] in rows:
                rows[event["event"]][event["step"]] = event
        return rows["step"], {step: event["loss"] for step, event in rows["eval"].items()}

    def test_a_run_its_continuation_and_one_that_goes_back(self):
        with Case(BINARY) as case:
            self.trained(case, 6, "none")
            self.trained(case, 10, "auto")
            files = sorted(glob.glob(case.path("runs/case/events.out.tfevents.*")))
            self.assertEqual(len(files), 2)
            for file in files:
                self.assertRegex(os.path.basename(file), rf"^events\.out\.tfevents\.\d{{10}}\.{socket.gethostname()}\.\d+\.\d+$")
            steps, validations = self.rows(case)
            seen = []
            for file in files:
                events = events_of(file)
                self.assertEqual(events[0][3], b"brain.Event:2")
                for event in events[1:]:
                    scalars = scalars_of(event)
                    if "validation/loss" in scalars:
                        self.assertEqual(scalars["validation/loss"], as_float(validations[event[2]]))
                    elif scalars:
                        seen.append(event[2])
                        row = steps[event[2]]
                        wanted = {"loss": row["loss"], "grad_norm": row["grad_norm"], "lr": row["lr"],
                                  "throughput/tokens_per_s": row["tokens_per_s"], "throughput/step_ms": row["step_ms"],
                                  "pipeline/bubble": row["bubble"]}
                        self.assertEqual({tag: scalars[tag] for tag in wanted}, {tag: as_float(x) for tag, x in wanted.items()})
                        self.assertNotIn("throughput/mfu", scalars)  # no peak is known
                        self.assertGreater(scalars["memory/peak_resident_gib_of_rank_0"], 0.001)
            self.assertEqual(seen, list(range(1, 11)))

            if not os.path.exists(READER):
                self.assertNotIn("CI", os.environ, "TensorBoard is missing: scripts/setup --readers installs it")
                self.skipTest("TensorBoard is not installed (scripts/setup --readers)")
            self.compare(case, 10)
            self.trained(case, 8, case.path("runs/case/step_00000003"))  # takes steps 4 to 10 back
            self.assertEqual(len(glob.glob(case.path("runs/case/events.out.tfevents.*"))), 3)
            self.compare(case, 8)

    def compare(self, case, last):
        read = self.read(case)
        steps, validations = self.rows(case)
        self.assertEqual(read["loss"], [(step, as_float(steps[step]["loss"])) for step in range(1, last + 1)])
        self.assertEqual(read["grad_norm"], [(step, as_float(steps[step]["grad_norm"])) for step in range(1, last + 1)])
        self.assertEqual(read["validation/loss"], [(step, as_float(validations[step])) for step in sorted(validations)])

    def test_off_by_default(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(with_keys(N0, train__steps=1), 1).code, 0)
            self.assertEqual(glob.glob(case.path("runs/case/events*")), [])


class Prometheus(unittest.TestCase):
    @staticmethod
    def free_port():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def test_the_endpoint_tells_the_figures_of_the_last_step(self):
        port = self.free_port()
        pages, addresses = [], []

        def watch(case):
            if len(case.steps()) < 3:
                return False
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                pages.append((page.read().decode(), page.headers["Content-Type"]))
            for pid in case.ranks().values():
                addresses.append(listening(pid))
            os.kill(case.launcher.pid, 10)  # SIGUSR1: save and end
            return True
        with Case(BINARY) as case:
            spec = with_keys(N0, parallel__pp=2, train__steps=100000, log__prometheus_port=port)
            result = case.run(spec, 2, watch=watch)
            self.assertEqual(result.code, 75, result)
            text, kind = pages[0]
            self.assertTrue(kind.startswith("text/plain"), kind)
            figures = {}
            for line in text.splitlines():
                if not line.startswith("#"):
                    name, value = line.rsplit(" ", 1)
                    figures[name] = float(value)
            at = {re.match(r"escalier_(\w+)\{run=\"case\"\}$", name).group(1): value for name, value in figures.items()
                  if "rank=" not in name and name.startswith("escalier_")}
            row = next(step for step in result.steps if step["step"] == at["step"])
            self.assertEqual(at["steps"], 100000)
            for name, key in (("loss", "loss"), ("grad_norm", "grad_norm"), ("learning_rate", "lr"),
                              ("tokens_per_second", "tokens_per_s"), ("bubble_ratio", "bubble")):
                self.assertAlmostEqual(at[name], row[key], delta=1e-5 * abs(row[key]), msg=name)
            self.assertNotEqual(at["mfu_ratio"], at["mfu_ratio"])
            parts = {name: value for name, value in figures.items() if name.startswith("escalier_step_part_seconds{")}
            self.assertEqual(len(parts), 2 * 6)
            for rank in (0, 1):
                self.assertAlmostEqual(sum(value for name, value in parts.items() if f'rank="{rank}"' in name),
                                       row["ranks"][rank]["step_ms"] / 1e3, delta=1e-4)
            self.assertIn(f"0100007F:{port:04X}", addresses[0] + addresses[1], "it listens on loopback")
            self.assertNotIn(f"00000000:{port:04X}", addresses[0] + addresses[1])

    def test_a_port_in_use_is_named_and_leaves_no_folder(self):
        with socket.socket() as taken, Case(BINARY) as case:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            result = case.run(with_keys(N0, parallel__pp=2, log__prometheus_port=port), 2)
            self.assertEqual(result.code, 2, result)
            self.assertIn(f"log.prometheus_port: found {port}, which cannot be opened on 127.0.0.1 (Address already in use)",
                          result.output)
            self.assertEqual(result.output.count("log.prometheus_port"), 1)
            self.assertFalse(os.path.exists(case.path("runs/case")))
            self.assertEqual(result.leftover, [])


def listening(pid):
    """Local addresses of the sockets on which a process's network namespace listens over TCP."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
        return [line.split()[1] for line in file.readlines()[1:] if line.split()[3] == "0A"]


if __name__ == "__main__":
    at = sys.argv.index("--binary")
    BINARY = os.path.abspath(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    unittest.main()
