#!/usr/bin/python3
"""Training on two hosts over TCP: this machine is both, with a network and a hostname for each.

  two_hosts_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import os
import re
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
import two_hosts  # noqa: E402
from escalier_job import MARKER, N0, ROOT, Case, environment, with_keys  # noqa: E402

BINARY = ""
USAGE, WRITE_FAILED, STOPPED = 2, 74, 75
SKIPPED = 77  # CTest's SKIP_RETURN_CODE
SPANS = r"the tensor group of ranks 0 to 1 spans the hosts alpha, beta"
HOSTS = None


def setUpModule():
    """Of a host that does not answer launch knows only after a while, in which the other tests run."""
    Waiting.silent_case = unittest.enterModuleContext(Case(BINARY))
    Waiting.silent_case.write_job(with_keys(N0, parallel__pp=2))
    Waiting.silent = subprocess.Popen([BINARY, "launch", "job.yaml", "--hosts", "alpha:1,silent:1", "--agent", HOSTS.agent],
                                      cwd=Waiting.silent_case.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True,
                                      env=environment(**{MARKER: Waiting.silent_case.marker}))


class TwoHostsTest(unittest.TestCase):
    def setUp(self):
        self.case = self.enterContext(Case(BINARY))

    def launch(self, spec, hosts, *arguments, agent=None, **more):
        self.case.write_job(spec)
        more.setdefault("timeout", 60)
        return self.case.start([self.case.binary, "launch", "job.yaml", "--hosts", hosts, "--agent", agent or HOSTS.agent,
                                *arguments], **more)

    def on_one_host(self, spec):
        """(losses and norms, weights) of the same job without a network."""
        with Case(BINARY) as case:
            result = case.run(spec, ranks=4, arguments=("--save-weights", "w.safetensors"))
            self.assertEqual(result.code, 0, result)
            return values(result), weights(case)


def values(result):
    return [(step["step"], step["loss"], step["grad_norm"]) for step in result.steps]


def weights(case):
    with open(case.path("w.safetensors"), "rb") as file:
        return file.read()


class Training(TwoHostsTest):
    def trained(self, spec, hosts):
        before = HOSTS.carried()
        result = self.launch(spec, hosts, "--", "--save-weights", "w.safetensors")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.leftover, [])
        table = dict(re.findall(r"^ +(\d)  (alpha|beta) ", result.output, re.M))
        return result, table, HOSTS.carried() - before

    def test_pipeline_across_hosts(self):
        spec = with_keys(N0, parallel__tp=2, parallel__pp=2)
        result, table, carried = self.trained(spec, "alpha:2,beta:2")
        self.assertEqual(table, {"0": "alpha", "1": "alpha", "2": "beta", "3": "beta"}, result)
        self.assertNotRegex(result.output, "spans")
        self.assertGreater(carried, 10 * 8 * 16 * 32 * 4, "the gradients of the boundary")
        self.assertEqual((values(result), weights(self.case)), self.on_one_host(spec))

    def test_a_tensor_group_across_hosts_is_named(self):
        spec = with_keys(N0, parallel__tp=2, parallel__pp=2)
        result, table, _ = self.trained(spec, "alpha:1,beta:3")
        self.assertEqual(table, {"0": "alpha", "1": "beta", "2": "beta", "3": "beta"}, result)
        self.assertEqual(len(re.findall(SPANS, result.output)), 1, result)
        self.assertEqual(len(re.findall("launch: .*a tensor group spans hosts", result.output)), 1, result)
        self.assertEqual((values(result), weights(self.case)), self.on_one_host(spec))

    def test_replicas_and_schedules_across_hosts(self):
        spec = with_keys(N0, parallel__pp=2, parallel__dp=2, pipeline__schedule="zbv")
        result, _, _ = self.trained(spec, "alpha:3,beta:1")
        self.assertEqual((values(result), weights(self.case)), self.on_one_host(spec))

    def test_ranks_dealt_out_in_turn(self):
        """As mpirun does if told so, without launch: local ranks are right, the tensor groups are named, the bits are equal."""
        spec = with_keys(N0, parallel__tp=2, parallel__pp=2)
        self.case.write_job(spec)
        result = self.case.start([os.path.join(ROOT, "scripts/mpirun"), "-n", "4", "--host", "alpha:2,beta:2", "--map-by", "node",
                                  "--mca", "plm_rsh_agent", HOSTS.agent, BINARY, "train", "job.yaml", "--save-weights",
                                  "w.safetensors"], timeout=60)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(re.findall(r"(?m)^ +(\d)  (alpha|beta)  +(\d)", result.output),
                         [("0", "alpha", "0"), ("1", "beta", "0"), ("2", "alpha", "1"), ("3", "beta", "1")], result)
        self.assertEqual(len(re.findall(SPANS, result.output)), 1, result)
        self.assertEqual((values(result), weights(self.case)), self.on_one_host(spec))

    def test_a_host_file(self):
        with open(self.case.path("nodes.txt"), "w", encoding="utf-8") as file:
            file.write("alpha slots=1\nbeta slots=1\n")
        self.case.write_job(with_keys(N0, parallel__pp=2, train__steps=2))
        result = self.case.start([self.case.binary, "launch", "job.yaml", "--hostfile", "nodes.txt"],
                                 variables={"OMPI_MCA_plm_rsh_agent": HOSTS.agent}, timeout=60)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.output, r"(?m)^ +1  beta ")


class Ending(TwoHostsTest):
    LONG = with_keys(N0, parallel__pp=2, train__steps=1000000, train__global_batch=4)

    def struck(self, strike, **variables):
        def watch(running):
            if len(running.steps()) < 3:
                return False
            strike(running)
            return True

        result = self.launch(self.LONG, "alpha:1,beta:1", watch=watch, variables=variables)
        self.assertGreaterEqual(len(result.steps), 3, result)
        self.assertEqual(result.leftover, [], result)
        return result

    def test_a_signal_stops_both_hosts_with_a_checkpoint(self):
        result = self.struck(lambda running: os.kill(running.launcher.pid, signal.SIGUSR1))
        self.assertEqual(result.code, STOPPED, result)
        self.assertTrue(os.path.exists(self.case.path("runs/case/latest")), os.listdir(self.case.path("runs/case")))

    def test_a_rank_killed_on_the_other_host_ends_all(self):
        result = self.struck(lambda running: os.kill(running.ranks()[1], signal.SIGKILL))
        self.assertNotIn(result.code, (0, None), result)
        self.assertLess(result.seconds, 10)
        self.assertIn("--mca oob_tcp_keepalive_time 10", result.output)

    def test_a_cut_cable_ends_all(self):
        """mpirun finds out by itself, long before ranks have waited for run.comm_timeout_s."""
        soon = {f"OMPI_MCA_oob_tcp_keepalive_{key}": value for key, value in (("time", "2"), ("intvl", "1"), ("probes", "3"))}
        try:
            result = self.struck(lambda _: HOSTS.cut(), **soon)
        finally:
            HOSTS.mend()
        self.assertNotIn(result.code, (0, None), result)
        self.assertRegex(result.output, r"(?s)lost communication with a remote daemon.*on node beta")
        self.assertNotIn("--mca oob_tcp_keepalive", result.output)


class Starting(TwoHostsTest):
    """What keeps ranks from starting on a host is named before anything runs."""

    def refused(self, hosts, *facts, arguments=(), agent=None):
        result = self.launch(with_keys(N0, parallel__pp=2), hosts, *arguments, agent=agent)
        self.assertEqual(result.code, USAGE, result)
        for fact in facts:
            self.assertEqual(len(re.findall(fact, result.output)), 1, f"{fact!r}: {result}")
        self.assertEqual((result.steps, result.leftover), ([], []), result)
        self.assertLess(result.seconds, 30)

    def test_hosts_that_are_not_ready(self):
        self.refused("alpha:1,gamma:1,bare:1", r"host gamma: it cannot be reached: `\S+agent gamma` ended with 255: agent: connect to "
                     r"host gamma: No route to host\.", r"host bare: Open MPI's orted is not in PATH")

    def test_no_program(self):
        self.refused("alpha:1,beta:1", r"host beta: there is no program /nowhere/escalier", arguments=("--escalier", "/nowhere/escalier"))

    def test_no_agent(self):
        self.refused("alpha:1,beta:1", "ranks on other hosts are started by `/nowhere/ssh`, which is not here", agent="/nowhere/ssh")

    def test_a_run_folder_that_is_not_shared(self):
        """Rank 1 finds out before the first step, not at the first save."""
        own = self.case.path("own")
        os.mkdir(own)
        result = self.launch(with_keys(N0, parallel__pp=2, run__dir=own), "alpha:1,beta:1", variables={"NOT_SHARED": own})
        self.assertEqual(result.code, WRITE_FAILED, result)
        self.assertRegex(result.output, rf"rank 1 on beta cannot write into {own}/case, .*Set run\.dir to a folder that all nodes share")
        self.assertEqual((result.steps, result.leftover), ([], []), result)

    def test_other_open_mpi_there(self):
        """There, mpirun says another version."""
        with open(self.case.path("mpirun"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'mpirun (Open MPI) 4.0.3'\n")
        os.chmod(self.case.path("mpirun"), 0o755)
        with open(self.case.path("agent"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nPATH={self.case.folder}:$PATH exec {HOSTS.agent} \"$@\"\n")
        os.chmod(self.case.path("agent"), 0o755)
        self.refused("alpha:1,beta:1", r"host beta: Open MPI 4\.0\.3 is installed there and \S+ here",
                     agent=self.case.path("agent"))


class Waiting(unittest.TestCase):
    """Runs last."""

    def test_a_host_that_does_not_answer(self):
        output = self.silent.communicate(timeout=60)[0]
        self.assertEqual(self.silent.returncode, USAGE, output)
        self.assertRegex(output, r"host silent: no answer; `\S+agent silent true` must end at once")
        self.assertEqual(self.silent_case.leftover(), [])


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[sys.argv.index("--binary") + 1])
    problem = namespaces.enter(two_hosts.ADDRESSES)
    if problem:
        print(f"two_hosts_test: skipped, this machine allows {problem}")
        sys.exit(SKIPPED)
    del sys.argv[sys.argv.index("--binary"):sys.argv.index("--binary") + 2]
    with two_hosts.TwoHosts() as HOSTS:
        unittest.main()
