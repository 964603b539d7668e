#!/usr/bin/python3
"""`escalier ckpt import-hf` and `export-hf` as a user calls them: a model comes in, is trained on and goes out again; what
is refused ends with one message and its exit code.

  hugging_face_test.py --binary ESCALIER
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "harness"))
from escalier_job import N0, Case, environment, with_keys  # noqa: E402

GOLDEN = os.path.join(ROOT, "tests", "golden", "hf")
USAGE, DATA, MISSING, WRITE = 2, 65, 66, 74
BINARY = None


class HuggingFace(unittest.TestCase):
    def setUp(self):
        self.case = Case(BINARY)
        self.addCleanup(self.case.__exit__)

    def path(self, name):
        return self.case.path(name)

    def ckpt(self, *arguments):
        return subprocess.run([self.case.binary, "ckpt", *arguments], cwd=self.case.folder, capture_output=True, text=True,
                              env=environment(), check=False, timeout=60)

    def done(self, *arguments):
        result = self.ckpt(*arguments)
        self.assertEqual(result.returncode, 0, result)
        return result.stdout

    def refused(self, code, text, *arguments):
        result = self.ckpt(*arguments)
        self.assertEqual(result.returncode, code, result)
        self.assertRegex(result.stderr, text)

    def fixture(self, name, **changes):
        """A copy of a fixture as `hf`, with changes to its config.json."""
        shutil.rmtree(self.path("hf"), ignore_errors=True)
        shutil.copytree(os.path.join(GOLDEN, name), self.path("hf"))
        with open(self.path("hf/config.json"), encoding="utf-8") as file:
            config = {**json.load(file), **changes}
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)

    def job(self, **sections):
        with open(self.path("imported/model.yaml"), encoding="utf-8") as file:
            text = "version: 1\n" + file.read()
        sections = {"run": "{name: case, device: cpu, threads: 1}", "lr": "{peak: 0.0, schedule: constant}",
                    "train": "{seq_len: 16, micro_batch: 1, global_batch: 4, steps: 2}",
                    "data": '{train: [{path: hf/tokens.bin}], format: raw16, split: "1,0,0"}', **sections}
        return text + "".join(f"{name}: {value}\n" for name, value in sections.items())

    def test_an_imported_model_is_trained_and_goes_out_again(self):
        self.fixture("llama3")
        with open(self.path("hf/tokenizer.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        os.symlink("loop", self.path("hf/loop"))  # no file of the model
        output = self.done("import-hf", "hf", "imported")
        self.assertIn("22,784 parameters", output)
        self.assertIn("train JOB.yaml --resume imported", output)
        with open(self.path("hf/expected.json"), encoding="utf-8") as file:
            want = sum(json.load(file)["losses"]) / 4
        for number, (ranks, grid) in enumerate([(1, "{tp: 1, pp: 1, dp: 1}"), (2, "{tp: 2, pp: 1, dp: 1}"),
                                                (2, "{tp: 1, pp: 2, dp: 1}"), (2, "{tp: 1, pp: 1, dp: 2}")]):
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            result = self.case.run(self.job(parallel=grid), ranks, ["--resume", "imported"])
            self.assertEqual(result.code, 0, result)
            for step in result.steps:
                self.assertLess(abs(step["loss"] - want), 1e-5 * want, f"{grid}: {step}")
            # Rate 0: the weights are those that came in, whatever the grid that saved them.
            self.done("export-hf", "runs/case", f"out{number}", "--dtype", "bf16", "--max-shard-size", "12000")
            self.assertEqual(sorted(os.listdir(self.path(f"out{number}"))),
                             sorted({"config.json", "generation_config.json", "tokenizer.json", "model.safetensors.index.json",
                                     *[f"model-0000{i}-of-00005.safetensors" for i in range(1, 6)]}))
            self.done("import-hf", f"out{number}", f"again{number}")
            with open(self.path(f"again{number}/step_00000000/weights-00000.safetensors"), "rb") as file:
                again = file.read()
            with open(self.path("imported/step_00000000/weights-00000.safetensors"), "rb") as file:
                self.assertEqual(file.read(), again, grid)

    def test_a_gpt2_goes_out_of_any_grid_as_it_came_in(self):
        """Query, key and value in one transposed tensor, which tensor ranks share by heads."""
        self.fixture("gpt2")
        self.done("import-hf", "hf", "imported")
        for number, grid in enumerate(("{tp: 2, pp: 1, dp: 1}", "{tp: 1, pp: 2, dp: 1}")):
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            result = self.case.run(self.job(parallel=grid), 2, ["--resume", "imported"])
            self.assertEqual(result.code, 0, result)
            self.done("export-hf", "runs/case", f"out{number}")
            self.assertIn("28 tensors equal, 0 differ", self.done("diff", "hf", f"out{number}"))

    def test_refused_imports(self):
        self.fixture("llama", rope_scaling={"rope_type": "yarn", "factor": 4.0})
        self.refused(DATA, r"hf/config\.json: 'rope_scaling\.rope_type' is \"yarn\"", "import-hf", "hf", "imported")
        self.fixture("llama", attention_bias=True)
        self.refused(DATA, r"'attention_bias' is true", "import-hf", "hf", "imported")
        self.fixture("llama", new_trick=3)
        self.refused(DATA, r"'new_trick' is 3; .*--ignore-key new_trick", "import-hf", "hf", "imported")
        self.assertFalse(os.path.exists(self.path("imported")))
        self.done("import-hf", "hf", "imported", "--ignore-key", "new_trick")
        for command in (["info", "hf"], ["diff", "hf", "imported"], ["diff", "imported", "hf"]):
            self.refused(DATA, r"'new_trick' is 3; .*--ignore-key new_trick", *command)
            self.done(*command, "--ignore-key", "new_trick")
        self.refused(USAGE, r"--ignore-key new_trick: imported is no Hugging Face folder", "info", "imported",
                     "--ignore-key", "new_trick")
        self.refused(USAGE, r"imported is there and not empty", "import-hf", "hf", "imported", "--ignore-key", "new_trick")
        self.refused(MISSING, r"nowhere is no folder", "import-hf", "nowhere", "other")
        self.fixture("llama")
        os.remove(self.path("hf/model-00002-of-00003.safetensors"))
        self.refused(MISSING, r"model-00002-of-00003\.safetensors, which .* is missing", "import-hf", "hf", "other")
        self.fixture("gpt2")
        with open(self.path("hf/model.safetensors"), "w", encoding="utf-8") as file:
            file.write("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 548105171\n")
        self.refused(DATA, r"Git LFS pointer", "import-hf", "hf", "other")
        self.fixture("gpt2")
        self.refused(WRITE, r"cannot be made", "import-hf", "hf", "hf/config.json/run")

    def test_weights_that_are_not_finite_are_not_imported(self):
        self.fixture("llama")
        shard = self.path("hf/model-00001-of-00003.safetensors")
        with open(shard, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", float("nan")))
        self.refused(DATA, r"hf: tensor '[a-z0-9_.]+' has -?nan at \[\d+(, \d+)?\]", "import-hf", "hf", "imported")
        self.assertFalse(os.path.exists(self.path("imported")))
        os.makedirs(self.path("imported"))
        self.refused(DATA, r"has -?nan at", "import-hf", "hf", "imported")
        self.assertEqual(os.listdir(self.path("imported")), [])

    def test_a_sentencepiece_model_is_prompted_in_its_words(self):
        model = dict(model__arch="llama", model__ffn_size=72, model__num_kv_heads=2, model__vocab_size=384)
        self.assertEqual(self.case.run(with_keys(N0, **model, train__steps=1), 1).code, 0)
        self.done("export-hf", "runs/case", "hf")
        shutil.copy(os.path.join(ROOT, "tests/golden/data/tiny_sentencepiece.model"), self.path("hf/tokenizer.model"))
        with open(self.path("hf/config.json"), encoding="utf-8") as file:
            config = {**json.load(file), "bos_token_id": 1}
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(self.path("hf/tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"add_bos_token": True}, file)
        self.done("import-hf", "hf", "imported")
        result = self.case.run(with_keys(N0, **model, run__name="on", train__steps=1), 1, ["--resume", "imported"])
        self.assertEqual(result.code, 0, result)
        os.makedirs(self.path("elsewhere"))
        for folder, run in (("imported", "moved"), ("runs/on", "on")):
            shutil.move(self.path(folder), self.path("elsewhere/" + run))
            text = subprocess.run([self.case.binary, "generate", "--ckpt", run, "--prompt", "The last stage", "--tokens", "5",
                                   "--greedy"], cwd=self.path("elsewhere"), capture_output=True, text=True, env=environment(),
                                  check=False, timeout=60)
            self.assertEqual(text.returncode, 0, text)
            self.assertTrue(text.stdout.startswith("The last stage"), text)
            self.assertIn("the tokenizer has 340 of the model's 384 ids", text.stderr)

    def test_refused_exports(self):
        self.fixture("gpt2")
        self.done("import-hf", "hf", "imported")
        self.refused(USAGE, r"fp64", "export-hf", "imported", "out", "--dtype", "fp64")
        self.refused(USAGE, r"found 0, wanted a whole number", "export-hf", "imported", "out", "--max-shard-size", "0")
        self.refused(USAGE, r"hf is there and not empty", "export-hf", "imported", "hf")
        self.refused(MISSING, r"nowhere", "export-hf", "nowhere", "out")
        self.refused(WRITE, r"cannot be made", "export-hf", "imported", "hf/config.json/out")
        self.assertFalse([name for name in os.listdir(self.case.folder) if re.match("out", name)])

    def test_a_checkpoint_that_changed_is_not_exported(self):
        self.fixture("gpt2")
        with open(self.path("hf/tokenizer.json"), "w", encoding="utf-8") as file:
            file.write('{"version": "1.0"}')
        self.done("import-hf", "hf", "imported")
        for name, old, new in (("weights-00000.safetensors", None, None),
                               ("config.yaml", b"norm_eps: 1.0e-05", b"norm_eps: 1.0e-03"),
                               ("hf/config.json", b'"eos_token_id": ', b'"eos_token_ie": '),
                               ("hf/tokenizer.json", b"1.0", b"1.1")):
            shutil.rmtree(self.path("damaged"), ignore_errors=True)
            shutil.copytree(self.path("imported"), self.path("damaged"))
            with open(self.path("damaged/step_00000000/" + name), "r+b") as stream:
                content = stream.read()
                stream.seek(0)
                stream.write(content.replace(old, new) if old else content[:-1] + bytes([content[-1] ^ 1]))
                self.assertTrue(old is None or old in content, content)
            self.refused(DATA, re.escape(name) + r": its hash", "export-hf", "damaged", "out")
        self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    known, rest = parser.parse_known_args()
    BINARY = known.binary
    unittest.main(argv=[sys.argv[0], *rest])
