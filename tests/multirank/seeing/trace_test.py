#!/usr/bin/python3
"""trace.json and pipeline.svg of real runs: the file's schema, tracks, slices against the schedule and the step's split,
arrows against the messages that the schedule sends.

  trace_test.py --binary build/release/bin/escalier [--library libescalier_cuda_emulated.so] [unittest arguments]

With a library the runs are those of the emulated CUDA backend.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import jsonschema

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, Case, with_keys  # noqa: E402

BINARY = ""
DEVICE = {}  # keys of the job that choose it
CLOCKS = 0  # microseconds that two ranks' clocks may lie apart: a device's is held against the host's to half of this

NUMBER = {"type": "number", "minimum": 0}
INTEGER = {"type": "integer", "minimum": 0}


def event_schema(phase, required, **properties):
    properties = {"ph": {"const": phase}, "name": {"type": "string", "minLength": 1}, "pid": INTEGER, "tid": INTEGER, **properties}
    return {"if": {"properties": {"ph": {"const": phase}}},
            "then": {"required": ["name", "pid", "tid", *required], "properties": properties, "additionalProperties": False}}


# The Trace Event Format, as far as Escalier uses it.
SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["ph"], "properties": {"ph": {"enum": ["M", "X", "s", "f"]}},
            "allOf": [
                event_schema("M", ["args"], args={"type": "object", "minProperties": 1}),
                event_schema("X", ["ts", "dur", "cat", "args"], ts=NUMBER, dur=NUMBER, cat={"type": "string"},
                             args={"type": "object"}),
                event_schema("s", ["ts", "id", "cat"], ts=NUMBER, id=INTEGER, cat={"type": "string"}),
                event_schema("f", ["ts", "id", "cat", "bp"], ts=NUMBER, id=INTEGER, cat={"type": "string"}, bp={"const": "e"}),
            ]}}},
}
COMPUTE = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W"}
EPSILON = 2e-3  # microseconds: two roundings


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.whole = json.load(file)
        self.events = self.whole["traceEvents"]
        self.tracks = {event["tid"]: event["args"]["name"] for event in self.events if event["name"] == "thread_name"}
        self.slices = [event for event in self.events if event["ph"] == "X"]

    def on(self, stream, **matching):
        """Slices of a stream, by start; rank=…, step=…"""
        found = [one for one in self.slices if re.fullmatch(re.escape(stream) + r"( \(\d+\))?", self.tracks[one["tid"]])
                 and matching.get("rank", one["pid"]) == one["pid"]
                 and matching.get("step", one["args"]["step"]) == one["args"]["step"]]
        return sorted(found, key=lambda one: one["ts"])

    def arrows(self):
        """[(start, end)] of events with one id."""
        ends = collections.defaultdict(dict)
        for event in self.events:
            if event["ph"] in "sf":
                ends[event["id"]][event["ph"]] = event
        return [(each["s"], each["f"]) for each in ends.values()]


def end_of(one):
    return one["ts"] + one["dur"]


def total(slices):
    return sum(one["dur"] for one in slices) / 1e3


class Traces(unittest.TestCase):
    def traced(self, ranks, **changes):
        """(trace, step events by number, run.json, pipeline.svg, output) of a run with two traced steps."""
        spec = with_keys(N0, train__steps=5, log__trace={"start": 3, "steps": 2}, **DEVICE, **changes)
        with Case(BINARY) as case:
            result = case.run(spec, ranks)
            self.assertEqual(result.code, 0, result)
            self.assertIn("trace.json", result.output)
            with open(case.path("runs/case/run.json"), encoding="utf-8") as file:
                facts = json.load(file)
            with open(case.path("runs/case/pipeline.svg"), encoding="utf-8") as file:
                picture = file.read()
            return Trace(case.path("runs/case/trace.json")), {one["step"]: one for one in result.steps}, facts, picture

    def check(self, kind, ranks, chunks=1, **changes):
        trace, steps, facts, picture = self.traced(ranks, pipeline__schedule=kind, **changes)
        jsonschema.validate(trace.whole, SCHEMA, cls=jsonschema.Draft7Validator)
        self.assertEqual(trace.whole["otherData"]["spans_left_out"], 0)
        self.check_tracks(trace, ranks)
        micro_batches = facts["schedule"]["micro_batches"]
        self.check_order(trace, facts, self.order(kind, facts["grid"]["pp"], micro_batches, chunks))
        self.check_split(trace, steps, ranks)
        self.check_messages(trace, facts)
        self.check_picture(picture, facts["grid"]["pp"])
        return trace

    def check_tracks(self, trace, ranks):
        self.assertEqual({one["pid"] for one in trace.slices}, set(range(ranks)))
        self.assertEqual({one["args"]["step"] for one in trace.slices}, {3, 4})
        names = [(event["pid"], event["tid"]) for event in trace.events if event["name"] == "thread_name"]
        self.assertEqual(len({tid for _, tid in names}), len(names), "a track's number stands for one track of all ranks")
        for rank in range(ranks):
            own = {trace.tracks[tid] for pid, tid in names if pid == rank}
            self.assertLessEqual({"steps", "compute", "reductions", "optimizer", "data"}, own)
            for single in ("steps", "compute", "tensor collectives", "reductions", "optimizer", "data"):
                self.assertNotIn(single + " (2)", own)
        for tid in trace.tracks:
            end = 0
            for one in sorted((one for one in trace.slices if one["tid"] == tid), key=lambda one: (one["ts"], end_of(one))):
                self.assertGreaterEqual(one["ts"], end - EPSILON, f"{one} overlaps the slice before it")
                end = end_of(one)

    def order(self, kind, pp, micro_batches, chunks):
        """[[cell]] by pipeline rank, as the schedule command lists them."""
        line = [BINARY, "schedule", kind, "--stages", str(pp), "--micro-batches", str(micro_batches), "--format", "csv",
                *(["--chunks", str(chunks)] if chunks > 1 else [])]
        text = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        return [row.split(",") for row in text.split()]

    def check_order(self, trace, facts, order):
        for rank in facts["ranks"]:
            for step in (3, 4):
                cells = [f"{one['args']['stage']}{COMPUTE[one['cat']]}{one['args']['micro_batch']}"
                         for one in trace.on("compute", rank=rank["rank"], step=step) if one["cat"] in COMPUTE]
                wanted = order[rank["pp_rank"]]
                # Overlapped pairs come as pieces, in turn.
                self.assertEqual(sorted(set(cells)), sorted(wanted))
                if len(cells) == len(wanted):
                    self.assertEqual(cells, wanted)

    def check_split(self, trace, steps, ranks):
        for step in (3, 4):
            for rank in range(ranks):
                split = steps[step]["ranks"][rank]
                compute = trace.on("compute", rank=rank, step=step)
                tensor = total(trace.on("tensor collectives", rank=rank, step=step))
                of = {category: total(one for one in compute if one["cat"] == category)
                      for category in {one["cat"] for one in compute}}
                actions = sum(of.get(category, 0) for category in COMPUTE)
                close = lambda ours, theirs, what: self.assertAlmostEqual(ours, split[theirs], delta=2e-3, msg=what)  # noqa: E731
                close(actions - tensor, "compute_ms", "compute")
                close(of.get("bubble", 0), "bubble_ms", "bubble")
                close(total(trace.on("reductions", rank=rank, step=step)), "reduction_ms", "reduction")
                close(total(trace.on("optimizer", rank=rank, step=step)), "optimizer_ms", "optimizer")
                close(total(trace.on("data", rank=rank, step=step)), "data_wait_ms", "data")
                # What starts messages and polls lies between the slices.
                self.assertLessEqual(of.get("communication", 0) + tensor, split["exposed_communication_ms"] + 2e-3)

    def check_messages(self, trace, facts):
        place = {rank["rank"]: (rank["tp_rank"], rank["dp_rank"]) for rank in facts["ranks"]}
        ran = {}  # (step, tensor and data rank, stage, micro-batch) -> F's slice, and that of the gradient it sends back
        for one in trace.on("compute"):
            if one["cat"] in ("forward", "backward", "input_gradient"):
                args = one["args"]
                key = (args["step"], place[one["pid"]], args["stage"], args["micro_batch"], one["cat"] == "forward")
                first, last = ran.get(key, (one, one))
                ran[key] = (first, one)
        wanted = set()
        for step, where, stage, micro_batch, forward in ran:
            other = stage + 1 if forward else stage - 1
            target = ran.get((step, where, other, micro_batch, forward))
            if target and target[0]["pid"] != ran[step, where, stage, micro_batch, forward][0]["pid"]:
                wanted.add((step, where, stage, other, micro_batch))
        found = set()
        inside = collections.defaultdict(list)
        for one in trace.slices:
            inside[one["tid"]].append(one)
        for start, end in trace.arrows():
            sent, received = ([one for one in inside[event["tid"]] if one["ts"] <= event["ts"] <= end_of(one)]
                              for event in (start, end))
            self.assertEqual((len(sent), len(received)), (1, 1), f"{start} and {end} lie in no single slice")
            sent, received = sent[0], received[0]
            self.assertEqual((start["name"], start["cat"]), (end["name"], end["cat"]))
            self.assertRegex(trace.tracks[sent["tid"]], "^messages sent")
            self.assertRegex(trace.tracks[received["tid"]], "^messages received")
            self.assertEqual({**sent["args"], "chunk": 0}, {**received["args"], "chunk": 0})
            args = sent["args"]
            where = place[start["pid"]]
            self.assertEqual(place[end["pid"]], where)
            forward = args["to_stage"] > args["from_stage"]
            self.assertEqual(start["name"], "activation" if forward else "gradient")
            producer = ran[args["step"], where, args["from_stage"], args["micro_batch"], forward]
            consumer = ran[args["step"], where, args["to_stage"], args["micro_batch"], forward]
            self.assertEqual((start["pid"], end["pid"]), (producer[0]["pid"], consumer[0]["pid"]))
            self.assertLessEqual(start["ts"], end["ts"] + CLOCKS, "a message arrives before it is sent")
            self.assertGreaterEqual(start["ts"], end_of(producer[1]) - EPSILON, "a message leaves before its producer is done")
            self.assertLessEqual(end["ts"], consumer[0]["ts"] + EPSILON, "its consumer starts before it arrives")
            found.add((args["step"], where, args["from_stage"], args["to_stage"], args["micro_batch"]))
        self.assertEqual(found, wanted)
        self.assertEqual(len(trace.arrows()), len(wanted))
        self.assertEqual(len(trace.on("messages sent")), len(wanted))
        self.assertEqual(len(trace.on("messages received")), len(wanted))

    def check_picture(self, picture, pp):
        root = xml.etree.ElementTree.fromstring(picture)
        space = {"svg": "http://www.w3.org/2000/svg"}
        texts = ["".join(each.itertext()) for each in root.iterfind(".//svg:text", space)]
        self.assertIn("as step 4 really ran", texts)
        self.assertTrue(any(text.startswith("ideal:") for text in texts))
        for rank in range(pp):
            self.assertEqual(texts.count(f"rank {rank}"), 2, texts)

    def test_tensor_and_pipeline_ranks(self):
        trace = self.check("zb-h1", 4, parallel__tp=2, parallel__pp=2)
        self.assertTrue(trace.on("tensor collectives"))

    def test_replicas_and_a_checkpoint_that_is_being_written(self):
        trace = self.check("1f1b", 4, parallel__pp=2, parallel__dp=2, checkpoint__every=2)
        sums = trace.on("gradient sums")
        self.assertEqual({one["pid"] for one in sums}, {0, 1, 2, 3})
        self.assertTrue(all(one["args"]["elements"] > 0 for one in sums))
        self.assertTrue(trace.on("checkpoint writer"))

    def test_several_stages_per_rank(self):
        self.check("interleaved", 2, chunks=2, parallel__pp=2, pipeline__chunks=2)

    def test_overlapped_pairs(self):
        self.check("dualpipe", 2, chunks=2, parallel__pp=2, pipeline__chunks=2, pipeline__layout=[2, 2])

    def test_one_rank_has_no_messages(self):
        trace = self.check("1f1b", 1)
        self.assertEqual(trace.arrows(), [])

    def test_a_window_that_is_never_reached_leaves_a_note(self):
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, train__steps=2, log__trace={"start": 20, "steps": 2}), 1)
            self.assertEqual(result.code, 0, result)
            self.assertIn("no trace was made: steps 20 to 21 are what log.trace asks for", result.output)
            self.assertFalse(os.path.exists(case.path("runs/case/trace.json")))
            with open(case.path("runs/case/pipeline.svg"), encoding="utf-8") as file:
                self.assertIn("as step 2 really ran", file.read())

    def test_a_window_that_the_run_leaves_early_is_written_as_far_as_it_came(self):
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, train__steps=3, log__trace={"start": 2, "steps": 9}), 1)
            self.assertEqual(result.code, 0, result)
            self.assertEqual({one["args"]["step"] for one in Trace(case.path("runs/case/trace.json")).slices}, {2, 3})

    def test_a_window_that_a_resume_enters_midway_is_written_when_it_is_over(self):
        spec = with_keys(N0, train__steps=3, log__trace={"start": 3, "steps": 2})
        with Case(BINARY) as case:
            self.assertEqual(case.run(spec, 1).code, 0)
            result = case.run(with_keys(spec, train__steps=6), 1, ["--resume", "auto"])
            self.assertEqual(result.code, 0, result)
            self.assertEqual({one["args"]["step"] for one in Trace(case.path("runs/case/trace.json")).slices}, {4})
            self.assertIn("1 steps up to 4", result.output)
            with open(case.path("runs/case/pipeline.svg"), encoding="utf-8") as file:
                self.assertIn("as step 4 really ran", file.read())

    def test_where_they_cannot_be_written_the_run_goes_on_without_them(self):
        spec = with_keys(N0, train__steps=2, log__trace={"start": 4, "steps": 1})
        with Case(BINARY) as case:
            self.assertEqual(case.run(spec, 1).code, 0)
            for name in ("trace.json", "pipeline.svg"):
                if os.path.exists(case.path(f"runs/case/{name}")):
                    os.remove(case.path(f"runs/case/{name}"))
                os.makedirs(case.path(f"runs/case/{name}/in the way"))
            result = case.run(with_keys(spec, train__steps=5), 1, ["--resume", "auto"])
            self.assertEqual(result.code, 0, result)
            for name in ("trace.json", "pipeline.svg"):
                self.assertRegex(result.output, rf"warning: runs/case/{name} cannot be written: ")
            self.assertEqual([step["step"] for step in result.steps], [1, 2, 3, 4, 5])
            self.assertEqual([name for name in os.listdir(case.path("runs/case")) if name.endswith(".part")], [])

    def test_off_by_default(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(N0, 1).code, 0)
            self.assertFalse(os.path.exists(case.path("runs/case/trace.json")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library")
    arguments, others = parser.parse_known_args()
    BINARY = os.path.abspath(arguments.binary)
    if arguments.library:
        os.environ.update(ESCALIER_CUDA_LIBRARY=os.path.abspath(arguments.library), ESCALIER_CUDA_DEVICES="8", ESCALIER_CUDA_SEED="1")
        DEVICE = {"run__device": "cuda"}
        CLOCKS = 100
    unittest.main(argv=[sys.argv[0], *others])
