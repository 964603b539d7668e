"""A real Slurm on this machine: munged, slurmctld and slurmd in one folder, of Debian's packages. To be used inside
namespaces.enter(), which ends the daemons whatever happens."""
import os
import re
import shutil
import subprocess
import tempfile
import time

CPUS = 8  # declared; how many there are does not matter
ACTIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED")

CONFIGURATION = """
ClusterName=escalier
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
TmpFS={folder}/tmp
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,defer_batch
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=20
MinJobAge=300
JobRequeue=0
PropagateResourceLimitsExcept=MEMLOCK
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Sockets=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """What is not installed; empty if Slurm can be started."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    return [name for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch") if not shutil.which(name)]


class Slurm:
    """`with Slurm() as slurm:`; SLURM_CONF is in the environment from then on."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="escalier_slurm_")
        folder = self.temporary.name
        os.chmod(folder, 0o755)
        for name in ("state", "spool", "log", "munge", "tmp"):
            os.mkdir(os.path.join(folder, name), 0o700 if name == "munge" else 0o755)
        key = os.path.join(folder, "munge/key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o400), "wb") as file:
            file.write(os.urandom(1024))
        host = os.uname().nodename
        os.environ["SLURM_CONF"] = os.path.join(folder, "slurm.conf")
        with open(os.environ["SLURM_CONF"], "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(host=host, folder=folder, cpus=CPUS))
        self.daemons = []
        munge = os.path.join(folder, "munge")
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                   f"--pid-file={munge}/pid", f"--log-file={folder}/log/munged.log", f"--seed-file={munge}/seed")
        self.wait_for("munged", lambda: os.path.exists(f"{munge}/socket"))
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", host)
        self.wait_for("an idle node", lambda: self.ask("sinfo", "--noheader", "--format=%T").strip() == "idle")
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait()
        self.temporary.cleanup()

    def start(self, *line):
        with open(os.path.join(self.temporary.name, "log", line[0] + ".out"), "wb") as log:
            line = ["setpriv", "--pdeathsig", "KILL", *line]  # where there is no world to end with
            self.daemons.append(subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def logs(self):
        folder = os.path.join(self.temporary.name, "log")
        text = ""
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text += f"--- {name}\n" + "".join(file.readlines()[-40:])
        return text

    def wait_for(self, what, done, seconds=120):
        """Until done() is true; fails with Slurm's logs."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if done():
                return
            dead = [daemon.args[3] for daemon in self.daemons if daemon.poll() is not None]
            if dead:
                raise AssertionError(f"Slurm: {dead[0]} has ended\n{self.logs()}")
            time.sleep(0.05)
        raise AssertionError(f"Slurm: no {what} within {seconds} s\n{self.logs()}")

    @staticmethod
    def ask(*line):
        """What a command of Slurm prints."""
        return subprocess.run(line, capture_output=True, text=True).stdout

    def submit(self, *arguments, folder, variables):
        """sbatch; the number of the job."""
        result = subprocess.run(["sbatch", "--parsable", *arguments], cwd=folder, env={**os.environ, **variables},
                                capture_output=True, text=True)
        if result.returncode:
            raise AssertionError(f"sbatch {arguments}: {result.stdout}{result.stderr}")
        return result.stdout.strip()

    def job(self, number):
        """What scontrol says of a job (of an array: of each element): a list of dictionaries."""
        text = self.ask("scontrol", "show", "job", "--oneliner", str(number))
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines() if "JobState=" in line]

    def state(self, number):
        states = [job["JobState"] for job in self.job(number)]
        return next((state for state in states if state in ACTIVE), states[0] if states else "")

    def ended(self, number, seconds=120):
        """Waits for the end of a job; ({state}, {exit code}). One that went back into the queue waits for some seconds
        of Slurm's, of which it needs two: a slurmd refuses a job of the second in which it killed one of that number."""
        held = {}

        def over():
            jobs = self.job(number)
            for job in jobs:
                if job["JobState"] == "PENDING" and job["Reason"] == "BeginTime":
                    since = held.setdefault((job["JobId"], job["Restarts"]), time.monotonic())
                    if time.monotonic() - since > 2.5:
                        subprocess.run(["scontrol", "update", f"JobId={job['JobId']}", "StartTime=now"], capture_output=True)
            return jobs and all(job["JobState"] not in ACTIVE for job in jobs)

        self.wait_for(f"end of job {number}", over, seconds)
        last = self.job(number)
        return {job["JobState"] for job in last}, {job["ExitCode"] for job in last}
