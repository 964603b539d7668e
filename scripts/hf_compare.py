"""The comparison of scripts/hf_check, which starts it where transformers is: hf_compare.py BINARY [MODEL ...]"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "golden", "hf"))
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import safetensors  # noqa: E402
import tiny_models  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

SAMPLES = 4


class Check:
    """One model's way through Escalier and back."""

    def __init__(self, name, binary, folder):
        self.name, self.binary, self.folder = name, binary, folder
        self.model = tiny_models.make(name, seed=len(name))
        self.length = tiny_models.length_of(name)
        self.tokens = tiny_models.tokens_of(name, SAMPLES, self.length, seed=len(name))
        self.faults = []
        self.figures = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def escalier(self, *arguments, ranks=0):
        launcher = [os.path.join(ROOT, "scripts", "mpirun"), "-n", str(ranks)] if ranks else []
        result = subprocess.run([*launcher, self.binary, *arguments], cwd=self.folder, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"escalier {' '.join(arguments)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def expect(self, what, value, limit):
        self.figures.append(f"{what} {value:.1e}")
        if not value <= limit:
            self.faults.append(f"{self.name}: {what} is {value:.3e}, more than {limit:.0e}")

    def escalier_logits(self, checkpoint):
        """Behind the first sample's inputs."""
        tool = os.path.join(os.path.dirname(self.binary), "print_logits")
        line = [tool, self.path(checkpoint), *map(str, self.batch()[0][0].tolist())]
        output = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        return torch.tensor([float(value) for value in output.split()])

    def expect_logits(self, what, ours, theirs):
        self.expect(what, ((ours - theirs).abs().max() / theirs.abs().max()).item(), 1e-5)

    def batch(self):
        return self.tokens[:-1].view(SAMPLES, self.length), self.tokens[1:].view(SAMPLES, self.length)

    def logits(self, model):
        with torch.no_grad():
            return model(input_ids=self.batch()[0]).logits

    def loss(self, model):
        logits = model(input_ids=self.batch()[0]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), self.batch()[1].flatten())

    def load(self, folder):
        return AutoModelForCausalLM.from_pretrained(self.path(folder), dtype=torch.float32).eval()

    def equal_tensors(self, ours, theirs):
        if ours.keys() != theirs.keys():
            self.faults.append(f"{self.name}: other names: {sorted(ours.keys() ^ theirs.keys())}")
            return
        for key, value in ours.items():
            if value.dtype != theirs[key].dtype or not torch.equal(value, theirs[key]):
                self.faults.append(f"{self.name}: {key} differs")

    def import_and_export(self):
        self.model.save_pretrained(self.path("hf"))
        self.escalier("ckpt", "import-hf", "hf", "imported")
        self.escalier("ckpt", "export-hf", "imported", "exported")
        stored = load_file(self.path("hf/model.safetensors"))
        self.equal_tensors(load_file(self.path("exported/model.safetensors")), stored)
        for dtype, torch_dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            self.escalier("ckpt", "export-hf", "imported", dtype, "--dtype", dtype)
            self.equal_tensors(load_file(self.path(f"{dtype}/model.safetensors")),
                               {key: value.to(torch_dtype) for key, value in stored.items()})
        theirs = self.logits(self.model)
        self.expect_logits("export in transformers", self.logits(self.load("exported")), theirs)
        self.expect_logits("import in Escalier", self.escalier_logits("imported"), theirs[0, -1])

    def train(self):
        """Two steps of SGD with rate 1; the losses before each."""
        self.tokens.numpy().astype("<u2").tofile(self.path("tokens.bin"))
        with open(self.path("imported/model.yaml"), encoding="utf-8") as file:
            model = file.read()
        with open(self.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write("version: 1\n" + model +
                       f"train: {{seq_len: {self.length}, micro_batch: 2, global_batch: {SAMPLES}, steps: 2, dtype: fp32}}\n"
                       "optimizer: {name: sgd, weight_decay: 0.0, clip_grad: 0.0}\nlr: {peak: 1.0, schedule: constant}\n"
                       'data: {train: [{path: tokens.bin}], format: raw16, split: "1,0,0"}\n'
                       "checkpoint: {every: 1}\nrun: {name: trained, dir: runs, device: cpu, threads: 1}\n")
        self.escalier("train", "job.yaml", "--resume", "imported", ranks=1)
        with open(self.path("runs/trained/metrics.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        return [event["loss"] for event in events if event.get("event") == "step"]

    def train_here_and_there(self):
        losses = self.train()
        loss = self.loss(self.model)
        loss.backward()
        self.expect("loss", abs(losses[0] - loss.item()) / loss.item(), 1e-5)
        self.escalier("ckpt", "export-hf", "runs/trained/step_00000001", "step1")
        trained = self.load("step1")
        after = dict(trained.named_parameters())
        worst = 0.0
        for key, weight in self.model.named_parameters():
            change = weight.detach() - after[key].detach()
            largest = weight.grad.abs().max().item()
            rounding = 1.2e-7 * weight.abs().max().item()  # of the weights, whose difference this is
            worst = max(worst, ((change - weight.grad).abs().max().item() - rounding) / max(largest, 1e-6))
        self.expect("gradient", worst, 2e-5)
        next_loss = self.loss(trained).item()
        self.expect("loss of the trained", abs(losses[1] - next_loss) / next_loss, 1e-5)
        self.expect_logits("its logits", self.escalier_logits("runs/trained/step_00000001"), self.logits(trained)[0, -1])

    def run(self):
        self.import_and_export()
        self.train_here_and_there()
        print(f"{self.name:13} {sum(p.numel() for p in self.model.parameters()):7,} parameters, same bytes in fp32, bf16, "
              f"fp16; {', '.join(self.figures)}" if not self.faults else "\n".join(self.faults), flush=True)
        return not self.faults


def main():
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"safetensors {safetensors.__version__}; relative differences:", flush=True)
    ok = True
    for name in sys.argv[2:] or tiny_models.MODELS:
        with tempfile.TemporaryDirectory(prefix="escalier_hf_") as folder:
            ok = Check(name, os.path.abspath(sys.argv[1]), folder).run() and ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
