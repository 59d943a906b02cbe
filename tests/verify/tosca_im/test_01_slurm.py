# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager deploys the SLURM template, and the cluster lives: it serves a model, grows, changes, shrinks, goes.

A test begins with what the one before left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from infrastructure_manager import PASSWORD, Manager, docker
from local import Cluster

OWNS = (
    "roles/tosca_site/files/tosca_drain.sh",
    "roles/tosca_site/files/tosca_elastic.py",
    "roles/tosca_site/tasks/drain.yml",
    "roles/tosca_site/tasks/elastic.yml",
    "tosca/templates/slurm_elastic.yaml",
)

DEVICE_ROOT = "/var/lib/gpu_simulator"
SETTINGS = f"slurm_cluster_device_root: {DEVICE_ROOT}\nslurm_cluster_settings: {{SlurmdTimeout: 30}}\n"
INPUTS: dict[str, Any] = {
    "wn_num": 0,
    "gpu_wn_num": 2,
    "gpu_num": 2,
    "gpu_vendor": "NVIDIA",
    "gpu_model": "A100",
    "slurm_users": [{"os_user_name": name} for name in ("ada", "eve", "kim")],
    "slurm_settings": SETTINGS,
}
# The manager writes the address as an expression of Ansible within the text.
ADDRESS = {"get_attribute": ["fe_server", "private_address", 0]}
PROPERTIES: dict[str, Any] = {
    "gpu_wn_node": {"device_root": DEVICE_ROOT},
    "front_end": {"settings": {"concat": [SETTINGS.replace("30}\n", "30, MailDomain: front."), ADDRESS, ".test}\n"]}},
}
FRONT = "slurmserver"
# The playbook that the front end's artifact runs.
NESTED = "pgrep --full --oldest 'ansible-playboo[k].*deephdc.accelerators.slurm'"
# Opens both GPUs: one is the job's, the other one is closed to it.
OPEN_BOTH = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: //"; done'


class Deployment:
    """One infrastructure of the manager, and the template as its user has it now."""

    def __init__(self, manager: Manager) -> None:
        self.manager, self.inputs = manager, dict(INPUTS)
        self.name, self.properties, self.kinds = "slurm_cluster", dict(PROPERTIES), dict[str, str]()
        self.identifier = ""

    def template(self, **changes: Any) -> str:
        self.inputs |= changes
        return str(self.manager.template(self.name, self.inputs, self.properties, self.kinds))

    def reconfigure(self, wanted: str = "configured", **changes: Any) -> str:
        self.manager.ask("reconfigure", self.identifier, self.template(**changes))
        self.manager.wait(self.identifier, wanted)
        return self.manager.log(self.identifier)

    def make_elastic(self, image: str) -> None:
        """The front end becomes one that asks the manager for nodes of an image."""
        self.kinds["front_end"] = "tosca.nodes.deephdc.LRMS.FrontEnd.SlurmElastic"
        self.properties["front_end"] = {
            "cloud_manager": self.manager.url,
            "cloud_access": self.manager.auth.read_text(encoding="utf-8"),
            "cloud_image": image,
            "cloud_network": "priv_network",
            "cloud_nodes": 2,
            "cloud_cpus": 1,
            "cloud_memory": 2048,
            "cloud_gpus": 2,
            "cloud_gpu_type": "a100",
        }
        self.inputs["slurm_settings"] = SETTINGS.replace("30}", "30, SuspendTime: 15, SuspendTimeout: 10}")

    def number(self, host: str) -> str:
        """The manager's number of a machine."""
        (found,) = [
            number
            for number in self.manager.state(self.identifier)["vm_states"]
            if f"net_interface.0.dns_name = '{host}'" in self.manager.ask("getvminfo", self.identifier, number)
        ]
        return str(found)


@pytest.fixture(scope="module")
def deployment(manager: Manager) -> Iterator[Deployment]:
    yield Deployment(manager)


def job(cluster: Cluster, user: str, options: str, program: str, seconds: float = 120) -> list[str]:
    words = f"runuser -u {user} -- srun --chdir=/tmp {options} sh -c '{program}'"
    return cluster.out(FRONT, words, timeout=seconds).splitlines()


def states(cluster: Cluster) -> dict[str, str]:
    said = cluster.out(FRONT, "sinfo --Node --noheader --format '%N %T'")
    return dict(line.split() for line in said.splitlines())


def test_a_deployment_that_is_killed_says_where_it_was(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """The playbook on the front end loses its process."""
    deployment.identifier = manager.create(manager.template("slurm_cluster", INPUTS, PROPERTIES))
    cluster.until(FRONT, "systemctl is-system-running", "running", 300)
    # Some of it is there by then, and no cluster yet.
    cluster.until(FRONT, f"{NESTED} >/dev/null && test -e /etc/slurm/slurmdbd.conf && echo there", "there", 900)
    cluster.out(FRONT, f"kill -KILL $({NESTED})")
    manager.wait(deployment.identifier, "unconfigured")
    said = manager.log(deployment.identifier)
    assert "The playbook was ended by signal 9 in the task" in said, said[-6000:]
    assert cluster.run(FRONT, "sinfo").returncode != 0
    assert cluster.out(FRONT, "find /tmp /var/tmp -name 'deephdc-tosca-*'") == "", "secrets of a run that was killed"


def test_a_retry_finishes_it(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    manager.ask("reconfigure", deployment.identifier)
    manager.wait(deployment.identifier)
    assert states(cluster) == {"gpuwn-1": "idle", "gpuwn-2": "idle"}


def test_outputs_are_right(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    outputs = manager.outputs(deployment.identifier)
    addresses = [cluster.out(f"gpuwn-{n}", "hostname --all-ip-addresses").split()[0] for n in (1, 2)]
    assert sorted(outputs["gpu_wn_ips"]) == sorted(addresses)
    assert outputs["wn_ips"] in ([], None, "[]") and outputs["cluster_ip"] == "127.0.0.1"


def test_an_address_within_a_text_of_the_template_arrives(cluster: Cluster, deployment: Deployment) -> None:
    address = cluster.out(FRONT, "hostname --all-ip-addresses").split()[0]
    assert cluster.out(FRONT, "scontrol show config | grep MailDomain").split()[-1] == f"front.{address}.test"


def test_a_users_job_has_its_gpu_and_no_other(cluster: Cluster, deployment: Deployment) -> None:
    assert sorted(job(cluster, "ada", "--gres=gpu:a100:1", OPEN_BOTH)) == ["No such device or address", "Operation not permitted"]
    assert len(set(job(cluster, "eve", "--nodes=2 --gres=gpu:1", "hostname"))) == 2


def association(cluster: Cluster, user: str, account: str = "users") -> list[str]:
    """Limits of a user: ours, and MaxJobs, which none of ours is; empty is no limit."""
    what = f"where user={user} account={account} format=account,grpjobs,grpsubmitjobs,maxjobs"
    (line,) = cluster.out(FRONT, f"sacctmgr --noheader --parsable2 show associations {what}").splitlines()
    return line.split("|")[1:]


def prediction(cluster: Cluster, worker: str, port: str) -> dict[str, Any]:
    """What the model answers, asked from the front end."""
    url = f"http://{worker}:{port}/v2/models/gpu-opener/predict/"
    program = f'import urllib.request as u; print(u.urlopen(u.Request("{url}", method="POST"), timeout=30).read().decode())'
    # It starts for some seconds.
    said = cluster.until(FRONT, f"python3 -c '{program}'", "predictions", 120)
    return dict(json.loads(said))


def test_a_failure_has_the_words_of_the_playbook(cluster: Cluster, deployment: Deployment) -> None:
    bad = [{"name": "batch", "default": True, "gpu_types": ["h100"]}]
    said = deployment.reconfigure("unconfigured", slurm_partitions=bad)
    assert "h100" in said and "slurm_cluster_partitions" in said, said[-6000:]
    # The cluster is as before.
    assert job(cluster, "ada", "--gres=gpu:1", "echo $SLURM_JOB_PARTITION") == ["batch"]


def test_another_partition_and_a_model_come_by_a_reconfiguration(cluster: Cluster, deployment: Deployment) -> None:
    """The template of a DEEPaaS application, whose cluster is the one that is there. And kim leaves."""
    # What an administrator did, which no run takes back.
    cluster.out(FRONT, "sacctmgr --immediate add account guests && sacctmgr --immediate add user kim account=guests")
    cluster.out(FRONT, "sacctmgr --immediate modify user ada where account=users set maxjobs=7")
    deployment.name = "deepaas"
    deployment.inputs |= {"deepaas_image": "", "deepaas_user": "eve", "deepaas_wall_clock": "02:00:00"}
    partitions = [{"name": "batch", "default": True}, {"name": "long", "max_time": "7-00:00:00"}]
    deployment.reconfigure(slurm_partitions=partitions, slurm_users=INPUTS["slurm_users"][:2])
    assert cluster.out(FRONT, "sinfo --partition=long --noheader --format=%l").splitlines()[0] == "7-00:00:00"
    assert job(cluster, "ada", "--partition=long --gres=gpu:1", "echo $SLURM_JOB_PARTITION") == ["long"]


def test_who_left_submits_nothing_and_what_administrators_gave_stays(cluster: Cluster, deployment: Deployment) -> None:
    assert association(cluster, "kim") == ["0", "0", ""]
    assert (association(cluster, "ada"), association(cluster, "eve")) == (["", "", "7"], ["", "", ""])
    assert association(cluster, "kim", "guests") == ["", "", ""]
    assert "AssocGrpSubmitJobsLimit" in cluster.run(FRONT, "runuser -u kim -- srun --account=users --chdir=/tmp true").stderr
    assert cluster.out(FRONT, "getent passwd kim | cut -d: -f7") == "/usr/sbin/nologin"


def test_the_model_serves_predictions_with_its_gpu(cluster: Cluster, deployment: Deployment) -> None:
    """It may open its GPU and no other."""
    # As docs/tosca.md says where it is.
    worker, words = cluster.until(FRONT, "squeue --noheader --name=deepaas --states=running --format='%N %k'", "gpuwn").split(" ", 1)
    said = prediction(cluster, worker, words.split()[-1])
    assert said["status"] == "OK"
    assert sorted(said["predictions"].values()) == ["No such device or address", "Operation not permitted"]


def test_a_worker_is_added_and_gets_a_job(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """While a job runs on another one, which goes on. And kim is back."""
    cluster.out(FRONT, "runuser -u eve -- sbatch --chdir=/tmp --nodelist=gpuwn-1 --gres=gpu:1 --job-name=through --wrap 'sleep 7200'")
    manager.ask("addresource", deployment.identifier, deployment.template(gpu_wn_num=3, slurm_users=INPUTS["slurm_users"]))
    manager.wait(deployment.identifier)
    assert set(states(cluster)) == {"gpuwn-1", "gpuwn-2", "gpuwn-3"}
    said = job(cluster, "ada", "--nodelist=gpuwn-3 --gres=gpu:a100:1", f"hostname; {OPEN_BOTH}")
    assert sorted(said) == ["No such device or address", "Operation not permitted", "gpuwn-3"]
    assert cluster.out(FRONT, "squeue --noheader --name=through --format=%T") == "RUNNING"
    cluster.out(FRONT, "scancel --name=through")
    assert (association(cluster, "kim"), association(cluster, "ada")) == (["", "", ""], ["", "", "7"])
    assert job(cluster, "kim", "--account=users", "id -un") == ["kim"]
    # The manager called the artifact of the model again, which submitted no second job.
    assert len(cluster.out(FRONT, "sacct --allusers --allocations --noheader --name=deepaas --format=jobid").split()) == 1
    # The next reconfiguration ends it.
    deployment.inputs["deepaas_state"] = "absent"


def test_a_command_on_the_front_end_drains_a_worker(cluster: Cluster, deployment: Deployment) -> None:
    """Without a reconfiguration, which takes minutes."""
    assert cluster.out(FRONT, "tosca_drain gpuwn-3") == "gpuwn-3 has no jobs and gets none: its machine can be removed"
    assert cluster.out(FRONT, "sinfo --noheader --nodes=gpuwn-3 --format='%T %E'") == "drained leaves the deployment"
    assert "run this as root" in cluster.run(FRONT, "/usr/local/sbin/tosca_drain gpuwn-1", user="ada").stderr
    cluster.out(FRONT, "scontrol update nodename=gpuwn-3 state=resume")


def test_a_worker_is_drained_before_it_is_removed(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """The deployment waits for its job."""
    cluster.out(
        FRONT,
        "runuser -u ada -- sbatch --chdir=/tmp --nodelist=gpuwn-3 --gres=gpu:1 --job-name=last --output=/tmp/last.txt"
        " --wrap 'while [ ! -e /tmp/go ]; do sleep 1; done; echo done'",
    )
    cluster.until(FRONT, "squeue --noheader --name=last --format=%T", "RUNNING")
    manager.ask("reconfigure", deployment.identifier, deployment.template(slurm_drain=["gpuwn-3"]))
    cluster.until(FRONT, "sinfo --noheader --nodes=gpuwn-3 --format=%T", "draining", 600)
    assert manager.state(deployment.identifier)["state"] == "running"
    # The command on the front end does not wait for ever.
    done = cluster.run(FRONT, "tosca_drain gpuwn-3 2")
    assert done.returncode == 1 and "After 2 s gpuwn-3 still runs the jobs " in done.stderr
    cluster.out("gpuwn-3", "touch /tmp/go")
    manager.wait(deployment.identifier)
    assert cluster.out("gpuwn-3", "cat /tmp/last.txt") == "done"
    assert cluster.out(FRONT, "sinfo --noheader --nodes=gpuwn-3 --format='%T %E'") == "drained leaves the deployment"
    # The template of the model has it absent now.
    assert cluster.out(FRONT, "squeue --noheader --name=deepaas") == ""


def test_a_drained_worker_is_removed(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """SLURM forgets it at the next reconfiguration, in the next test, as each takes minutes."""
    # The template that the manager keeps names no worker to drain when there is none.
    deployment.template(slurm_drain=[], gpu_wn_num=2)
    manager.ask("removeresource", deployment.identifier, deployment.number("gpuwn-3"), "0")
    assert manager.machines() == {FRONT, "gpuwn-1", "gpuwn-2"}


def test_a_worker_that_goes_with_a_job_on_it(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """Without a drain: the job waits for another worker, and the log names it as long as SLURM counts it as running."""
    cluster.out(FRONT, "runuser -u ada -- sbatch --chdir=/tmp --nodes=1 --gres=gpu:2 --job-name=cut --requeue --wrap 'sleep 7200'")
    cluster.until(FRONT, "squeue --noheader --name=cut --format=%T", "RUNNING")
    lost = cluster.out(FRONT, "squeue --noheader --name=cut --format=%N")
    manager.ask("removeresource", deployment.identifier, deployment.number(lost), "0")
    cluster.until(FRONT, f"sinfo --noheader --nodes={lost} --format=%T", "down", 300)
    (left,) = {"gpuwn-1", "gpuwn-2"} - {lost}
    # For the next test, as each call takes minutes.
    deployment.make_elastic(manager.make_snapshot(left))
    deployment.reconfigure(gpu_wn_num=1)
    assert set(states(cluster)) == {left, "cloud1", "cloud2"}
    cluster.until(FRONT, "squeue --noheader --name=cut --format='%T %N'", f"RUNNING {left}", 300)
    cluster.out(FRONT, "scancel --name=cut")


def test_a_waiting_job_makes_the_manager_add_a_worker(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """It boots as a node of a worker's snapshot, and goes when it is idle."""
    (worker,) = (name for name in states(cluster) if name.startswith("gpuwn"))
    assert manager.machines() == {FRONT, worker}
    said = job(cluster, "ada", "--partition=burst --gres=gpu:a100:1", f"hostname; {OPEN_BOTH}", 300)
    assert sorted(said) == ["No such device or address", "Operation not permitted", "cloud1"]
    assert manager.machines() == {FRONT, worker, "cloud1"}
    cluster.until(FRONT, "sinfo --noheader --nodes=cloud1 --partition=burst --format=%T", "idle~", 180)
    manager.until_machines({FRONT, worker})
    # The manager knows it no more, either.
    assert len(manager.state(deployment.identifier)["vm_states"]) == 2
    assert manager.state(deployment.identifier)["state"] == "configured"


def test_the_secrets_are_in_no_log(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    assert cluster.out(FRONT, "stat --format '%a %U' /etc/deephdc/tosca_secrets.json") == "600 root"
    key = cluster.out(FRONT, 'python3 -c \'import json; print(json.load(open("/etc/deephdc/tosca_secrets.json"))["munge_key"])\'')
    assert len(key) > 100
    assert key not in manager.log(deployment.identifier)
    for path in manager.folder.glob("*"):
        assert path.is_dir() or key.encode() not in path.read_bytes(), path
    kept = cluster.out(FRONT, f"grep --recursive --files-with-matches --fixed-strings '{key}' /var/tmp /tmp /var/log || true")
    assert kept == ""


def test_no_user_of_the_front_end_reads_the_access_to_the_manager(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    """It is an input of the template, so the manager keeps it on the front end, too."""
    look = f"grep --recursive --no-messages --files-with-matches --fixed-strings '{PASSWORD}' /etc /var /tmp /opt /run /home || true"
    assert "/etc/deephdc/tosca_elastic.json" in cluster.out(FRONT, look).splitlines()
    assert cluster.out(FRONT, "stat --format '%a %U' /etc/deephdc/tosca_elastic.json") == "600 slurm"
    assert cluster.out(FRONT, look, user="eve") == ""


def test_destroy_leaves_nothing(cluster: Cluster, manager: Manager, deployment: Deployment) -> None:
    manager.ask("-y", "destroy", deployment.identifier)
    assert manager.machines() == set()
    networks = docker("network", "ls", "--filter", f"label=deephdc.accelerators={cluster.label}", "--format", "{{.Name}}").split()
    assert networks == [f"deephdc-{cluster.label}"]
    assert deployment.identifier not in manager.ask("list")
