"""A second "host" on this machine: network and hostname of its own, joined to the first by a cable. To be used inside
namespaces.enter(). The agent script starts commands on it, as ssh does on a real one."""
import os
import re
import subprocess
import tempfile

from namespaces import run

AGENT = """#!/bin/sh
# agent HOST COMMAND…: runs the command on a host, as ssh does. NOT_SHARED names a folder that beta has for itself.
host=$1
shift
case $host in
beta)
    [ -z "$NOT_SHARED" ] || set -- "mount -t tmpfs none $NOT_SHARED &&" "$@"
    exec nsenter --target {pid} --net --uts -- unshare --mount /bin/sh -c "$*"
    ;;
bare) exec nsenter --target {pid} --net --uts -- /usr/bin/env PATH=/nowhere /bin/sh -c "$*" ;;
silent) sleep 600 ;;
*)
    echo "agent: connect to host $host: No route to host" >&2
    exit 255
    ;;
esac
"""
ADDRESSES = {"alpha": "10.77.0.1", "beta": "10.77.0.2"}  # for namespaces.enter()


class TwoHosts:
    """`with TwoHosts() as hosts:`; this process is on alpha."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="escalier_hosts_")
        self.agent = os.path.join(self.temporary.name, "agent")
        self.beta = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", "hostname beta && echo up && exec sleep infinity"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.beta.stdout.readline()
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(pid=self.beta.pid))
        os.chmod(self.agent, 0o755)
        run("ip", "link", "set", "cable_end", "netns", str(self.beta.pid))
        self.on_beta("ip", "address", "add", ADDRESSES["beta"] + "/24", "dev", "cable_end")
        self.on_beta("ip", "link", "set", "cable_end", "up")
        self.on_beta("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.beta.kill()
        self.beta.wait()
        self.beta.stdout.close()
        self.temporary.cleanup()

    def on_beta(self, *line):
        run("nsenter", "--target", str(self.beta.pid), "--net", "--uts", "--", *line)

    @staticmethod
    def carried():
        """Bytes that have come to alpha through the cable."""
        text = subprocess.run(["ip", "-s", "link", "show", "cable"], check=True, capture_output=True, text=True).stdout
        return int(re.search(r"RX:.*\n\s*(\d+)", text).group(1))

    @staticmethod
    def cut():
        run("ip", "link", "set", "cable", "down")

    @staticmethod
    def mend():
        run("ip", "link", "set", "cable", "up")
