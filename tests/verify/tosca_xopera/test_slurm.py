# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""xOpera deploys the twin of the SLURM template: a failure says why, is resumed, and then users have their GPUs.

A test begins with what the one before left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._tosca.users import users
from local import ROOT, Cluster

OWNS = (
    "playbooks/tosca_accounts.yml",
    "plugins/action/tosca_inputs.py",
    "plugins/modules/tosca_inputs.py",
    "roles/tosca_site",
    "plugins/filter/tosca.py",
    "plugins/plugin_utils/_tosca",
    "molecule/tosca_xopera",
    "tosca",
    "tosca/types",
    "tests/tosca",
)

TEMPLATE = ROOT / "tosca/templates/slurm_cluster.yaml"
INPUTS = {
    "gpu_num": 2,
    "gpu_vendor": "NVIDIA",
    "gpu_model": "A100",
    "slurm_cluster_name": "cloud",
    "slurm_users": [{"os_user_name": "ada"}, {"os_user_name": "eve"}],
    "slurm_settings": "slurm_cluster_device_root: /var/lib/gpu_simulator\n",
}


class XOpera:
    """xOpera in a folder with the twin."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **cluster.environment(),
            "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
            # The way of tests into a host; xOpera's own inventory has other arguments for ssh.
            "ANSIBLE_SSH_ARGS": f"-F {cluster.secrets}/ssh_config",
            "OPERA_SSH_USER": "root",
            "OPERA_SSH_IDENTITY_FILE": str(cluster.secrets / "ssh_key"),
            "PATH": f"{ROOT}/.cache/tosca-xopera/bin:{os.environ['PATH']}",
        }
        del self.environment["ANSIBLE_CONFIG"]

    def run(self, *words: str, seconds: float = 900) -> tuple[int, str]:
        done = subprocess.run(
            ["opera", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        return done.returncode, done.stdout

    def status(self) -> str:
        """Not the exit code: a second deployment after a failure does nothing and reports success."""
        code, said = self.run("info", "--format", "yaml")
        assert code == 0, said
        return str(yaml.safe_load(said)["status"])


@pytest.fixture(scope="module")
def xopera(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[XOpera]:
    subprocess.run([ROOT / "tests/tosca/run", "--collect-only"], check=True, stdout=subprocess.DEVNULL)
    folder = tmp_path_factory.mktemp("tosca") / "twin"
    hosts = [
        f"{server}={cluster.label}-{host}" for server, host in (("fe_server", "front"), ("wn_server", "wn"), ("gpu_wn_server", "gpuwn"))
    ]
    subprocess.run([sys.executable, ROOT / "tosca/xopera_twin", TEMPLATE, folder, "--hosts", *hosts], check=True)
    service = yaml.safe_load((folder / "service.yaml").read_text(encoding="utf-8"))
    service["topology_template"]["node_templates"]["gpu_wn_node"]["properties"]["device_root"] = "/var/lib/gpu_simulator"
    (folder / "service.yaml").write_text(yaml.safe_dump(service, sort_keys=False), encoding="utf-8")
    (folder / "inputs.yaml").write_text(yaml.safe_dump(INPUTS), encoding="utf-8")
    yield XOpera(cluster, folder)


def test_a_deployment_that_fails_says_why_in_the_words_of_the_playbook(cluster: Cluster, xopera: XOpera) -> None:
    """A worker is off."""
    subprocess.run(["docker", "stop", "--time", "5", f"{cluster.label}-wn"], check=True, stdout=subprocess.DEVNULL)
    try:
        code, said = xopera.run("deploy", "-i", "inputs.yaml", "service.yaml")
    finally:
        subprocess.run(["docker", "start", f"{cluster.label}-wn"], check=True, stdout=subprocess.DEVNULL)
    assert code != 0 or xopera.status() != "deployed"
    assert f"wn-{cluster.label}-wn".lower().replace("_", "-") in said and "UNREACHABLE" in said, said[-4000:]


def test_it_is_resumed_and_deployed(cluster: Cluster, xopera: XOpera) -> None:
    cluster.until("wn", "systemctl is-system-running | grep -x running || true", "running")
    code, said = xopera.run("deploy", "--resume", "--force", "-i", "inputs.yaml", "service.yaml")
    assert code == 0 and xopera.status() == "deployed", said[-6000:]


def test_outputs_are_right(cluster: Cluster, xopera: XOpera) -> None:
    code, said = xopera.run("outputs", "--format", "yaml")
    assert code == 0, said
    outputs = {name: one["value"] for name, one in yaml.safe_load(said).items()}
    assert outputs == {
        "cluster_ip": f"{cluster.label}-front",
        "wn_ips": [f"{cluster.label}-wn"],
        "gpu_wn_ips": [f"{cluster.label}-gpuwn"],
    }


def test_a_users_job_has_its_gpu_and_no_other(cluster: Cluster, xopera: XOpera) -> None:
    program = 'for n in 0 1; do (: </dev/nvidia$n) 2>&1 | sed "s/.*: //"; done'
    said = cluster.out("front", f"runuser -u ada -- srun --chdir=/tmp --gres=gpu:a100:1 sh -c '{program}'").splitlines()
    assert sorted(said) == ["No such device or address", "Operation not permitted"]
    assert cluster.out("front", "runuser -u eve -- srun --chdir=/tmp --nodes=2 hostname").split() != []
    # The same number on each host.
    assert len({cluster.out(host, "id -u ada") for host in ("front", "wn", "gpuwn")}) == 1


@pytest.mark.parametrize(
    ("gpus", "more", "sentence"),
    [
        (3, {}, "has 2 GPUs NVIDIA, and the template asks for 3: choose another flavor or site"),
        (1, {"worker_gpu_model": "T4"}, "has 0 GPUs NVIDIA T4, and the template asks for 1"),
        # Nothing says how much memory the simulated ones have.
        (1, {"worker_gpu_memory": "40 GB"}, "has 0 GPUs NVIDIA with at least 40 GB, and the template asks for 1"),
        (2, {"worker_mig_profile": "1g.10gb"}, "has 0 MIG instances 1g.10gb of GPUs NVIDIA, and the template asks for 2"),
        (17, {}, "num_gpus of a worker is 17: write a number from 0 to 16."),
    ],
)
def test_a_worker_without_its_gpus_is_refused(cluster: Cluster, gpus: int, more: dict[str, str], sentence: str) -> None:
    wanted = {"worker_gpus": gpus, "worker_gpu_vendor": "NVIDIA", "worker_device_root": "/var/lib/gpu_simulator", **more}
    said = cluster.playbook("tosca/artifacts/worker.yml", "--limit", "gpuwn", variables=wanted, succeeds=False)
    assert sentence in " ".join(said.split())


def test_a_worker_with_its_gpus_passes(cluster: Cluster) -> None:
    wanted = {"worker_gpus": 2, "worker_gpu_vendor": "NVIDIA", "worker_gpu_model": "A100", "worker_device_root": "/var/lib/gpu_simulator"}
    cluster.playbook("tosca/artifacts/worker.yml", "--limit", "gpuwn", variables=wanted)


def accounts(cluster: Cluster, names: dict[str, str], succeeds: bool = True) -> str:
    """Run the playbook of the users, by name with their keys, as the role tosca_site does."""
    given = users([{"os_user_name": name, "os_user_ssh_public_key": key} for name, key in names.items()])
    said = cluster.playbook("playbooks/tosca_accounts.yml", variables={"tosca_accounts_users": given}, succeeds=succeeds)
    return " ".join(said.split())


def login(cluster: Cluster, name: str) -> str:
    line = f"ssh -o StrictHostKeyChecking=no -o BatchMode=yes -i /root/key {name}@localhost id -un"
    return (cluster.run("front", line).stdout or "").strip()


def test_a_users_links_lead_root_nowhere_and_keys_count_as_long_as_they_are_named(cluster: Cluster, xopera: XOpera) -> None:
    cluster.out("front", "rm -f /root/key; ssh-keygen -q -t ed25519 -N '' -f /root/key")
    key = " ".join(cluster.out("front", "cat /root/key.pub").split()[:2])
    before = cluster.out("front", "stat --format '%a %U %G' /etc/profile.d; ls -l /etc/profile.d")
    cluster.out("front", "runuser -u ada -- sh -c 'rm -rf ~/.ssh ~/jobs; ln -s /etc/profile.d ~/.ssh; ln -s /etc/profile.d ~/jobs'")
    accounts(cluster, {"ada": key, "eve": ""})
    assert cluster.out("front", "stat --format '%a %U %G' /etc/profile.d; ls -l /etc/profile.d") == before
    assert (login(cluster, "ada"), login(cluster, "eve")) == ("ada", "")
    assert "changed=0" in accounts(cluster, {"ada": key, "eve": ""})
    # A key that ada adds does not count, and neither does one that left the template.
    cluster.out("front", f"runuser -u ada -- sh -c 'rm ~/.ssh ~/jobs; mkdir -m 700 ~/.ssh; echo {key} >~/.ssh/authorized_keys'")
    accounts(cluster, {"ada": "", "eve": ""})
    assert login(cluster, "ada") == ""


def test_who_is_no_longer_named_cant_log_in_and_comes_back_as_the_same(cluster: Cluster, xopera: XOpera) -> None:
    key = " ".join(cluster.out("front", "cat /root/key.pub").split()[:2])
    number = cluster.out("front", "id -u ada")
    accounts(cluster, {"eve": ""})
    for host in ("front", "wn", "gpuwn"):
        assert cluster.out(host, "getent passwd ada | cut -d: -f7") == "/usr/sbin/nologin"
        assert cluster.out(host, "ls /etc/ssh/tosca_keys") == ""
    accounts(cluster, {"ada": key, "eve": ""})
    assert (login(cluster, "ada"), cluster.out("front", "id -u ada")) == ("ada", number)
    accounts(cluster, {"ada": "", "eve": ""})


def test_what_an_administrator_made_stays_and_is_named(cluster: Cluster, xopera: XOpera) -> None:
    """A home that is a link of root's, and another member of the group."""
    cluster.out("wn", "mv /home/ada /srv/ada && ln -s /srv/ada /home/ada && useradd --uid 1600 carl && gpasswd --add carl tosca_users")
    try:
        said = accounts(cluster, {"ada": "", "eve": ""})
        assert "On wn is left alone: carl: in the group by hand; ada: the home /home/ada belongs to the uid 0" in said
        assert "changed=0" in said
        assert "carl" in cluster.out("wn", "getent group tosca_users")
        assert cluster.out("wn", "getent passwd carl | cut -d: -f7") != "/usr/sbin/nologin"
    finally:
        cluster.out("wn", "userdel carl; rm /home/ada; mv /srv/ada /home/ada")


def test_a_name_that_a_host_has_already_is_refused_before_anything_is_changed(cluster: Cluster, xopera: XOpera) -> None:
    cluster.out("gpuwn", "useradd --uid 1500 bob")
    try:
        said = accounts(cluster, {"ada": "", "eve": "", "bob": ""}, succeeds=False)
        assert "On gpuwn bob: an account bob with the uid 1500 exists" in said
        assert cluster.run("front", "getent passwd bob").stdout == ""
    finally:
        cluster.out("gpuwn", "userdel bob")


def test_secrets_are_in_no_file_but_roots_own(cluster: Cluster, xopera: XOpera) -> None:
    assert cluster.out("front", "stat --format '%a %U' /etc/deephdc/tosca_secrets.json").strip() == "600 root"
    key = cluster.out("front", 'python3 -c \'import json; print(json.load(open("/etc/deephdc/tosca_secrets.json"))["munge_key"])\'').strip()
    assert len(key) > 100
    kept = [path for path in xopera.folder.rglob("*") if path.is_file() and key in path.read_text(encoding="utf-8", errors="replace")]
    assert kept == []


@pytest.mark.parametrize(
    "text",
    [
        "{{ lookup('pipe', 'touch /tmp/tosca-ran') }}",
        "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ lookup('pipe', 'touch /tmp/tosca-ran') ]]",
    ],
)
def test_an_input_that_is_a_template_is_a_text(cluster: Cluster, text: str) -> None:
    wanted = {"worker_gpus": 1, "worker_gpu_model": text}
    said = cluster.playbook("tosca/artifacts/worker.yml", "--limit", "gpuwn", variables=wanted, succeeds=False)
    assert "has 0 GPUs" in said and "lookup('pipe', 'touch" in said and not Path("/tmp/tosca-ran").exists()


def test_settings_that_reach_for_the_machine_of_the_orchestrator_are_refused(cluster: Cluster) -> None:
    wanted = {"cluster_workers": [], "cluster_settings": "ansible_ssh_common_args: '-o ProxyCommand=\"touch /tmp/tosca-ran\"'"}
    said = cluster.playbook("tosca/artifacts/slurm.yml", "--limit", "front", variables=wanted, succeeds=False)
    assert "The settings of the template have 'ansible_ssh_common_args', which a template must not set" in said
    assert not Path("/tmp/tosca-ran").exists()


def test_undeploy_drains_the_workers_and_waits_for_their_jobs(cluster: Cluster, xopera: XOpera) -> None:
    job = "while [ ! -e /tmp/go ]; do sleep 1; done; echo done"
    cluster.out("front", f"runuser -u ada -- sbatch --chdir=/tmp --nodelist=gpuwn --gres=gpu:1 --output=/tmp/last.txt --wrap '{job}'")
    cluster.until("front", "squeue --noheader --user=ada --format=%T", "RUNNING")
    with ThreadPoolExecutor() as pool:
        undeployed = pool.submit(xopera.run, "undeploy")
        try:
            cluster.until("front", "sinfo --noheader --nodes=gpuwn --format=%T", "draining", 300)
            assert not undeployed.done()
        finally:
            cluster.out("gpuwn", "touch /tmp/go")
        code, said = undeployed.result()
    assert code == 0, said[-6000:]
    assert cluster.out("gpuwn", "cat /tmp/last.txt") == "done"
    assert cluster.out("front", "sinfo --noheader --Node --format='%T %E' | sort -u") == "drained leaves the deployment"
    assert xopera.status() != "deployed"


def test_another_deployment_resumes_the_workers(cluster: Cluster, xopera: XOpera) -> None:
    code, said = xopera.run("deploy", "-i", "inputs.yaml", "service.yaml")
    assert code == 0 and xopera.status() == "deployed", said[-6000:]
    assert cluster.out("front", "runuser -u eve -- srun --chdir=/tmp --nodes=2 hostname | sort").split() == ["gpuwn", "wn"]
