"""A generated secret is nowhere but in its file."""

from __future__ import annotations

import base64
import os
import secrets
import threading
from pathlib import Path

from local import ROOT, Cluster

HOSTS = ["ctl", "login", "gpu1", "gpu2"]


class ProcessWatch(threading.Thread):
    """Reads every command line and environment on this machine, which includes the containers', until told to stop."""

    def __init__(self, needles: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.needles, self.found, self.rounds = needles, set[str](), 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            self.rounds += 1
            for process in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        text = (process / name).read_bytes()
                    except OSError:
                        continue  # gone, or another user's
                    if any(needle in text for needle in self.needles):
                        self.found.add(f"{name}: {text[:200]!r}")


def test_the_munge_key_leaks_nowhere(cluster: Cluster):
    """A new key is rolled out with everything turned on that talks, while all process lists are watched."""
    key = secrets.token_bytes(96)
    text = base64.b64encode(key).decode()
    # A part is enough to find it, whatever a log does to line lengths.
    needles = [text[:40].encode(), key[:24]]
    watch = ProcessWatch(needles)
    watch.start()
    talkative = ("playbooks/slurm.yml", "-vvv", "--diff", "--tags", "munge")
    output = cluster.playbook(*talkative, variables={"munge_key": text})
    broken = cluster.playbook(*talkative, variables={"munge_key": text + "!"}, succeeds=False)
    watch.done.set()
    watch.join()
    # The next runs use the new key too.
    (Path(os.environ["LOCAL_SECRETS"]) / "munge.key").write_text(text, encoding="ascii")

    assert watch.rounds > 50
    assert watch.found == set()
    assert text[:40] not in output + broken
    assert "munge_key is not valid base64" in broken
    for file in [*cluster.state.joinpath("facts").glob("*"), *(ROOT / ".cache/logs").glob("*")]:
        if file.is_file():
            assert not any(needle in file.read_bytes() for needle in needles), file
    for name in HOSTS:
        logs = cluster.out(name, f"journalctl --no-pager -o cat | grep -aF '{text[:40]}'; grep -rlaF '{text[:40]}' /var/log; true")
        assert logs == "", name
        assert cluster.out(name, "base64 -w0 /etc/munge/munge.key") == text
        # The search itself works: it finds two copies that this test planted, as text and as bytes, and no other.
        cluster.out(
            name, "umask 022; cp /etc/munge/munge.key /var/tmp/bytes; chmod 644 /var/tmp/bytes; base64 -w0 /var/tmp/bytes > /var/tmp/text"
        )
        search = (
            "import os, sys\n"
            f"needles = [{text[:40].encode()!r}, {key[:24]!r}]\n"
            "for top in ('/etc', '/home', '/opt', '/root', '/run', '/srv', '/tmp', '/usr/local', '/var'):\n"
            "    for folder, _folders, names in os.walk(top):\n"
            "        for path in (os.path.join(folder, name) for name in names):\n"
            "            if os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mode & 4:\n"
            "                if any(needle in open(path, 'rb').read() for needle in needles): print(path)\n"
        )
        readable = cluster.run(name, f"python3 - <<'END'\n{search}\nEND").stdout.split()
        cluster.out(name, "rm /var/tmp/bytes /var/tmp/text")
        assert sorted(readable) == ["/var/tmp/bytes", "/var/tmp/text"], name
