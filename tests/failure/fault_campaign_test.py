#!/usr/bin/python3
"""The fault campaign notices strikes that hit nothing: a run that nobody disturbed proves nothing.

  fault_campaign_test.py --binary build/release/bin/escalier --library build/release/lib/libfaulty_files.so [unittest arguments]
"""
import os
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import fault_campaign  # noqa: E402
from fault_campaign import Campaign, Job, Strike, disk, remove_fails  # noqa: E402

BINARY = LIBRARY = ""
SMALL = Job((1, 1, 1), "1f1b", every=1, asynchronous=False, keep_last=1)


class FaultCampaignTest(unittest.TestCase):
    def strikes(self, kind, strike, tries):
        with mock.patch.dict(fault_campaign.KINDS, {kind: strike}), mock.patch.object(fault_campaign, "TRIES", tries), \
                mock.patch.object(fault_campaign, "random_job", lambda _: SMALL):
            campaign = Campaign(BINARY, LIBRARY, 1, several=False, kinds=[kind])
            for run, failure in campaign.until_hit(0):
                campaign.add(run, failure)
            return campaign, campaign.never_hit()

    def test_a_kind_that_aims_at_nothing_is_tried_again_and_then_named(self):
        campaign, never_hit = self.strikes("write fails", lambda *arguments: disk(*arguments, "write", "EIO", match="renamed_"), 2)
        self.assertEqual((campaign.failures, campaign.passed), ([], 2))
        self.assertEqual(never_hit, ["write fails"])
        self.assertEqual(campaign.in_save["write fails"], 0)

    def test_a_kind_that_hits_is_struck_once(self):
        campaign, never_hit = self.strikes("write fails", lambda *_: Strike((74,), faults="op=write;match=step_00000003;do=EIO;rank=0"), 2)
        self.assertEqual((campaign.failures, campaign.passed), ([], 1))
        self.assertEqual(never_hit, [])
        self.assertEqual(campaign.in_save["write fails"], 1)

    def test_a_campaign_that_strikes_beside_the_saves_is_told(self):
        campaign = Campaign(BINARY, LIBRARY, 1)
        for hits, in_save, misses in ((60, 29, True), (60, 30, False), (49, 0, False)):  # of fewer than 50 nothing is said
            campaign.hits["write fails"], campaign.in_save["write fails"] = hits, in_save
            self.assertEqual(campaign.misses_saves(), misses)

    def test_old_checkpoints_that_stay_are_told_by_a_warning(self):
        campaign, _ = self.strikes("remove fails", remove_fails, 1)
        self.assertEqual(campaign.failures, [])
        self.assertEqual(campaign.table["remove fails"], {0: 1})
        self.assertEqual(campaign.hits["remove fails"], 1)


def main():
    global BINARY, LIBRARY
    arguments = sys.argv[1:]
    if len(arguments) < 4 or arguments[0] != "--binary" or arguments[2] != "--library":
        sys.exit(__doc__)
    BINARY, LIBRARY = arguments[1], arguments[3]
    unittest.main(argv=[sys.argv[0], *arguments[4:]])


if __name__ == "__main__":
    main()
