#!/usr/bin/python3
"""What `escalier schedule` writes for other programs, read by other programs: SVG by an XML parser, JSON and CSV by
Python. Every kind that the command lists is tried."""
import csv
import io
import json
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ET

BINARY = None
SVG = "{http://www.w3.org/2000/svg}"
SIZES = ["--stages", "4", "--micro-batches", "8"]


def escalier(*arguments):
    done = subprocess.run([BINARY, "schedule", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kinds():
    return re.findall(r"^  (\S+) ", escalier(), re.MULTILINE)


class Formats(unittest.TestCase):
    def pictures(self):
        for kind in kinds():
            yield kind, escalier(kind, *SIZES, "--format", "svg")
        yield "large", escalier("interleaved", "--stages", "64", "--micro-batches", "256", "--format", "svg")

    def test_pictures_are_standalone_xml(self):
        names = {SVG + name for name in ("svg", "title", "style", "rect", "path", "text", "g")}
        for kind, text in self.pictures():
            with self.subTest(kind):
                root = ET.fromstring(text)
                self.assertEqual(root.tag, SVG + "svg")
                self.assertLessEqual({element.tag for element in root.iter()}, names)
                self.assertNotRegex(text, r"script|@import|@font-face|url\(|href|http(?!://www\.w3\.org/2000/svg)")
                width, height = float(root.get("width")), float(root.get("height"))
                self.assertEqual(root.get("viewBox"), f"0 0 {root.get('width')} {root.get('height')}")
                for element in root.iter(SVG + "text"):
                    if element.get("y") and element.get("class") != "d" and element.text:
                        self.assertLessEqual(float(element.get("x")), width)
                        self.assertLessEqual(float(element.get("y")), height)

    def test_json_holds_the_actions_of_the_csv(self):
        for kind in kinds():
            with self.subTest(kind):
                data = json.loads(escalier(kind, *SIZES, "--format", "json"))
                rows = list(csv.reader(io.StringIO(escalier(kind, *SIZES, "--format", "csv"))))
                self.assertEqual([[a["action"] for a in rank["actions"]] for rank in data["ranks"]], rows)
                ends = [a["end"] for rank in data["ranks"] for a in rank["actions"]]
                self.assertEqual(max(ends), data["makespan"])


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
