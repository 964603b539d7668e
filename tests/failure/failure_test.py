#!/usr/bin/python3
"""Every failure that a user can cause: exit code, one message with the facts in it, time to end, nothing left alive.

  failure_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from escalier_job import N0, ROOT, Case, d0_tokens, environment, with_keys, write_tokens, yaml  # noqa: E402

BINARY = ""
FAILED, USAGE, DATA_CORRUPT, INPUT_MISSING, DEVICE, WRITE_FAILED = 1, 2, 65, 66, 69, 74
KILLED = 128 + signal.SIGKILL
REFUSAL_SECONDS = 10  # design: ranks are gone within 10 s of a refusal or a death
TWO_STAGES = with_keys(N0, parallel__pp=2)
LONG = with_keys(N0, train__steps=1000000, train__global_batch=4)


class FailureTest(unittest.TestCase):
    def check(self, result, codes, *facts, seconds=REFUSAL_SECONDS):
        """The job ended with one of the codes, in time if it failed, and nothing alive; each fact (a pattern) was printed once."""
        self.assertFalse(result.timed_out, result)
        self.assertIn(result.code, codes if isinstance(codes, tuple) else (codes,), result)
        self.assertEqual(result.leftover, [], result)
        if result.code != 0:
            self.assertLess(result.seconds, seconds, result)
        for fact in facts:
            self.assertEqual(len(re.findall(fact, result.output)), 1, f"pattern {fact!r}: {result}")
        self.assertNotRegex(result.output, r"terminate called|Segmentation fault|\*\*\* Process received signal")

    def refused(self, spec, ranks, codes, *facts, tokens=None, arguments=()):
        """The same, before step 1."""
        with Case(BINARY) as case:
            if tokens is not None:
                write_tokens(case.path("d0.bin"), tokens)
            result = case.run(spec, ranks, arguments)
            self.check(result, codes, *facts)
            self.assertEqual(result.steps, [], result)

    def struck(self, grid, ranks, rank, number, **keys):
        """Runs a long job and sends a signal to one rank once three steps are done."""
        with Case(BINARY) as case:
            def strike(running):
                if len(running.steps()) < 3:
                    return False
                os.kill(running.ranks()[rank], number)
                return True

            result = case.run(with_keys(LONG, **grid, **keys), ranks, timeout=90, watch=strike)
            self.assertGreaterEqual(len(result.steps), 3, result)
            return result


class Schedules(FailureTest):
    """Each is refused before any rank computes, with the key and the facts."""

    def order(self, text, *facts, code=USAGE, **keys):
        spec = with_keys(TWO_STAGES, pipeline__schedule="csv", pipeline__file="order.csv", train__global_batch=2, **keys)
        with Case(BINARY) as case:
            if text is not None:
                with open(case.path("order.csv"), "w", encoding="utf-8") as file:
                    file.write(text)
            result = case.run(spec, 2)
            self.check(result, code, *facts)
            self.assertEqual(result.steps, [], result)

    def test_an_order_that_is_right_trains(self):
        with Case(BINARY) as case:
            with open(case.path("order.csv"), "w", encoding="utf-8") as file:
                file.write("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
            keys = {"train__global_batch": 2, "train__steps": 3}
            own = case.run(with_keys(TWO_STAGES, pipeline__schedule="csv", pipeline__file="order.csv", **keys), 2)
            known = case.run(with_keys(TWO_STAGES, **keys), 2)
            self.assertEqual([step["loss"] for step in own.steps], [step["loss"] for step in known.steps], own)
            self.assertEqual(len(own.steps), 3, own)

    def test_missing_file(self):
        self.order(None, r"pipeline\.file order\.csv: cannot open: No such file", code=INPUT_MISSING)

    def test_wrong_number_of_ranks(self):
        self.order("0F0,0F1,0B0,0B1\n", r"pipeline\.file: order\.csv does not fit: it has 1 lines?, one per pipeline rank, "
                                        r"but parallel\.pp is 2")

    def test_wrong_number_of_micro_batches(self):
        self.order("0F0,0B0\n1F0,1B0\n", r"order\.csv does not fit: it has 1 micro-batch\w*, but the job has 2")

    def test_missing_action(self):
        self.order("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", r"order\.csv")

    def test_deadlock_is_named_with_its_circle(self):
        self.order("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0\n", r"(?s)order\.csv.*rank 0 waits in 0B0.*rank 1 waits in 1F1")

    def test_no_cells(self):
        self.order("hello\n", r"order\.csv:1: cell .hello.")

    def test_chunks_that_a_schedule_does_not_have(self):
        self.refused(with_keys(TWO_STAGES, pipeline__chunks=2), 2, USAGE,
                     r"pipeline\.chunks: schedule 1f1b: it has one chunk per rank, found chunks 2")

    def test_dualpipe_needs_an_even_pipeline(self):
        self.refused(with_keys(N0, parallel__pp=3, pipeline__schedule="dualpipe"), 3, USAGE,
                     r"parallel\.pp: schedule dualpipe: its pipeline ranks must be even, found 3; use 2 or 4")

    def test_more_stages_than_layers(self):
        self.refused(with_keys(TWO_STAGES, pipeline__schedule="interleaved", pipeline__chunks=3), 2, USAGE,
                     r"3 chunks \(interleaved\) x parallel\.pp 2 are 6 stages, more than model\.num_layers 4")


class Device(FailureTest):
    """GPUs that are asked for and cannot be had, on a machine without one; where the CUDA backend was built, its host code
    runs over the stand-ins for CUDA's libraries."""

    CUDA = with_keys(N0, run__device="cuda")
    SHARED = with_keys(CUDA, parallel__pp=2, run__share_gpu=True)

    def with_variables(self, spec, ranks, code, *facts, **variables):
        with mock.patch.dict(os.environ, variables):
            self.refused(spec, ranks, code, *facts)

    def library(self):
        path = os.path.join(os.path.dirname(os.path.abspath(BINARY)), "../lib/libescalier_cuda_emulated.so")
        if not os.path.exists(path):
            self.skipTest("built without CUDA")
        return path

    def emulated(self, spec, ranks, code, *facts, **variables):
        self.with_variables(spec, ranks, code, *facts, ESCALIER_CUDA_LIBRARY=self.library(), **variables)

    def test_binary_without_the_backend(self):
        """As after a build with -DESCALIER_CUDA=OFF: the program is the same, the library is not there."""
        with tempfile.TemporaryDirectory() as folder, Case(shutil.copy(BINARY, folder)) as case:
            result = case.run(self.CUDA, 1)
            self.check(result, DEVICE, r"no CUDA backend beside it: there is no libescalier_cuda\.so.*set run\.device: cpu")
            self.assertEqual(result.steps, [], result)
            result = case.run(with_keys(N0, run__name="cpu_job", run__device="auto", train__steps=2), 1)
            self.check(result, 0, r"step 2/2", r"device    cpu \(")

    def test_backend_without_a_driver(self):
        """The backend as nvcc built it, on a machine without GPUs."""
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        library = os.path.join(os.path.dirname(os.path.abspath(BINARY)), "../lib/libescalier_cuda.so")
        if not os.path.exists(library):
            self.skipTest("built without CUDA")
        for spec, ranks in ((self.CUDA, 1), (with_keys(self.CUDA, parallel__pp=2), 2)):
            self.with_variables(spec, ranks, DEVICE, r"run\.device: cuda needs a GPU for every rank, but on rank 0 \(.*\) there is "
                                r"no NVIDIA driver.*cudaErrorInsufficientDriver \(35\).*set run\.device: cpu",
                                ESCALIER_CUDA_LIBRARY=library)
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, run__device="auto", train__steps=2), 1)
            self.check(result, 0, r"step 2/2", r"device    cpu \(no NVIDIA driver here\)")

    def test_no_such_library(self):
        self.with_variables(with_keys(self.CUDA, parallel__pp=2), 2, DEVICE,
                            r"ESCALIER_CUDA_LIBRARY names /nowhere/lib\.so, which is not there",
                            ESCALIER_CUDA_LIBRARY="/nowhere/lib.so")

    def test_another_library(self):
        self.with_variables(self.CUDA, 1, DEVICE, r"the CUDA backend cannot be opened: .*invalid ELF header",
                            ESCALIER_CUDA_LIBRARY="/etc/passwd")

    def test_auto_falls_back_to_the_cpu_and_says_why(self):
        with mock.patch.dict(os.environ, ESCALIER_CUDA_LIBRARY="/nowhere/lib.so"), Case(BINARY) as case:
            result = case.run(with_keys(N0, run__device="auto", train__steps=1), 1)
            self.check(result, 0, r"device    cpu \(ESCALIER_CUDA_LIBRARY names .*fp32, tensors between ranks by mpi")

    def test_bf16_that_falls_back_to_the_cpu(self):
        self.with_variables(with_keys(N0, run__device="auto", train__dtype="bf16"), 1, USAGE,
                            r"train\.dtype: found bf16, but run\.device cpu computes in fp32",
                            ESCALIER_CUDA_LIBRARY="/nowhere/lib.so")

    def test_no_driver(self):
        self.emulated(self.CUDA, 1, DEVICE, r"there is no NVIDIA driver.*cudaErrorInsufficientDriver \(35\)",
                      ESCALIER_CUDA_DEVICES="-1")

    def test_no_device(self):
        self.emulated(self.CUDA, 1, DEVICE, r"on rank 0 \(.*\) the driver shows no GPU", ESCALIER_CUDA_DEVICES="0")

    def test_no_visible_device(self):
        self.emulated(self.CUDA, 1, DEVICE, r"shows no GPU \(CUDA_VISIBLE_DEVICES is \"\"\)", CUDA_VISIBLE_DEVICES="")

    def test_more_ranks_than_devices(self):
        self.emulated(with_keys(self.CUDA, parallel__pp=2), 2, DEVICE,
                      r"ranks 0 and 1 share GPU-[0-9a-f-]+ .*run\.share_gpu: true", ESCALIER_CUDA_DEVICES="1")

    def test_nccl_on_a_shared_device(self):
        self.emulated(with_keys(self.SHARED, run__comm="nccl"), 2, DEVICE, r"run\.comm is nccl, but ranks share a GPU",
                      ESCALIER_CUDA_DEVICES="1")

    def test_ranks_on_one_device_have_its_peak_together(self):
        variables = {"ESCALIER_CUDA_LIBRARY": self.library(), "ESCALIER_CUDA_DEVICES": "1"}
        with mock.patch.dict(os.environ, variables), Case(BINARY) as case:
            result = case.run(with_keys(self.SHARED, log__peak_tflops=1, train__steps=2), 2)
            self.check(result, 0, r"MFU is against 1 TFLOP/s a device")
            for step in result.steps:
                self.assertAlmostEqual(step["mfu"], step["model_flops_per_s"] / 1e12, delta=1e-9)

    def test_want_of_device_memory(self):
        self.emulated(self.CUDA, 1, DEVICE, r"cannot allocate \d+ bytes on GPU 0.*cudaErrorMemoryAllocation",
                      ESCALIER_CUDA_MEMORY="34000000")

    def struck_on_gpus(self, comm, number, **keys):
        with mock.patch.dict(os.environ, ESCALIER_CUDA_LIBRARY=self.library()):
            return self.struck({"parallel__pp": 2, "train__global_batch": 2}, 2, 1, number, run__device="cuda", run__comm=comm,
                               **keys)

    def test_killed_rank(self):
        for comm in ("nccl", "staged"):
            self.check(self.struck_on_gpus(comm, signal.SIGKILL), KILLED)

    def test_stopped_rank_is_named_when_the_time_is_up(self):
        for comm in ("nccl", "staged"):
            result = self.struck_on_gpus(comm, signal.SIGSTOP, run__comm_timeout_s=4)
            self.check(result, FAILED, r"escalier: rank 1 .*(been silent for|has never reported).*longer than run\.comm_timeout_s = 4 s",
                       seconds=4 + REFUSAL_SECONDS)


class Launch(FailureTest):
    def test_too_few_processes(self):
        self.refused(with_keys(N0, parallel__tp=2, parallel__pp=2), 3, USAGE, r"needs 4 processes, got 3")

    def test_too_many_processes(self):
        self.refused(with_keys(N0, parallel__tp=2, parallel__pp=2), 8, USAGE, r"needs 4 processes, got 8")

    def test_more_processes_than_a_single_rank_grid(self):
        self.refused(N0, 4, USAGE, r"needs 1 process, got 4")

    def test_two_stages_in_one_process(self):
        self.refused(TWO_STAGES, 1, USAGE, r"needs 2 processes, got 1")

    def test_processes_that_no_data_size_fits(self):
        self.refused(with_keys(TWO_STAGES, parallel__dp="auto"), 3, USAGE, r"start 2 or 4 processes")

    def test_more_stages_than_layers(self):
        self.refused(with_keys(N0, parallel__pp=5), 5, USAGE, r"5 is more than model\.num_layers 4")

    def test_heads_that_tensor_ranks_do_not_divide(self):
        self.refused(with_keys(N0, parallel__tp=3), 3, USAGE, r"num_heads 4 is not divisible by tp 3")

    def test_singletons_under_srun_are_refused(self):
        # What srun with a foreign PMI makes: tasks of a step of four, each seeing itself alone; the first one speaks.
        with mock.patch.dict(os.environ, {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}):
            self.refused(N0, 0, USAGE, r"srun --mpi=pmix")

    def test_the_first_process_speaks_even_where_it_is_the_last_to_fail(self):
        late = ["sh", "-c", '[ "$OMPI_COMM_WORLD_RANK" != 0 ] || sleep 1; exec "$@"', "sh", BINARY]
        for arguments, fact in ((["train"], "job is required"), (["check", "nowhere.yaml", "--ranks", "1"], "nowhere.yaml")):
            launch = subprocess.run([os.path.join(ROOT, "scripts/mpirun"), "-n", "3", *late, *arguments], text=True,
                                    capture_output=True, timeout=60, check=False)
            self.assertIn(launch.returncode, (USAGE, INPUT_MISSING), launch)
            self.assertEqual((launch.stdout + launch.stderr).count(fact), 1, launch)

    def test_a_process_that_fails_alone_speaks(self):
        alone = subprocess.run([BINARY, "check", "nowhere.yaml", "--ranks", "1"], text=True, capture_output=True, timeout=60, check=False,
                               env={**environment(), "OMPI_COMM_WORLD_RANK": "1"})
        self.assertEqual(alone.returncode, INPUT_MISSING, alone)
        self.assertEqual(alone.stderr.count("nowhere.yaml"), 1, alone)

    def test_command_lines_are_refused_once_for_all_processes(self):
        for arguments, fact in ((["train"], "job is required"), (["train", "--bogus", "job.yaml"], "--bogus"),
                                (["generate", "--weights", "w.safetensors"], "needs 1 process, got 3"),
                                (["trian", "job.yaml"], "unknown command trian; did you mean train?"),
                                (["ckpt", "frob"], "unknown command frob. Commands of ckpt: ls, info,")):
            launch = subprocess.run([os.path.join(ROOT, "scripts/mpirun"), "-n", "3", BINARY, *arguments], text=True,
                                    capture_output=True, timeout=60, check=False)
            self.assertEqual(launch.returncode, USAGE, launch)
            self.assertEqual((launch.stdout + launch.stderr).count(fact), 1, launch)


class Generate(FailureTest):
    def test_weight_files_with_a_damaged_description(self):
        model = "model: {arch: llama, num_layers: 1, hidden_size: 12, num_heads: HEADS, ffn_size: 8, vocab_size: 16}"
        for heads, length in (("0", "16"), ("4", "16"), ("2", "99999999999999"), ("2", "x")):
            metadata = {"format": "pt", "escalier_model": model.replace("HEADS", heads), "escalier_tokenizer": "byte",
                        "escalier_seq_len": length}
            header = json.dumps({"__metadata__": metadata}).encode()
            with Case(BINARY) as case:
                with open(case.path("w.safetensors"), "wb") as file:
                    file.write(struct.pack("<Q", len(header)) + header)
                run = subprocess.run([BINARY, "generate", "--weights", case.path("w.safetensors")], text=True,
                                     capture_output=True, timeout=60, check=False, env=environment())
                self.assertEqual(run.returncode, DATA_CORRUPT, run)
                self.assertEqual(run.stderr.count("w.safetensors: its description of the model is damaged"), 1, run)


    # A model of 64 ids; what stands in `facts` is said once, whatever the number of ranks.
    def refused_generation(self, code, *facts, ranks=0, arguments=()):
        with Case(BINARY) as case:
            made = case.run(with_keys(N0, train__steps=1, train__global_batch=1), 1, ["--save-weights", "w.safetensors"])
            self.check(made, 0)
            launcher = [os.path.join(ROOT, "scripts/mpirun"), "-n", str(ranks)] if ranks else []
            run = subprocess.run([*launcher, case.binary, "generate", *arguments], cwd=case.folder, text=True,
                                 capture_output=True, timeout=60, check=False, env=environment())
            self.assertEqual(run.returncode, code, run)
            for fact in facts:
                self.assertEqual(len(re.findall(fact, run.stdout + run.stderr)), 1, f"{fact!r}: {run}")

    def test_grids_that_do_not_fit(self):
        weights = ["--weights", "w.safetensors", "--prompt-ids", "1"]
        self.refused_generation(USAGE, r"--tp 1 --pp 1 needs 1 process, got 3", ranks=3, arguments=weights)
        self.refused_generation(USAGE, r"--tp 2 --pp 1 needs 2 processes, got 1", arguments=[*weights, "--tp", "2"])
        self.refused_generation(USAGE, r"tp 3 x pp 1: .*num_heads 4 is not divisible by tp 3", ranks=3,
                                arguments=[*weights, "--tp", "3"])
        self.refused_generation(USAGE, r"tp 1 x pp 5: .*5 is more than model\.num_layers 4", ranks=5,
                                arguments=[*weights, "--pp", "5"])

    def test_prompts_that_the_model_cannot_read(self):
        weights = ["--weights", "w.safetensors"]
        self.refused_generation(USAGE, r"--prompt: the tokenizer gives id 104, but w\.safetensors .* vocabulary of 64",
                                ranks=2, arguments=[*weights, "--pp", "2", "--prompt", "h"])
        self.refused_generation(USAGE, r"--prompt-ids: found id 64, but w\.safetensors .* ids go from 0 to 63",
                                arguments=[*weights, "--prompt-ids", "5,64"])
        self.refused_generation(USAGE, r"--stop-id: found id 64", arguments=[*weights, "--prompt-ids", "5", "--stop-id", "64"])
        self.refused_generation(USAGE, r"--prompt-ids: found -3", arguments=[*weights, "--prompt-ids", "5,-3"])
        self.refused_generation(INPUT_MISSING, r"gone\.model: cannot open.*--tokenizer names another",
                                ranks=2, arguments=[*weights, "--tp", "2", "--tokenizer", "sp:gone.model"])
        self.refused_generation(USAGE, r"--tokens: found 9007199254740993.*0 to 9007199254740992",
                                arguments=[*weights, "--prompt-ids", "5", "--tokens", "9007199254740993"])
        self.refused_generation(USAGE, r"--tokenizer: gpt2 is not known", arguments=[*weights, "--tokenizer", "gpt2"])

    def test_models_that_are_not_there_or_damaged(self):
        self.refused_generation(INPUT_MISSING, r"gone\.safetensors: cannot open", ranks=2,
                                arguments=["--weights", "gone.safetensors", "--tp", "2"])
        self.refused_generation(DATA_CORRUPT, r"job\.yaml: ", ranks=2, arguments=["--weights", "job.yaml", "--pp", "2"])
        self.refused_generation(USAGE, r"give --ckpt, a run folder or one of its step folders, or --weights", arguments=[])

    def test_ways_to_draw_that_make_no_sense(self):
        for arguments, fact in ((["--top-p", "0"], r"--top-p: found 0"), (["--top-p", "1.5"], r"--top-p: found 1\.5"),
                                (["--temperature", "-1"], r"--temperature: found -1"), (["--top-k", "-1"], r"--top-k: found -1"),
                                (["--greedy", "--top-k", "3"], r"excludes")):
            self.refused_generation(USAGE, fact, arguments=["--weights", "w.safetensors", *arguments])


class JobSpec(FailureTest):
    def test_unknown_key(self):
        self.refused(with_keys(TWO_STAGES, lr__learning_rte=1e-3), 2, USAGE, r"job\.yaml:8:\d+: lr\.learning_rte")

    def test_overrides_before_the_file(self):
        with Case(BINARY) as case:
            case.write_job(N0)
            result = case.start([BINARY, "train", "--set", "train.steps=2", "job.yaml"])
            self.check(result, 0)
            self.assertEqual(len(result.steps), 2)

    def test_key_given_twice(self):
        self.refused(yaml(TWO_STAGES) + "lr: {peak: 0.1}\n", 2, USAGE, r"job\.yaml:10:\d+.*lr")

    def test_batch_that_does_not_divide(self):
        self.refused(with_keys(N0, train__global_batch=10, train__micro_batch=2, parallel__dp=2), 2, USAGE,
                     r"global_batch 10 is not divisible by micro_batch 2 x dp 2")

    def test_layout_that_does_not_sum_to_the_layers(self):
        self.refused(with_keys(TWO_STAGES, pipeline__layout=[1, 2]), 2, USAGE,
                     r"\[1, 2\] sums to 3, but model\.num_layers is 4")

    def test_sequence_beyond_the_position_table(self):
        self.refused(with_keys(TWO_STAGES, train__seq_len=32, model__max_positions=16), 2, USAGE,
                     r"32 is more than model\.max_positions 16")

    def test_all_errors_at_once(self):
        spec = with_keys(N0, train__steps=-1, parallel__tp=3, optimizer__name="adma")
        self.refused(spec, 3, USAGE, r"errors in the job spec", r"train\.steps", r"optimizer\.name", r"by tp 3")

    def test_empty_file(self):
        self.refused("", 2, USAGE, r"job\.yaml")

    def test_broken_yaml(self):
        self.refused("model: {arch: gpt2\ntrain: [", 2, USAGE, r"job\.yaml:\d+:\d+")

    def test_file_that_is_not_there(self):
        with Case(BINARY) as case:
            self.check(case.run(N0, 2, job="absent.yaml"), INPUT_MISSING, r"absent\.yaml")

    def test_folder_in_place_of_the_file(self):
        with Case(BINARY) as case:
            os.mkdir(case.path("folder"))
            self.check(case.run(N0, 2, job="folder"), USAGE, r"folder is a folder")


class Data(FailureTest):
    def test_missing_file(self):
        self.refused(with_keys(TWO_STAGES, data__train=[{"path": "absent.bin"}]), 2, INPUT_MISSING, r"absent\.bin")

    def test_no_data_section(self):
        spec = {section: keys for section, keys in N0.items() if section != "data"}
        self.refused(with_keys(spec, parallel__pp=2), 2, USAGE, r"data\.train is needed")

    def test_too_little(self):
        for count in (1, 16):
            self.refused(N0, 1, DATA_CORRUPT, rf"has {count} tokens.*one sample needs 17", tokens=[1] * count)

    def test_empty_file(self):
        self.refused(N0, 1, (DATA_CORRUPT, USAGE), r"d0\.bin", tokens=[])

    def test_odd_byte_count(self):
        with Case(BINARY) as case:
            with open(case.path("d0.bin"), "wb") as file:
                file.write(b"\1" * 1001)
            self.check(case.run(TWO_STAGES, 2), DATA_CORRUPT, r"has 1001 bytes")

    def test_other_files_on_another_node(self):
        """The last rank works in a folder of its own, as on a node that has copies of its own."""
        train = [BINARY, "train", "job.yaml"]
        for other, code in ((d0_tokens()[::-1], DATA_CORRUPT), (d0_tokens(), 0)):
            with Case(BINARY) as case:
                case.write_job(TWO_STAGES)
                os.mkdir(case.path("node"))
                os.mkdir(case.path("runs"))
                os.symlink(case.path("runs"), case.path("node/runs"))
                shutil.copy(case.path("job.yaml"), case.path("node"))
                write_tokens(case.path("node/d0.bin"), other)
                result = case.start([os.path.join(ROOT, "scripts/mpirun"), "-n", "1", *train,
                                     ":", "-n", "1", "-wdir", case.path("node"), *train])
                facts = [r"data\.train: the files of rank 1 on \S+ are not those of rank 0"] if code else []
                self.check(result, code, *facts)

    def test_token_outside_the_vocabulary(self):
        # Every sample is seen in the first step, on grids where the id may look like another shard's.
        tokens = d0_tokens()[:129]
        tokens[70] = 70
        for grid in ({}, {"parallel__tp": 2}, {"parallel__pp": 2}, {"parallel__dp": 2}):
            ranks = 2 if grid else 1
            self.refused(with_keys(N0, **grid), ranks, DATA_CORRUPT,
                         r"position 70 has id 70, outside the vocabulary of 64", tokens=tokens)


class Running(FailureTest):
    def test_loss_that_is_not_finite_stops_all_ranks(self):
        for grid in ({"parallel__pp": 2}, {"parallel__dp": 2}, {"parallel__tp": 2}):
            with Case(BINARY) as case:
                result = case.run(with_keys(N0, lr__peak=1e30, **grid), 2)
                self.check(result, FAILED, r"step \d+: loss .* finite")

    def test_last_update_that_ruins_the_weights_is_noticed(self):
        with Case(BINARY) as case:
            spec = with_keys(N0, parallel__pp=2, lr__peak=1e38, train__steps=1, data__split="90,10,0", eval__every=1)
            result = case.run(spec, 2, ["--save-weights", "ruined.safetensors"])
            self.check(result, FAILED, r"after step 1, [\d,]+ weights are not finite .*Lower lr\.peak")
            self.assertFalse(os.path.exists(case.path("ruined.safetensors")))

    def test_weights_that_cannot_be_written(self):
        with Case(BINARY) as case:
            with open(case.path("file"), "w", encoding="utf-8"):
                pass
            result = case.run(with_keys(TWO_STAGES, train__steps=1), 2,
                              ["--save-weights", "file/weights.safetensors"])
            self.check(result, WRITE_FAILED, r"file/weights\.safetensors")

    def test_run_directory_that_cannot_be_made(self):
        with Case(BINARY) as case:
            with open(case.path("runs"), "w", encoding="utf-8"):
                pass
            self.check(case.run(TWO_STAGES, 2), WRITE_FAILED, r"run directory runs/case cannot be created: runs: .*File exists")

    def test_killed_first_stage(self):
        self.check(self.struck({"parallel__pp": 2, "parallel__dp": 2}, 4, 0, signal.SIGKILL), KILLED)

    def test_killed_last_stage(self):
        self.check(self.struck({"parallel__pp": 2, "parallel__dp": 2}, 4, 3, signal.SIGKILL), KILLED)

    def test_killed_tensor_rank(self):
        self.check(self.struck({"parallel__tp": 2}, 2, 1, signal.SIGKILL), KILLED)

    def test_stopped_rank_is_named_when_the_time_is_up(self):
        for rank in (0, 3):
            result = self.struck({"parallel__pp": 2, "parallel__dp": 2}, 4, rank, signal.SIGSTOP,
                                 run__comm_timeout_s=4)
            # A rank stopped in its first half second has never reported; any other has been silent since.
            self.check(result, FAILED, rf"escalier: rank {rank} .*(been silent for|has never reported).*"
                                       r"longer than run\.comm_timeout_s = 4 s", seconds=4 + REFUSAL_SECONDS)
            self.check_stages(result, lambda number: number // 2)

    def test_stopped_rank_is_named_in_the_midst_of_a_text(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(with_keys(N0, train__steps=1), 1).code, 0)

            def strike(running):
                with open(running.path("output.txt"), encoding="utf-8") as output:
                    if output.read().count(",") < 20:
                        return False
                os.kill(running.ranks()[1], signal.SIGSTOP)
                return True

            line = [os.path.join(ROOT, "scripts/mpirun"), "-n", "2", BINARY, "generate", "--ckpt", "runs/case/step_00000001", "--pp",
                    "2", "--prompt-ids", "5", "--tokens", "10000000", "--context", "8", "--comm-timeout-s", "4"]
            result = case.start(line, timeout=40, watch=strike)
            self.check(result, FAILED, r"escalier: rank 1 .*(been silent for|has never reported).*longer than --comm-timeout-s = 4 s",
                       r"or raise --comm-timeout-s\.", seconds=4 + REFUSAL_SECONDS)
            self.assertNotIn("start-up", result.output)

    def test_stopped_rank_of_a_long_pipeline(self):
        """The waits lead to it from all sides, and each action named is one of its rank's stage."""
        for rank in (1, 2):
            result = self.struck({"parallel__pp": 4, "train__global_batch": 8}, 4, rank, signal.SIGSTOP, run__comm_timeout_s=4)
            self.check(result, FAILED, rf"escalier: rank {rank} .*longer than run\.comm_timeout_s = 4 s",
                       seconds=4 + REFUSAL_SECONDS)
            message = result.output[result.output.index("escalier: rank"):].split("run.comm_timeout_s.\n")[0]
            self.assertLessEqual(message.count("\n"), 7, result)
            waits = re.findall(r"\n  rank (\d+) waits for .*, (?:from|with) rank (\d+)", message)
            self.assertEqual(sorted(int(number) for number, _ in waits), [each for each in range(4) if each != rank], result)
            self.check_stages(result, lambda number: number)

    def check_stages(self, result, stage_of):
        """Of each rank the last words name actions of its own stage only, and micro-batches that there are."""
        waits = re.findall(r"rank (\d+) waits for [FB] of stage (\d+), micro-batch (\d+)", result.output)
        does = re.findall(r"rank (\d+)(?: \([^)]*\))?,?(?: which)? has been (?:[^;\n,]*, before that )?(?:in|waiting after) "
                          r"[FB]\((\d+),(\d+)\)", result.output)
        for rank, stage, micro_batch in waits + does:
            self.assertEqual(int(stage), stage_of(int(rank)), result)
            self.assertLess(int(micro_batch), 8, result)


def main():
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--binary":
        sys.exit(__doc__)
    BINARY = arguments[1]
    unittest.main(argv=[sys.argv[0], *arguments[2:]])


if __name__ == "__main__":
    main()
