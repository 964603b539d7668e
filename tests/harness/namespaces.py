"""Tests that start daemons, or want a second host, do so in a small world of their own: processes, network, hostname and
mounts that nobody else sees, and that end with it however the test ends. Standard library, unshare, mount and ip."""
import os
import socket
import subprocess
import sys
import tempfile

MARKER = "ESCALIER_TEST_WORLD"
SCRATCH = "/mnt"  # files of this world go there, and with it


def enter(hosts):
    """Starts the script that calls it anew, as the only tree of processes in such a world; returns None in there, and why
    not where this machine does not allow it. hosts: {name: address}; the first is this one's, on the interface `cable`,
    whose other end is `cable_end`."""
    if os.environ.get(MARKER):
        become_child_of_reaper()
        name, address = next(iter(hosts.items()))
        socket.sethostname(name)
        run("mount", "-t", "tmpfs", "world", SCRATCH)
        os.environ["TMPDIR"] = tempfile.tempdir = SCRATCH
        know_names(hosts)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable_end")
        run("ip", "address", "add", f"{address}/24", "dev", "cable")
        run("ip", "link", "set", "cable", "up")
        return None
    line = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        line += ["--user", "--map-root-user"]
    trial = subprocess.run([*line, "true"], capture_output=True, text=True)
    if trial.returncode:
        return f"no namespaces of its own: {trial.stderr.strip()}"
    os.environ[MARKER] = "1"
    os.execvp(line[0], [*line, sys.executable, *sys.argv])


def become_child_of_reaper():
    """Process 1 of the world takes up whatever has lost its parent, and ends everything by ending."""
    child = os.fork()
    if child == 0:
        return
    while True:
        ended, status = os.wait()
        if ended == child:
            os._exit(1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def know_names(hosts):
    """This world's /etc/hosts. The file has no name any more once it is mounted."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        os.chmod(file.name, 0o644)
        file.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts.items()))
        file.flush()
        run("mount", "--bind", file.name, "/etc/hosts")


def run(*line):
    result = subprocess.run(line, capture_output=True, text=True)
    if result.returncode:
        raise OSError(f"{' '.join(line)}: {result.stderr.strip()}")
