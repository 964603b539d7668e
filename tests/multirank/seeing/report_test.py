#!/usr/bin/python3
"""escalier report and escalier watch on real runs; the page is opened in a real browser (Chromium, headless).

  report_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import contextlib
import html
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, Case, environment, with_keys  # noqa: E402

BINARY = ""
EVIL = "<script>alert(1)</script>&amp;'\""
# What a reader would see, told by the page itself: asked by a script that only the test adds.
PROBE = """<script>addEventListener("load", () => {
  const box = e => e.getBoundingClientRect(), all = s => [...document.querySelectorAll(s)];
  document.documentElement.dataset.probe = JSON.stringify({
    images: all("img").map(e => [e.complete, e.naturalWidth, e.naturalHeight]),
    charts: all("svg.chart").map(e => [box(e).width, box(e).height, e.querySelectorAll("path.curve").length]),
    bars: all(".bar").map(e => [box(e).width, [...e.children].map(i => box(i).width)]),
    wide: all("body *").filter(e => box(e).right > innerWidth + 1 && !e.closest(".scroll") && e.tagName !== "TITLE").length,
    scripts: document.scripts.length, outside: performance.getEntriesByType("resource").map(r => r.name.slice(0, 40)),
    text: document.body.innerText.length, title: document.title})})</script>"""


def command(*arguments, **keys):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, env=environment(), check=False, **keys)


def browser():
    found = shutil.which("chromium")
    if not found and "CI" in os.environ:
        raise AssertionError("chromium is missing: scripts/setup --readers installs it")
    return found


class Reports(unittest.TestCase):
    def opened(self, path):
        """(what the page tells of itself, its DOM) once Chromium has shown it; nothing may be on the console."""
        with open(path, encoding="utf-8") as file:
            page = file.read()
        with tempfile.TemporaryDirectory(prefix="escalier_browser_") as folder:
            probed = os.path.join(folder, "page.html")
            with open(probed, "w", encoding="utf-8") as file:
                file.write(page.replace("</body>", PROBE + "</body>"))
            line = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--disable-extensions", "--disable-background-networking", f"--user-data-dir={folder}/profile",
                    "--window-size=1200,2400", "--virtual-time-budget=3000", "--enable-logging=stderr", "--dump-dom",
                    "file://" + probed]
            result = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
        said = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(said, [], "the page puts this on the browser's console")
        probe = re.search(r'data-probe="([^"]*)"', result.stdout)
        self.assertTrue(probe, result.stdout[:500])
        return json.loads(html.unescape(probe.group(1))), result.stdout

    def report(self, case, name="case"):
        result = command("report", f"runs/{name}", cwd=case.folder)
        self.assertEqual((result.returncode, result.stdout.strip()), (0, f"runs/{name}/report.html"), result.stderr)
        return case.path(f"runs/{name}/report.html")

    def test_a_resumed_pipeline_run_in_a_browser(self):
        spec = with_keys(N0, run__name="case", parallel__pp=2, data__split="90,10,0", eval__every=4, eval__batches=1,
                         train__steps=6, checkpoint__every=3)
        with Case(BINARY) as case:
            self.assertEqual(case.run(spec, 2).code, 0)
            result = case.run(with_keys(spec, train__steps=60), 2, ["--resume", "auto"])
            self.assertEqual(result.code, 0, result)
            path = self.report(case)
            with open(path, encoding="utf-8") as file:
                page = file.read()
            self.assertNotRegex(page, r"(src|href)=\"(?!data:)")  # nothing outside the file
            self.assertNotIn("<script", page)
            for text in ("finished", "60 / 60", "best validation loss", "resumed with step 7", "tokens/s, median", "rank 1",
                         "Idle share of the pipeline", "step_00000060", "num_layers: 4", "1x2x1", "exposed communication"):
                self.assertIn(text, page)
            last = next(step for step in result.steps if step["step"] == 60)
            self.assertIn(f"{last['loss']:.4f}", page)
            if not browser():
                self.skipTest("chromium is not installed (scripts/setup --readers)")
            seen, dom = self.opened(path)
            self.assertEqual(seen["title"], "case – Escalier")
            self.assertEqual([image[0] for image in seen["images"]], [True])
            self.assertGreater(min(seen["images"][0][1:]), 100, "the pipeline's picture is not shown")
            self.assertEqual(len(seen["charts"]), 5)
            for width, height, curves in seen["charts"]:
                self.assertGreater(width, 300)
                self.assertGreater(height, 100)
                self.assertGreater(curves, 0)
            self.assertGreaterEqual(len(seen["bars"]), 2)
            for width, parts in seen["bars"]:
                self.assertLessEqual(sum(parts), width + 1)
                self.assertGreater(sum(parts), 0.3 * width)
            self.assertEqual(seen["wide"], 0, "something is wider than the window")
            self.assertEqual((seen["scripts"], seen["outside"]), (1, []))
            self.assertGreater(seen["text"], 1500)
            self.assertIn("resumed with step 7", dom)

    def test_a_hostile_folder_name_and_a_failed_run_in_a_browser(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(with_keys(N0, train__steps=4), 1).code, 0)
            os.rename(case.path("runs/case"), case.path("runs/" + EVIL.replace("/", "-")))
            name = EVIL.replace("/", "-")
            with open(case.path(f"runs/{name}/metrics.jsonl"), "a", encoding="utf-8") as file:
                file.write(json.dumps({"event": "warning", "step": 3, "text": EVIL}) + "\n{ broken\n")
                file.write(json.dumps({"event": "end", "exit_code": 1, "reason": EVIL}) + "\n")
            path = self.report(case, name)
            if not browser():
                self.skipTest("chromium is not installed (scripts/setup --readers)")
            seen, dom = self.opened(path)
            self.assertEqual(seen["scripts"], 1)  # the test's own
            self.assertEqual(seen["title"], name + " – Escalier")
            self.assertIn("failed (1)", dom)
            self.assertIn("1 lines of metrics.jsonl are no events", dom)

    def test_where_the_page_goes_and_what_is_refused(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(with_keys(N0, train__steps=2), 1).code, 0)
            result = command("report", "runs/case", "--out", "page.html", cwd=case.folder)
            self.assertEqual((result.returncode, result.stdout), (0, "page.html\n"), result.stderr)
            self.assertTrue(os.path.exists(case.path("page.html")))
            for line, code, said in ((["report", "runs/none"], 66, "runs/none is no folder"),
                                     (["report", "runs"], 66, "runs/metrics.jsonl"),
                                     (["report", "runs/case", "--out", "no/such/page.html"], 74, "no/such/page.html"),
                                     (["watch", "runs/none"], 66, "runs/none/metrics.jsonl"),
                                     (["watch"], 2, "run is required")):
                result = command(*line, cwd=case.folder)
                self.assertEqual(result.returncode, code, result)
                self.assertIn(said, result.stderr)

    def watched(self, case, spec, act):
        """(lines, exit code, the run's result) of `watch` in a pipe, from the run's first step on; act(case, line) for each."""
        box = {"lines": []}

        def follow(case):
            for line in box["watch"].stdout:
                box["lines"].append(line.rstrip("\n"))
                act(case, box["lines"])

        def watch(case):
            if not case.steps():
                return False
            box["watch"] = subprocess.Popen([BINARY, "watch", "runs/case", "--interval", "0.05"], cwd=case.folder, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
            box["thread"] = threading.Thread(target=follow, args=(case,))
            box["thread"].start()
            return True
        run = case.run(spec, 2, watch=watch)
        box["thread"].join(timeout=60)
        box["watch"].stdout.close()
        return box["lines"], box["watch"].wait(timeout=60), run

    def test_watch_follows_a_run_to_its_end(self):
        def stop(case, lines):
            if len(lines) >= 3 and "checkpoint of step" in lines[-1] and not stopped:
                stopped.append(True)
                case.launcher.send_signal(signal.SIGUSR1)
        stopped = []
        with Case(BINARY) as case:
            lines, code, run = self.watched(case, with_keys(N0, parallel__pp=2, train__steps=100000, checkpoint__every=4), stop)
            self.assertEqual((code, run.code), (75, 75), lines)
            last = run.steps[-1]["step"]
            self.assertEqual(lines[-1], f"stopped early (75): stopped by SIGUSR1 after step {last} of 100000; "
                                        "go on with --resume auto")
            steps = [int(re.match(r"step ([\d,]+)/100,000 ", line).group(1).replace(",", "")) for line in lines[:-1]]
            self.assertEqual(steps, sorted(steps))
            self.assertEqual(steps[-1], last)
            for word in ("loss", "tok/s", "left", "checkpoint of step"):
                self.assertIn(word, lines[-2])
            once = command("watch", "runs/case", "--once", cwd=case.folder)
            self.assertEqual(once.returncode, 0)
            self.assertRegex(once.stdout, r"^case \| stopped early \| \[[#.]{24}\] step [\d,]+/100,000 \(\d+ %\)\n")
            self.assertNotIn("\033", once.stdout)

    def test_watch_ends_when_the_run_dies(self):
        def kill(case, lines):
            if len(lines) == 2:
                case.launcher.kill()
                for pid in case.ranks().values():
                    with contextlib.suppress(ProcessLookupError):  # it ended by itself, without mpirun
                        os.kill(pid, signal.SIGKILL)
        with Case(BINARY) as case:
            lines, code, _ = self.watched(case, with_keys(N0, parallel__pp=2, train__steps=100000), kill)
            self.assertEqual(code, 1, lines)
            self.assertRegex(lines[-1], r"^died after step [\d,]+: .*--resume auto")

    def test_watch_writes_in_place_on_a_terminal(self):
        with Case(BINARY) as case:
            self.assertEqual(case.run(with_keys(N0, train__steps=3), 1).code, 0)
            ours, theirs = pty.openpty()
            process = subprocess.Popen(["sh", "-c", 'stty cols 70; exec "$0" watch runs/case', BINARY], cwd=case.folder,
                                       stdin=theirs, stdout=theirs, stderr=theirs, env=environment())
            os.close(theirs)
            shown = b""
            while True:
                try:
                    block = os.read(ours, 4096)
                except OSError:
                    break
                if not block:
                    break
                shown += block
            os.close(ours)
            self.assertEqual(process.wait(timeout=30), 0)
            lines = shown.decode().replace("\r", "").split("\n")
            self.assertIn("case | finished", lines[0])
            self.assertLessEqual(max(map(len, lines[:-2])), 70)


if __name__ == "__main__":
    at = sys.argv.index("--binary")
    BINARY = os.path.abspath(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    unittest.main()
