#!/usr/bin/python3
"""escalier ckpt ls, info, check and diff, and generate --ckpt, on checkpoints that real runs saved.

  commands_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, ROOT, Case, environment, with_keys  # noqa: E402

BINARY = ""
DIFFERENT, USAGE, DATA_CORRUPT, INPUT_MISSING = 1, 2, 65, 66
LLAMA = with_keys(N0, model__arch="llama", model__num_kv_heads=2, model__ffn_size=72, model__tie_embeddings=True,
                  parallel__tp=2, parallel__pp=2, train__steps=6, checkpoint__every=2)


def read_tensors(path):
    """(header, data) of a safetensors file."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])


def write_tensors(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class CommandsTest(unittest.TestCase):
    """One run of six steps on 2x2 ranks, three checkpoints and its last weights in one file."""

    @classmethod
    def setUpClass(cls):
        cls.case = Case(BINARY)
        result = cls.case.run(LLAMA, 4, ["--save-weights", "w.safetensors"])
        if result.code != 0:
            raise AssertionError(result)
        cls.steps = result.steps

    @classmethod
    def tearDownClass(cls):
        cls.case.__exit__()

    def setUp(self):
        """A copy that a test may damage."""
        self.run_folder = self.case.path("copy")
        shutil.rmtree(self.run_folder, ignore_errors=True)
        shutil.copytree(self.case.path("runs/case"), self.run_folder)

    def step(self, number, *names):
        return os.path.join(self.run_folder, f"step_{number:08d}", *names)

    def escalier(self, *arguments, code=0, ranks=0):
        launcher = [os.path.join(ROOT, "scripts/mpirun"), "-n", str(ranks)] if ranks else []
        run = subprocess.run([*launcher, self.case.binary, *arguments], cwd=self.case.folder, capture_output=True, timeout=60,
                             check=False, env=environment())
        run.stdout, run.stderr = run.stdout.decode(), run.stderr.decode()
        self.assertEqual(run.returncode, code, run)
        return run

    def change(self, path, at, value):
        """Writes one byte; at counts from the end where negative."""
        with open(path, "r+b") as file:
            file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            file.write(bytes([value]))

    def edit_manifest(self, number, function):
        path = self.step(number, "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        function(manifest)
        manifest.pop("xxh3_128", None)  # or its hash of itself would be all that is said
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def trust_config(self, number):
        """The manifest then says nothing of config.yaml, so that what is in it can be judged."""
        def forget(manifest):
            manifest["files"] = [file for file in manifest["files"] if file["name"] != "config.yaml"]
        self.edit_manifest(number, forget)


class Listing(CommandsTest):
    def rows(self):
        lines = self.escalier("ckpt", "ls", "copy").stdout.splitlines()
        return [line.split() for line in lines[1:]], lines

    def test_a_row_for_each_checkpoint(self):
        rows, lines = self.rows()
        self.assertEqual(lines[0].split(), ["step", "loss", "samples", "tokens", "bytes", "saved", "grid"])
        losses = {step["step"]: step["loss"] for step in self.steps}
        for row, number in zip(rows, (2, 4, 6), strict=True):
            size = sum(os.path.getsize(self.step(number, name)) for name in os.listdir(self.step(number))
                       if name.endswith(".safetensors") or name == "config.yaml")
            self.assertEqual(row[:5], [str(number), f"{losses[number]:.6f}", str(8 * number), f"{128 * number:,}", f"{size:,}"])
            self.assertRegex(" ".join(row[5:7]), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
            self.assertEqual(row[7:], ["2x2x1", "latest"] if number == 6 else ["2x2x1"])

    def test_what_is_damaged_or_unfinished_is_named(self):
        os.remove(self.step(4, "weights-00001.safetensors"))
        os.makedirs(self.run_folder + "/step_00000008.tmp")
        os.makedirs(self.run_folder + "/.trash-step_00000001")
        with open(self.run_folder + "/latest", "w", encoding="utf-8") as file:
            file.write("step_00000099\n")
        rows, lines = self.rows()
        self.assertEqual(rows[0][-1], "2x2x1")
        self.assertIn("DAMAGED: copy/step_00000004/weights-00001.safetensors: is missing", lines[2])
        text = "\n".join(lines)
        for fact in ("unfinished: step_00000008.tmp", "being removed: .trash-step_00000001",
                     "latest names step_00000099, which is not there"):
            self.assertEqual(text.count(fact), 1, text)

    def test_a_latest_too_long_for_a_name(self):
        with open(self.run_folder + "/latest", "w", encoding="utf-8") as file:
            file.write("x" * 300)
        _, lines = self.rows()
        self.assertRegex("\n".join(lines), r"latest names x+.*, which is not there")

    def test_metrics_that_are_missing_or_cut_off(self):
        with open(self.run_folder + "/metrics.jsonl", "r+b") as file:
            content = file.read()
            file.seek(content.index(b'"step":4') if b'"step":4' in content else content.index(b'"step": 4'))
            file.truncate()
        rows, _ = self.rows()
        self.assertEqual([row[1] == "-" for row in rows], [False, True, True])
        os.remove(self.run_folder + "/metrics.jsonl")
        rows, _ = self.rows()
        self.assertEqual([row[1] for row in rows], ["-", "-", "-"])

    def test_folders_without_checkpoints(self):
        os.makedirs(self.case.path("empty"), exist_ok=True)
        self.assertIn("empty holds no checkpoint", self.escalier("ckpt", "ls", "empty").stdout)
        self.assertIn("gone is no folder", self.escalier("ckpt", "ls", "gone", code=INPUT_MISSING).stderr)

    def test_a_path_of_which_the_system_tells_nothing(self):
        os.symlink("loop", self.case.path("loop"))
        for command in (("ckpt", "ls"), ("ckpt", "check"), ("ckpt", "info"), ("generate", "--ckpt")):
            refused = self.escalier(*command, "loop", code=INPUT_MISSING).stderr
            self.assertRegex(refused, r"^escalier: loop\S*: Too many levels of symbolic links\n$")


class Facts(CommandsTest):
    def test_a_checkpoint(self):
        text = self.escalier("ckpt", "info", "copy").stdout
        for fact in (r"checkpoint  copy/step_00000006, named by copy/latest", r"step        6, after 6 updates",
                     r"consumed    48 samples, 768 tokens", r"grid        2x2x1 \(tensor x pipeline x data\), schedule 1f1b",
                     r"model       llama, 4 layers x 32 hidden x 4 heads on 2 key/value heads, ffn 72, vocabulary 64",
                     r"text        sequences of 16 tokens, tokenizer byte", r"optimizer   adamw, with both moments",
                     r"seed        1234", r"weights-00003\.safetensors  [\d,]+ bytes  xxh3_128 [0-9a-f]{32}"):
            self.assertEqual(len(re.findall(fact, text)), 1, f"{fact}: {text}")

    def test_json_holds_what_the_manifest_does(self):
        facts = json.loads(self.escalier("ckpt", "info", "copy/step_00000004", "--json", "--tensors").stdout)
        with open(self.step(4, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        for key in ("step", "updates", "consumed_samples", "consumed_tokens", "seed", "dataset_fingerprint", "schedule",
                    "optimizer", "tool_version", "grid", "files"):
            self.assertEqual(facts[key], manifest[key], key)
        self.assertEqual({t["name"]: t["shape"] for t in facts["tensors"]},
                         {name: t["shape"] for name, t in manifest["tensors"].items()})
        for tensor in facts["tensors"]:
            for kind in ("weight", "exp_avg", "exp_avg_sq"):
                self.assertEqual([piece["key"] for piece in tensor["pieces"][kind]],
                                 [piece["key"] for piece in manifest["tensors"][tensor["name"]][kind]])
        self.assertEqual(facts["weights"]["tensors"], len(manifest["tensors"]))

    def test_every_tensor_with_its_pieces(self):
        lines = self.escalier("ckpt", "info", "copy/step_00000004", "--tensors").stdout.splitlines()
        at = lines.index("model.layers.0.mlp.down_proj.weight  F32 [32,72]")
        self.assertEqual([line.split() for line in lines[at + 1 : at + 3]],
                         [["weight", f"weights-0000{rank}.safetensors", f"model.layers.0.mlp.down_proj.weight[0:32,{columns}]"]
                          for rank, columns in ((0, "0:36"), (1, "36:72"))])

    def test_a_weight_file_and_a_hugging_face_folder(self):
        text = self.escalier("ckpt", "info", "w.safetensors").stdout
        self.assertIn("model       llama, 4 layers", text)
        self.escalier("ckpt", "export-hf", "copy", "exported_info", "--dtype", "bf16")
        text = self.escalier("ckpt", "info", "exported_info", "--tensors").stdout
        self.assertRegex(text, r"weights in +exported_info\n")
        self.assertIn("model.norm.weight  BF16 [32]", text)

    def test_what_is_no_checkpoint(self):
        self.assertIn("gone is no folder", self.escalier("ckpt", "info", "gone", code=INPUT_MISSING).stderr)
        self.assertIn("job.yaml", self.escalier("ckpt", "info", "job.yaml", code=DATA_CORRUPT).stderr)


class Checks(CommandsTest):
    def refused(self, number, fact):
        """check ends with 65 and one message that has the fact, for the checkpoint and for its run; so does generate."""
        for path in (f"copy/step_{number:08d}", "copy"):
            run = self.escalier("ckpt", "check", path, code=DATA_CORRUPT)
            self.assertEqual(len(re.findall(fact, run.stderr)), 1, f"{fact}: {run}")
            self.assertEqual(run.stderr.count("\n"), 1, run)
            self.assertNotIn(f"copy/step_{number:08d}: whole", run.stdout)
        for other in {2, 4, 6} - {number}:
            self.assertIn(f"copy/step_{other:08d}: whole, ", run.stdout)

    def test_whole_checkpoints(self):
        run = self.escalier("ckpt", "check", "copy")
        self.assertEqual(len(re.findall(r"^copy/step_0000000[246]: whole, ", run.stdout, re.M)), 3, run)
        self.assertIn("copy/latest: names step_00000006", run.stdout)
        self.assertIn("whole, ", self.escalier("ckpt", "check", "copy/step_00000002/").stdout)

    def test_a_file_that_is_missing_cut_off_or_too_long(self):
        path = self.step(4, "optim-00002.safetensors")
        size = os.path.getsize(path)
        os.truncate(path, size - 1)
        self.refused(4, rf"optim-00002\.safetensors: has {size - 1} bytes, but {size}")
        os.truncate(path, size + 1)
        self.refused(4, rf"optim-00002\.safetensors: has {size + 1} bytes, but {size}")
        os.remove(path)
        self.refused(4, r"optim-00002\.safetensors: is missing")

    def test_a_bit_that_flipped(self):
        for name, at in (("weights-00001.safetensors", -5), ("weights-00001.safetensors", 20), ("optim-00003.safetensors", -1)):
            self.setUp()
            self.change(self.step(2, name), at, 0x5A)
            self.refused(2, rf"step_00000002/{name}: its hash \(XXH3_128\) is [0-9a-f]{{32}}, but")

    def test_a_number_that_is_not_finite_though_the_hash_is_right(self):
        path = self.step(6, "weights-00000.safetensors")
        header, data = read_tensors(path)
        begin = header["model.layers.0.self_attn.v_proj.weight[0:8,0:32]"]["data_offsets"][0]
        data[begin + 4 * 33 : begin + 4 * 34] = struct.pack("<f", float("nan"))
        with open(path, "rb") as file:
            start = file.read()[: os.path.getsize(path) - len(data)]
        with open(path, "wb") as file:
            file.write(start + data)
        message = self.escalier("ckpt", "check", "copy/step_00000006", code=DATA_CORRUPT).stderr
        found = re.search(r"is ([0-9a-f]{32}), but ([0-9a-f]{32})", message)

        def mend(manifest):
            (entry,) = [entry for entry in manifest["files"] if entry["xxh3_128"] == found[2]]
            entry["xxh3_128"] = found[1]

        self.edit_manifest(6, mend)
        self.refused(6, r"step_00000006: tensor 'model\.layers\.0\.self_attn\.v_proj\.weight' has -?nan at \[1, 1\]")

    def test_manifests_that_cannot_be_right(self):
        changes = {r"version is 2": lambda m: m.update(version=2),
                   r"model\.norm\.weight": lambda m: m["tensors"]["model.norm.weight"]["weight"].clear(),
                   r"'step_00000006/weights|plain file name": lambda m: m["files"][0].update(name="../weights.safetensors")}
        for fact, change in changes.items():
            self.setUp()
            self.edit_manifest(6, change)
            self.refused(6, fact)
        for size in (0, 1, 500):
            self.setUp()
            os.truncate(self.step(2, "manifest.json"), size)
            self.refused(2, r"step_00000002/manifest\.json")
        self.setUp()
        os.remove(self.step(2, "manifest.json"))
        self.refused(2, r"step_00000002/manifest\.json: is not there")

    def test_a_number_of_the_manifest_that_is_another(self):
        path = self.step(6, "manifest.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r'("consumed_samples": \d*)(\d)', lambda m: m[1] + str((int(m[2]) + 1) % 10), text))
        self.refused(6, r"step_00000006/manifest\.json: its content has the hash [0-9a-f]{32}, but xxh3_128 in it is [0-9a-f]{32}")

    def test_a_folder_with_the_name_of_another_step(self):
        shutil.copytree(self.step(6), self.step(7))
        self.refused(7, r"step_00000007: its manifest is of step 6")

    def test_a_tensor_that_is_nowhere(self):
        def forget(manifest):
            del manifest["tensors"]["model.norm.weight"]
        self.edit_manifest(6, forget)
        self.refused(6, r"tensor 'model\.norm\.weight'.* is missing|safetensors: holds \d+ tensors, but the manifest names")

    def test_a_config_that_is_missing_or_of_another_model(self):
        path = self.step(2, "config.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        os.remove(path)
        self.refused(2, r"config\.yaml: is missing")
        self.trust_config(2)
        for config, fact in ((text.replace("num_layers: 4", "num_layers: 5"), r"model\.layers\.4\..*is missing"),
                             (text.replace("ffn_size: 72", "ffn_size: 64"), r"F32 \[.*72.*\], but *\[.*64.*\]"),
                             ("model: [", r"config\.yaml describes no model")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(config)
            self.refused(2, fact)
        os.remove(path)
        self.refused(2, r"config\.yaml: cannot be read")

    def test_a_config_that_was_edited(self):
        with open(self.step(2, "config.yaml"), "r+", encoding="utf-8") as file:
            text = file.read()
            file.seek(0)
            file.write(text.replace("norm_eps: 1.0e-05", "norm_eps: 1.0e-03"))
        self.refused(2, r"config\.yaml: its hash .*by the manifest")

    def test_a_latest_that_names_nothing(self):
        with open(self.run_folder + "/latest", "w", encoding="utf-8") as file:
            file.write("step_00000005\n")
        run = self.escalier("ckpt", "check", "copy", code=DATA_CORRUPT)
        self.assertEqual(run.stderr.count("names 'step_00000005', which is not there"), 1, run)

    def test_several_faults_are_all_listed(self):
        os.remove(self.step(2, "config.yaml"))
        os.remove(self.step(4, "manifest.json"))
        run = self.escalier("ckpt", "check", "copy", code=DATA_CORRUPT)
        self.assertEqual(run.stdout.count("DAMAGED"), 2, run)
        self.assertRegex(run.stderr, r"2 faults in copy; the first: copy/step_00000002/config\.yaml")

    def test_what_is_not_there(self):
        for path in ("gone", "copy/step_00000007"):
            self.assertIn(path, self.escalier("ckpt", "check", path, code=INPUT_MISSING).stderr)
        os.makedirs(self.case.path("empty"), exist_ok=True)
        self.assertIn("empty holds no checkpoint", self.escalier("ckpt", "check", "empty", code=INPUT_MISSING).stderr)


class Differences(CommandsTest):
    def last_line(self, run):
        return run.stdout.splitlines()[-1]

    def test_a_checkpoint_is_itself_and_its_weight_file(self):
        self.assertEqual(self.last_line(self.escalier("ckpt", "diff", "copy", "runs/case/step_00000006")), "114 tensors equal, 0 differ")
        self.assertEqual(self.last_line(self.escalier("ckpt", "diff", "copy", "w.safetensors")), "38 tensors equal, 0 differ")

    def test_an_exported_folder(self):
        self.escalier("ckpt", "export-hf", "copy", "exported")
        self.assertEqual(self.last_line(self.escalier("ckpt", "diff", "exported", "copy")), "38 tensors equal, 0 differ")
        self.escalier("ckpt", "export-hf", "copy", "exported16", "--dtype", "bf16")
        run = self.escalier("ckpt", "diff", "copy", "exported16", code=DIFFERENT)
        relative = [float(line.split()[2]) for line in run.stdout.splitlines()[3:] if line.startswith("model.")]
        self.assertTrue(relative and max(relative) < 2**-8, run)

    def test_two_steps_differ_everywhere_and_in_their_moments(self):
        run = self.escalier("ckpt", "diff", "copy/step_00000004", "copy", "--limit", "0", code=DIFFERENT)
        self.assertEqual(self.last_line(run), "0 tensors equal, 114 differ")
        rows = [line.split() for line in run.stdout.splitlines()[3:-1]]
        self.assertEqual(len(rows), 114)
        self.assertEqual(len([row for row in rows if row[0].endswith((".exp_avg", ".exp_avg_sq"))]), 76)
        sizes = [float(row[1]) for row in rows]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        run = self.escalier("ckpt", "diff", "copy/step_00000004", "copy", "--limit", "3", code=DIFFERENT)
        self.assertEqual([line.split()[0] for line in run.stdout.splitlines()[3:6]], [row[0] for row in rows[:3]])
        self.assertIn("... and 111 more", run.stdout)

    def test_one_changed_number_is_found(self):
        header, data = read_tensors(self.case.path("w.safetensors"))
        place = header["model.layers.2.mlp.up_proj.weight"]["data_offsets"][0] + 4 * (32 * 70 + 5)
        (old,) = struct.unpack("<f", data[place : place + 4])
        data[place : place + 4] = struct.pack("<f", old + 0.5)
        write_tensors(self.case.path("changed.safetensors"), header, data)
        run = self.escalier("ckpt", "diff", "copy", "changed.safetensors", code=DIFFERENT)
        row = run.stdout.splitlines()[3].split()
        self.assertEqual(row[0], "model.layers.2.mlp.up_proj.weight")
        self.assertAlmostEqual(float(row[1]), 0.5, places=3)
        self.assertEqual(row[3:7], ["1", "2,304", "[70,", "5]"])
        self.assertAlmostEqual(float(row[7]), old, places=6)
        self.assertEqual(self.last_line(run), "37 tensors equal, 1 differ")

    def test_tensors_of_one_side_and_other_shapes(self):
        header, data = read_tensors(self.case.path("w.safetensors"))
        renamed, reshaped = dict(header), dict(header)
        renamed["other"] = renamed.pop("model.norm.weight")
        write_tensors(self.case.path("renamed.safetensors"), renamed, data)
        run = self.escalier("ckpt", "diff", "w.safetensors", "renamed.safetensors", code=DIFFERENT)
        self.assertIn("model.norm.weight F32 [32] is only in A\n", run.stdout)
        self.assertIn("other F32 [32] is only in B\n", run.stdout)
        self.assertEqual(self.last_line(run), "37 tensors equal, 2 differ")
        reshaped["model.norm.weight"] = {**header["model.norm.weight"], "shape": [4, 8]}
        write_tensors(self.case.path("reshaped.safetensors"), reshaped, data)
        run = self.escalier("ckpt", "diff", "w.safetensors", "reshaped.safetensors", code=DIFFERENT)
        self.assertIn("model.norm.weight is F32 [32] in A, F32 [4, 8] in B\n", run.stdout)

    def test_moments_that_only_one_has(self):
        self.escalier("ckpt", "export-hf", "copy", "exported_again")
        self.escalier("ckpt", "import-hf", "exported_again", "imported")
        run = self.escalier("ckpt", "diff", "imported", "copy", code=DIFFERENT)
        self.assertIn("exp_avg of all tensors is only in B\n", run.stdout)
        self.assertEqual(self.last_line(run), "38 tensors equal, 2 differ")

    def test_what_is_damaged_is_not_compared(self):
        self.change(self.step(6, "optim-00001.safetensors"), -3, 0x77)
        run = self.escalier("ckpt", "diff", "copy/step_00000004", "copy", code=DATA_CORRUPT)
        self.assertEqual(run.stderr.count("step_00000006/optim-00001.safetensors: its hash"), 1, run)

    def test_what_is_not_there(self):
        self.assertIn("gone", self.escalier("ckpt", "diff", "copy", "gone", code=INPUT_MISSING).stderr)


class Texts(CommandsTest):
    def text(self, *arguments, ranks=0, code=0):
        return self.escalier("generate", "--prompt-ids", "5,17,3", "--tokens", "40", *arguments, ranks=ranks, code=code)

    def test_the_same_text_on_every_grid(self):
        for draw in (["--greedy"], ["--seed", "5"], ["--top-p", "0.7", "--temperature", "2"], ["--top-k", "9", "--seed", "8"]):
            single = self.text("--ckpt", "copy", *draw).stdout
            self.assertEqual(single.count(","), 42)
            self.assertEqual(self.text("--weights", "w.safetensors", *draw).stdout, single)
            for tp, pp in ((2, 1), (1, 2), (2, 2), (4, 1)):
                run = self.text("--ckpt", "copy", "--tp", str(tp), "--pp", str(pp), *draw, ranks=tp * pp)
                self.assertEqual(run.stdout, single, f"{tp}x{pp}")

    def test_an_older_step_and_an_imported_model(self):
        newest = self.text("--ckpt", "copy", "--greedy").stdout
        self.assertNotEqual(self.text("--ckpt", "copy/step_00000002", "--seed", "1").stdout,
                            self.text("--ckpt", "copy", "--seed", "1").stdout)
        self.escalier("ckpt", "export-hf", "copy", "text_export")
        self.escalier("ckpt", "import-hf", "text_export", "text_import")
        self.assertEqual(self.text("--ckpt", "text_import", "--greedy").stdout, newest)

    def test_what_is_not_seen_of_a_text_is_said(self):
        """Trained with sequences of 16, no positions said."""
        prompt = ",".join(str(token % 64) for token in range(21))
        def greedy(count, *arguments, weights="copy", code=0):
            return self.escalier("generate", "--ckpt", weights, "--prompt-ids", prompt, "--tokens", str(count), "--greedy",
                                 *arguments, code=code)
        run = greedy(1)
        self.assertEqual(run.stderr.count("the prompt of 21 tokens is longer than the context of 16 tokens, and only the last 16 "
                                          "are seen; --context N sees more"), 1, run)
        self.assertEqual(run.stdout, greedy(1, "--context", "16").stdout)
        whole = greedy(12, "--context", "32")
        self.assertNotIn("are seen", whole.stderr)
        run = greedy(13, "--context", "32")
        self.assertEqual(run.stderr.count("the text grew to 34 tokens, beyond the context of 32 tokens"), 1, run)
        self.assertTrue(run.stdout.startswith(whole.stdout.strip()), (run, whole))
        self.assertEqual(greedy(12, "--context", "1000000").stdout, whole.stdout)

        # What an import says of its positions holds for it, and for what is trained on it.
        self.escalier("ckpt", "export-hf", "copy", "seen_export")
        config = self.case.path("seen_export/config.json")
        with open(config, encoding="utf-8") as file:
            facts = json.load(file)
        self.assertEqual(facts["max_position_embeddings"], 16)
        facts["max_position_embeddings"] = 24
        with open(config, "w", encoding="utf-8") as file:
            json.dump(facts, file)
        self.escalier("ckpt", "import-hf", "seen_export", "seen_import")
        with open(self.case.path("seen_import/model.yaml"), encoding="utf-8") as file:
            self.assertIn("max_positions: 24\n", file.read())
        run = greedy(12, weights="seen_import")
        self.assertEqual(run.stderr.count("beyond the context of 24 tokens, and only the last 24 are seen, which are all the "
                                          "positions of the model"), 1, run)
        self.assertNotIn("are seen", greedy(4, weights="seen_import").stderr)
        run = greedy(1, "--context", "25", weights="seen_import", code=USAGE)
        self.assertEqual(run.stderr.count("--context: found 25, but seen_import/step_00000000 is of a model with 24 positions"), 1)

    def test_a_table_of_positions_is_seen_as_far_as_it_was_trained(self):
        result = self.case.run(with_keys(N0, model__max_positions=32, train__steps=1, run__name="rows"), 0)
        self.assertEqual(result.code, 0, result)
        line = ["generate", "--ckpt", "runs/rows", "--prompt-ids", "5,17,3", "--tokens", "20", "--greedy"]
        run = self.escalier(*line)
        self.assertEqual(run.stderr.count("beyond the context of 16 tokens, and only the last 16 are seen; --context N sees up to 32"),
                         1, run)
        self.assertNotIn("are seen", self.escalier(*line, "--context", "32").stderr)

    def test_moments_are_not_looked_at(self):
        text = self.text("--ckpt", "copy", "--greedy").stdout
        self.change(self.step(6, "optim-00001.safetensors"), -3, 0x77)
        self.assertEqual(self.text("--ckpt", "copy", "--greedy").stdout, text)
        self.escalier("ckpt", "export-hf", "copy", "moments_export")

    def test_the_newest_whole_one_is_taken_and_named(self):
        run = self.text("--ckpt", "copy", "--seed", "1")
        self.assertIn("note: copy/step_00000006, named by copy/latest", run.stderr)
        os.remove(self.step(6, "weights-00000.safetensors"))
        older = self.text("--ckpt", "copy", "--seed", "1")
        self.assertIn("note: copy/step_00000004", older.stderr)
        self.assertEqual(older.stdout, self.text("--ckpt", "copy/step_00000004", "--seed", "1").stdout)

    def test_checkpoints_that_are_damaged_or_not_there(self):
        run = self.text("--ckpt", "gone", "--tp", "2", ranks=2, code=INPUT_MISSING)
        self.assertEqual(run.stderr.count("gone is no folder"), 1, run)
        os.makedirs(self.case.path("empty"), exist_ok=True)
        self.assertIn("empty holds no whole checkpoint", self.text("--ckpt", "empty", code=INPUT_MISSING).stderr)
        self.change(self.step(6, "weights-00001.safetensors"), -3, 0x77)
        run = self.text("--ckpt", "copy", "--tp", "2", "--pp", "2", ranks=4, code=DATA_CORRUPT)
        self.assertEqual(run.stderr.count("weights-00001.safetensors: its hash"), 1, run)

    def test_a_tokenizer_that_is_gone(self):
        config = self.step(6, "config.yaml")
        with open(config, encoding="utf-8") as file:
            text = file.read()
        with open(config, "w", encoding="utf-8") as file:
            file.write(text.replace("tokenizer: byte", "tokenizer: sp:/gone/tokenizer.model"))
        self.trust_config(6)
        run = self.escalier("generate", "--ckpt", "copy/step_00000006", "--pp", "2", ranks=2, code=INPUT_MISSING)
        for fact in ("/gone/tokenizer.model", "tokenizer of copy/step_00000006", "--tokenizer names another one"):
            self.assertEqual(run.stderr.count(fact), 1, run)
        self.text("--ckpt", "copy/step_00000006")  # ids need none


if __name__ == "__main__":
    if "--binary" in sys.argv:
        at = sys.argv.index("--binary")
        BINARY = os.path.abspath(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    unittest.main()
