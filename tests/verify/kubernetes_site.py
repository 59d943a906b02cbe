"""The site of the scenario kubernetes: a control plane, two workers with two simulated GPUs each."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from local import Cluster

PLAYBOOK = "playbooks/kubernetes.yml"
BUSYBOX = "docker.io/library/busybox:1.37"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
# Opens the device files that a container has, then one that it makes for each of the others of that driver.
TRY = """
for file in /dev/nvidia[0-9]*; do [ -c "$file" ] && echo "has $file"; done
file=$(ls -d /dev/nvidia[0-9]* | head -1)
major=$(printf %d "0x$(stat -c %t "$file")") own=$(printf %d "0x$(stat -c %T "$file")")
for minor in 0 1; do
    mknod /tmp/d$minor c $major $minor
    (: </tmp/d$minor) 2>/tmp/said && echo "opens $minor" || echo "$minor: $(cat /tmp/said)"
done
echo "own $own"
"""


class Site(Cluster):
    def kubectl(self, words: str, given: dict[str, Any] | None = None, succeeds: bool = True) -> str:
        command = f"{KUBECTL} {words}"
        if given is not None:
            command += f" <<'END'\n{json.dumps(given)}\nEND"
        done = self.run("cp1", command)
        assert (done.returncode == 0) == succeeds, done.stderr or done.stdout
        return (done.stdout if succeeds else done.stderr).strip()

    def get(self, words: str) -> Any:
        return json.loads(self.kubectl(f"get {words} --output=json"))

    def node(self, name: str) -> dict[str, Any]:
        return self.get(f"node {name}")

    def start(self, name: str, program: str = "sleep 600", **more: Any) -> None:
        """A user's pod; gpus: how many, node: where, owner and other keys go into it as they are."""
        container: dict[str, Any] = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", program]}
        if more.get("gpus"):
            container["resources"] = {"limits": {"nvidia.com/gpu": more["gpus"]}}
        spec: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        if more.get("node"):
            spec["nodeSelector"] = {"kubernetes.io/hostname": more["node"]}
        self.kubectl("create -f -", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def remove(self, *names: str) -> None:
        self.kubectl(f"delete pod --now --ignore-not-found {' '.join(names)}")

    def phase(self, name: str, wanted: str, seconds: float = 60) -> None:
        self.until("cp1", f"{KUBECTL} get pod {name} -o jsonpath={{.status.phase}}", wanted, seconds)

    def logs(self, name: str) -> str:
        return self.kubectl(f"logs {name}")

    def why(self, name: str, seconds: float = 20) -> str:
        """What the scheduler says of a pod that waits."""
        path = shlex.quote('jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}')
        deadline = time.monotonic() + seconds
        while True:
            said = self.kubectl(f"get pod {name} -o {path}")
            if said or time.monotonic() > deadline:
                return said
            time.sleep(0.5)


def recap(output: str, host: str) -> str:
    """A host's line at the end of a run."""
    return next(line for line in output.split("PLAY RECAP")[1].splitlines() if line.startswith(host))
