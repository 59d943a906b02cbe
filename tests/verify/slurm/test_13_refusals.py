"""What a run refuses changes nothing, or is taken back."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from local import ROOT, Cluster, changed
from slurm_site import SITE, forget, snapshot, words

OWNS = (
    "playbooks/site_check.yml",
    "plugins/action/site_lock.py",
    "plugins/modules/site_lock.py",
    "plugins/plugin_utils/_site_lock.py",
    "roles/site_check",
    "roles/slurm_cluster/tasks/read_hosts.yml",
    "roles/slurm_cluster/tasks/take_back.yml",
    "plugins/filter/site_check.py",
    "plugins/module_utils/_slurm/shapes.py",
    "plugins/plugin_utils/_slurm/inventory.py",
    "plugins/plugin_utils/_slurm/known_settings.py",
    "tests/data/other_variables",
)


def test_a_configuration_that_slurmctld_does_not_start_with_is_taken_back(cluster: Cluster):
    before = snapshot(cluster)
    variables = {"slurm_cluster_settings": {"PriorityType": "priority/nonsense"}}
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", variables=variables, succeeds=False)
    assert "The new configuration was taken back, the cluster runs with the one before: slurmctld" in words(output)
    after = snapshot(cluster)
    # The nodes report to the restarted controller a moment later.
    assert {k: v for k, v in after.items() if k != "nodes"} == {k: v for k, v in before.items() if k != "nodes"}
    for name in ("gpu1", "gpu2"):
        cluster.until("ctl", f"sinfo -h -n {name} -p all -o %T", "idle")


def test_a_member_outside_of_the_run_that_hangs_is_named_and_nothing_changes(cluster: Cluster, tmp_path: Path):
    """Without its facts slurm.conf would have a node less."""
    before = snapshot(cluster)
    cluster.out("gpu2", r"printf '#!/bin/sh\nsleep 600\n' > /root/hangs; chmod +x /root/hangs")
    hangs = tmp_path / "hangs.yml"
    hosts = {"gpu2": {"ansible_python_interpreter": "/root/hangs"}}
    hangs.write_text(json.dumps({"all": {"children": {"local_hosts": {"hosts": hosts}}}}), encoding="utf-8")
    begin = time.monotonic()
    limited = ("--limit", "gpu1", "--flush-cache", "--tags", "slurm_cluster")
    inventories = ("hosts.yml", str(hangs))
    try:
        output = cluster.playbook(SITE, *limited, inventories=inventories, variables={"site_check_absent_seconds": 10}, succeeds=False)
    finally:
        cluster.out("gpu2", "rm /root/hangs")
    assert time.monotonic() - begin < 180
    assert "No facts of gpu2 are known: it did not answer and nothing is cached; bring it up" in words(output)
    assert changed(output) == []
    assert snapshot(cluster) == before


def test_an_unsupported_distribution_is_refused(cluster: Cluster):
    version = cluster.out("login", "cat /etc/debian_version")
    cluster.out(
        "login", "cp /usr/lib/os-release /tmp/os-release; echo 11.9 > /etc/debian_version; sed -i '/^VERSION_ID=/d' /usr/lib/os-release"
    )
    try:
        output = cluster.playbook(SITE, "--flush-cache", succeeds=False)
    finally:
        cluster.out("login", f"cp /tmp/os-release /usr/lib/os-release; echo {version} > /etc/debian_version")
        forget(cluster, "login")
    assert "login runs Debian 11, which is not supported (supported: Debian 12, Debian 13)" in words(output)
    assert changed(output) == []


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"slurm_cluster_partitions": [{"name": "big", "gpu_types": ["h100"]}]},
            "slurm_cluster_partitions: partition big asks for GPU type h100, which none of the nodes gpu[1-2] has; they have a100, t4.",
        ),
        (
            {"slurm_cluster_settings": {"SchedulerTypo": "sched/backfill"}},
            "slurm_cluster_settings has SchedulerTypo, which SLURM RELEASE does not know: did you mean SchedulerType?",
        ),
        (
            {"slurm_cluster_settings": {"HealthCheckInterval": "often"}},
            "/etc/slurm/slurm.conf was left as it was, because the new content was refused",
        ),
    ],
)
def test_what_the_facts_or_slurms_parser_refuse_changes_nothing(cluster: Cluster, variables: dict, sentence: str):
    before = snapshot(cluster)
    output = cluster.playbook(SITE, "--tags", "slurm_cluster", variables=variables, succeeds=False)
    # Debian's own of this release, such as 22.05.
    release = cluster.out("ctl", "dpkg-query --show --showformat='${Version}' slurmctld")[:5]
    assert sentence.replace("RELEASE", release) in words(output)
    assert changed(output) == []
    assert snapshot(cluster) == before


def test_an_address_that_no_controller_can_resolve_is_refused_and_a_check_says_so(cluster: Cluster, tmp_path: Path):
    before = snapshot(cluster)
    strange = tmp_path / "strange.yml"
    hosts = {"gpu1": {"slurm_cluster_address": "gpu1.no-such-name.invalid"}}
    strange.write_text(json.dumps({"all": {"children": {"slurm_nodes": {"hosts": hosts}}}}), encoding="utf-8")
    for check in ([], ["--check"]):
        output = cluster.playbook(SITE, "--tags", "slurm_cluster", *check, inventories=("hosts.yml", str(strange)), succeeds=False)
        assert "gpu1.no-such-name.invalid in slurm_cluster_address is no name that ctl can resolve" in words(output)
        assert changed(output) == []
    assert snapshot(cluster) == before


@pytest.mark.parametrize(
    ("variables", "hosts", "sentence"),
    [
        ({}, {"gpu1": {"slurm_cluster_node_settings": {"State": "DOWN"}}}, "slurm_cluster_node_settings of gpu1 sets State"),
        ({"slurm_cluster_settings": {"DownNodes": "gpu1"}}, {}, "slurm_cluster_settings sets DownNodes"),
        (
            {},
            {"gpu1": {"slurm_cluster_node_settings": {"SocketsPerBoard": 2, "CoresPerSocket": 1}}},
            "The cores of gpu1 change (socketsperboard 1 to 2, corespersocket 2 to 1)",
        ),
        ({"slurm_cluster_settings": {"SlurmdTimeout": 1}}, {}, "Set 30 or more, or 0 for never."),
        ({"slurm_cluster_settings": {"SlurmctldPort": 6999}}, {}, "runs with SlurmctldPort=6817, but jobs run on gpu1."),
    ],
)
def test_settings_that_end_jobs_are_refused_while_one_runs(cluster: Cluster, tmp_path: Path, variables: dict, hosts: dict, sentence: str):
    job = cluster.out("login", "sbatch --parsable --output=/dev/null -w gpu1 --wrap='sleep 600'", user="ada")
    try:
        cluster.until("login", f"squeue -h -o %T -j {job}", "RUNNING")
        inventories = ["hosts.yml"]
        if hosts:
            more = tmp_path / "more.yml"
            more.write_text(json.dumps({"all": {"children": {"slurm_nodes": {"hosts": hosts}}}}), encoding="utf-8")
            inventories.append(str(more))
        for options in ((), ("--check",)):
            said = cluster.playbook(SITE, *options, inventories=inventories, variables=variables, succeeds=False)
            assert sentence in words(said)
            assert changed(said) == []
        assert cluster.out("login", f"squeue -h -o %T -j {job}") == "RUNNING"
    finally:
        cluster.out("login", f"scancel {job}", user="ada")


def test_another_port_of_slurmctld_reaches_every_node(cluster: Cluster):
    """Also at a node's next boot, when slurmd knows only its options."""
    try:
        cluster.playbook(SITE, variables={"slurm_cluster_settings": {"SlurmctldPort": 6999}})
        for name in ("gpu1", "gpu2"):
            assert ":6999" in cluster.out(name, "cat /etc/default/slurmd")
            cluster.out(name, "systemctl stop slurmd; rm -r /var/lib/slurm/slurmd/conf-cache; systemctl start slurmd")
            cluster.until("ctl", f"sinfo -h -n {name} -p all -o %T", "idle")
        assert cluster.out("login", "srun -w gpu1 --mem=50 hostname", user="ada") == "gpu1"
    finally:
        cluster.playbook(SITE)
    assert cluster.out("login", "srun -w gpu1 --mem=50 hostname", user="ada") == "gpu1"


LOCK = "/run/deephdc/site_lock"


@contextlib.contextmanager
def a_run(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A run of the site's playbook that has the lock of the site, and stands still."""
    words = cluster.command(SITE, ["--tags", "slurm_cluster"], ("hosts.yml",))
    environment = cluster.environment()
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            # Its own: that of the run before goes a moment after its end.
            cluster.until("ctl", f"cat {LOCK} || true", f" {running.pid} ")
            running.send_signal(signal.SIGSTOP)
            yield running
        finally:
            running.kill()


def test_a_second_run_is_refused_while_one_is_going_on(cluster: Cluster):
    """Both were green, and one operator's change was gone."""
    with a_run(cluster) as running:
        said = cluster.playbook(SITE, succeeds=False)
        assert "Another run is going on at this site: " in words(said) and "with slurm.yml, since 20" in words(said)
        assert changed(said) == []
        # Who only looks is let in.
        cluster.playbook(SITE, "--check", "--tags", "slurm_cluster")
        running.send_signal(signal.SIGCONT)
        text, _nothing = running.communicate(timeout=300)
        assert running.returncode == 0 and changed(text) == []
    cluster.until("ctl", f"test -e {LOCK} || echo free", "free", seconds=10)


def test_a_killed_run_gives_the_lock_back(cluster: Cluster):
    with a_run(cluster) as running:
        running.kill()
    cluster.until("ctl", f"test -e {LOCK} || echo free", "free", seconds=10)


def test_the_lock_of_a_run_that_died_with_its_keeper_is_taken_over(cluster: Cluster):
    with a_run(cluster) as running:
        text = cluster.out("ctl", f"cat {LOCK}")
        running.kill()
    cluster.until("ctl", f"test -e {LOCK} || echo free", "free", seconds=10)
    # As it is where all processes of a session are ended at once.
    cluster.out("ctl", f"cat > {LOCK} <<'END'\n{text}\nEND")
    said = cluster.playbook(SITE, "--tags", "slurm_cluster", "--limit", "ctl")
    assert "Another run ended without giving the lock of the site back: " in words(said)


def test_a_lock_of_another_control_node_ends_by_itself_or_by_name(cluster: Cluster):
    until = int(cluster.out("ctl", "cut -d. -f1 /proc/uptime")) + 170
    other = f"0123456789ab {until} elsewhere-1 77 88\nemmy on admin2 with slurm.yml, since 2026-11-28 14:02 UTC"
    cluster.out("ctl", f"mkdir -p /run/deephdc; printf '%b\\n' '{other}' > {LOCK}")
    limited = ("--tags", "slurm_cluster", "--limit", "ctl")
    said = cluster.playbook(SITE, *limited, succeeds=False)
    assert "Another run is going on at this site: emmy on admin2 with slurm.yml, since 2026-11-28 14:02 UTC (lock on ctl)." in words(said)
    assert "-e site_check_ended_run=0123456789ab" in words(said) and changed(said) == []
    said = cluster.playbook(SITE, *limited, variables={"site_check_ended_run": "0123456789ab"})
    assert "emmy on admin2 with slurm.yml, since 2026-11-28 14:02 UTC. This run has it now." in words(said)
