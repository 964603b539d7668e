#!/usr/bin/python3
"""Checkpoints of the CUDA backend, emulated: bf16 runs go on to the bit, on other grids and on the other backend too.

  cuda_resume_test.py --binary build/release/bin/escalier --library libescalier_cuda_emulated.so [unittest arguments]
"""
import array
import json
import os
import struct
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "harness"), os.path.join(HERE, "..", "multirank", "resume")]
from escalier_job import N0, Case, with_keys  # noqa: E402
from resumed_job import run_resumed, run_straight, step_folder  # noqa: E402

BINARY = ""
MODELS = {
    "gpt2-tied-dropout": {**N0["model"], "hidden_size": 64, "num_heads": 1, "ffn_size": 64, "tie_embeddings": True, "dropout": 0.1},
    "llama-grouped": {"arch": "llama", "num_layers": 4, "hidden_size": 48, "num_heads": 4, "num_kv_heads": 2, "ffn_size": 40,
                      "vocab_size": 61, "tie_embeddings": False, "qk_norm": True, "qkv_bias": True},
}
BF16 = {"loss": 4e-3, "grad_norm": 4e-2}


def job(model, grid, **changes):
    tp, pp, dp = grid
    return with_keys({**N0, "model": MODELS[model]}, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp, train__steps=4,
                     train__global_batch=4, optimizer__weight_decay=0.1, optimizer__clip_grad=1.0, lr__warmup_steps=2, **changes)


def on_cuda(spec, transport="nccl", graphs=True, dtype="bf16"):
    return with_keys(spec, run__device="cuda", run__comm=transport, run__share_gpu=transport == "staged", run__cuda_graphs=graphs,
                     train__dtype=dtype)


def tensors(path):
    """{name: array of float} of a file with F32 tensors only."""
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack_from("<Q", raw)[0]
    return {name: array.array("f", raw[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in json.loads(raw[8:8 + length]).items() if name != "__metadata__"}


class Resume(unittest.TestCase):
    def setUp(self):
        self.case = Case(BINARY)
        self.addCleanup(self.case.__exit__)

    def straight(self, spec):
        straight = run_straight(self.case, spec)
        self.assertEqual(straight.fault, "")
        return straight

    def assert_goes_on(self, straight, spec, tolerances=None, name="resumed"):
        resumed = run_resumed(self.case, spec, 2, name)
        self.assertEqual(resumed.fault or resumed.differs(straight, 3, tolerances), "")

    def test_to_the_bit_on_one_grid(self):
        for index, spec in enumerate((on_cuda(job("gpt2-tied-dropout", (1, 1, 1))),
                                      on_cuda(job("llama-grouped", (2, 1, 1)), graphs=False),
                                      on_cuda(job("llama-grouped", (1, 1, 2)), "staged", dtype="fp32"),
                                      on_cuda(job("gpt2-tied-dropout", (1, 2, 1), checkpoint__async=False)))):
            with self.subTest(spec["parallel"]):
                name = f"straight{index}"
                straight = run_straight(self.case, spec, name)
                self.assertEqual(straight.fault, "")
                resumed = run_resumed(self.case, spec, 2, f"resumed{index}", source=name)
                self.assertEqual(resumed.fault or resumed.differs(straight, 3), "")

    def test_to_the_bit_on_other_stages(self):
        straight = self.straight(on_cuda(job("llama-grouped", (1, 1, 1))))
        self.assert_goes_on(straight, on_cuda(job("llama-grouped", (1, 2, 1), pipeline__schedule="zbv"), "staged", graphs=False))

    def test_masters_are_kept_in_fp32(self):
        spec = on_cuda(job("gpt2-tied-dropout", (1, 1, 1)))
        self.straight(spec)
        weights = tensors(self.case.path(step_folder("straight", 4) + "/weights-00000.safetensors"))
        words = array.array("I", b"".join(values.tobytes() for values in weights.values()))
        finer = sum(word & 0xffff != 0 for word in words)
        self.assertGreater(finer, 0.9 * len(words), "most of the weights are no more than bf16 holds")

    def test_from_the_cpu_and_back(self):
        spec = job("gpt2-tied-dropout", (1, 1, 1))
        straight = self.straight(spec)
        self.assert_goes_on(straight, on_cuda(spec), BF16)
        self.assert_goes_on(straight, on_cuda(spec, dtype="fp32"), {"loss": 1e-5, "grad_norm": 1e-4}, "fp32")
        back = run_straight(self.case, on_cuda(spec), "cuda")
        self.assertEqual(back.fault, "")
        resumed = run_resumed(self.case, spec, 2, "back", source="cuda")
        self.assertEqual(resumed.fault or resumed.differs(back, 3, BF16), "")

    def test_small_updates_move_the_masters(self):
        # 1 - 1e-4 is 1 in bf16: gains that were kept in it would never move.
        spec = with_keys(N0, model__num_layers=1, train__steps=100, train__global_batch=2, lr__peak=1e-4)
        self.case.run(with_keys(spec, run__name="initial", run__max_minutes=1e-6), 0)
        initial = tensors(self.case.path(step_folder("initial", 0) + "/weights-00000.safetensors"))
        moved = {}
        for name, each in (("cpu", spec), ("cuda", on_cuda(spec))):
            result = self.case.run(with_keys(each, run__name=name), 1)
            self.assertEqual(result.code, 0, result)
            weights = tensors(self.case.path(step_folder(name, 100) + "/weights-00000.safetensors"))
            gains = [value for tensor, values in weights.items() if ".ln_" in tensor and tensor.endswith(".weight")
                     for value in values]
            self.assertEqual(len(gains), 3 * 32)
            self.assertGreater(sum(value != 1.0 for value in gains), 0.95 * len(gains), name)
            changes = [abs(value - old) for tensor in weights for value, old in zip(weights[tensor], initial[tensor])]
            moved[name] = sum(changes) / len(changes)
        self.assertLess(abs(moved["cuda"] / moved["cpu"] - 1), 0.05, moved)


def main():
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) < 4 or arguments[0] != "--binary" or arguments[2] != "--library":
        sys.exit(__doc__)
    BINARY = os.path.abspath(arguments[1])
    os.environ["ESCALIER_CUDA_LIBRARY"] = os.path.abspath(arguments[3])
    os.environ["ESCALIER_CUDA_DEVICES"] = "2"
    unittest.main(argv=[sys.argv[0], *arguments[4:]])


if __name__ == "__main__":
    main()
