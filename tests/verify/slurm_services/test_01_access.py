"""Who comes in to a node, and who can open a GPU outside of a job."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from local import Cluster, changed
from slurm_jobs import OPEN, ended, look, opened, submit

OWNS = (
    "roles/gpu_access",
    "roles/slurm_node/tasks/ssh.yml",
    "roles/slurm_node/templates/sshd.pam.j2",
    "plugins/modules/gpu_access_probe.py",
)

SSH = "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=no"
HOSTS = ["login", "gpu1", "gpu2"]


@pytest.fixture(scope="module", autouse=True)
def key(cluster: Cluster):
    """ada's key, for herself and, as far as the test is concerned, for the hosts' administrators."""
    new = "rm -rf .ssh; mkdir -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cat .ssh/id_ed25519.pub"
    public = cluster.out("login", new, user="ada")
    for host in HOSTS:
        for user in ("ada", "operator", "root"):
            cluster.out(host, f"umask 077; mkdir -p .ssh; echo '{public}' > .ssh/authorized_keys", user)
    yield
    for host in HOSTS:
        for user in ("ada", "operator", "root"):
            cluster.out(host, "rm -r .ssh", user)


def ssh(cluster: Cluster, user: str, host: str, script: str) -> subprocess.CompletedProcess[str]:
    """A script in an ssh session from the login host."""
    return cluster.run("login", f"{SSH} {user}@{host} bash -s <<'SCRIPT'\n{script}\nSCRIPT", user="ada")


def seen(cluster: Cluster, user: str, host: str) -> list[str]:
    """The GPUs that an ssh session can open."""
    done = ssh(cluster, user, host, look())
    assert done.returncode == 0, done.stderr
    return [path for path, error in json.loads(done.stdout).items() if error in OPEN]


def refused(cluster: Cluster, host: str) -> bool:
    done = ssh(cluster, "ada", host, "true")
    return done.returncode != 0 and "Access denied by pam_slurm_adopt: you have no active jobs on this node" in done.stderr


def test_without_a_job_a_user_is_refused_in_slurms_words(cluster: Cluster):
    assert refused(cluster, "gpu1")
    assert refused(cluster, "gpu2")


@pytest.mark.parametrize("user", ["operator", "root"])
def test_administrators_come_in_always(cluster: Cluster, user: str):
    assert ssh(cluster, user, "gpu1", "id -un").stdout.strip() == user
    # They are no part of a job.
    assert seen(cluster, user, "gpu1") == ["/dev/nvidia0", "/dev/nvidia1"]


def test_a_session_is_a_part_of_the_job(cluster: Cluster):
    """It opens the job's GPU and no other, has its memory limit, and ends with it."""
    job = submit(cluster, "--gres=gpu:a100:1 --nodelist=gpu1 --mem=300", look() + "\nsleep 900")
    cluster.until("gpu1", f"cat /tmp/job-{job}_*.out", "nvidia")
    assert seen(cluster, "ada", "gpu1") == opened(cluster, "gpu1", job)
    assert len(opened(cluster, "gpu1", job)) == 1
    assert f"job_{job}/" in ssh(cluster, "ada", "gpu1", "grep -E 'memory|^0::/.*job' /proc/self/cgroup").stdout
    assert refused(cluster, "gpu2")

    began = time.monotonic()
    with subprocess.Popen(
        ["docker", "exec", "--user", "ada", f"{cluster.label}-login", *SSH.split(), "ada@gpu1", "nohup sleep 4321 & sleep 4321"]
    ) as session:
        cluster.until("gpu1", "pgrep -u ada -fxc 'sleep 4321'", "2")
        cluster.out("login", f"scancel {job}", user="ada")
        session.wait(60)
    assert time.monotonic() - began < 60
    assert ended(cluster, job)[0]["State"].startswith("CANCELLED")
    cluster.until("gpu1", "pgrep -u ada || echo none", "none", seconds=30)
    # SLURM's own process of the job goes a moment later.
    cluster.until("gpu1", "pgrep -f '[s]lurmstepd: .*extern' || echo none", "none", seconds=30)
    assert refused(cluster, "gpu1")


def without_rule(cluster: Cluster, host: str) -> bool:
    return "BEGIN Made by deephdc.accelerators" not in cluster.out(host, "cat /etc/pam.d/sshd")


def as_packaged(cluster: Cluster, host: str) -> bool:
    """Whether sshd's PAM file is the distribution's, apart from the marked block."""
    ours = cluster.out(host, "sed '/^# BEGIN Made by deephdc/,/^# END Made by deephdc/d' /etc/pam.d/sshd | md5sum").split()[0]
    return ours in cluster.out(host, "dpkg-query --show --showformat='${Conffiles}' openssh-server | grep /etc/pam.d/sshd")


def test_the_rule_is_a_block_that_goes_without_a_trace(cluster: Cluster):
    assert not without_rule(cluster, "gpu2") and as_packaged(cluster, "gpu2")
    others = "cat /etc/pam.d/common-* | md5sum"
    before = cluster.out("gpu2", others)
    narrow = ("playbooks/slurm.yml", "--limit", "gpu2", "--tags", "slurm_node", "--skip-tags", "install,service")
    cluster.playbook(*narrow, variables={"slurm_cluster_node_ssh": "everyone"})
    open_to_all = without_rule(cluster, "gpu2") and as_packaged(cluster, "gpu2"), ssh(cluster, "ada", "gpu2", "id -un").stdout.strip()
    back = cluster.playbook(*narrow)
    assert open_to_all == (True, "ada")
    assert len(changed(back)) == 2
    assert not without_rule(cluster, "gpu2") and as_packaged(cluster, "gpu2")
    assert refused(cluster, "gpu2")
    assert cluster.out("gpu2", others) == before


def test_who_runs_the_playbook_can_not_lock_themselves_out(cluster: Cluster):
    wanted = {"slurm_cluster_node_ssh_groups": ["wheel"]}
    said = cluster.playbook("playbooks/slurm.yml", "--limit", "gpu2", variables=wanted, succeeds=False)
    assert "Ansible logs in to gpu2 as operator, whom slurm_cluster_node_ssh: jobs would lock out" in " ".join(said.split())
    assert changed(said) == []


def test_on_a_login_host_users_reach_no_gpu(cluster: Cluster):
    assert cluster.out("login", "stat -c %a /dev/nvidia0") == "666"
    assert seen(cluster, "ada", "login") == []
    # Terminals are theirs as ever.
    terminal = cluster.run("login", f"{SSH} -tt ada@login 'echo to /dev/tty > /dev/tty; tty'", user="ada").stdout
    assert "to /dev/tty" in terminal and "/dev/pts/" in terminal
    for user in ("root", "operator"):
        assert seen(cluster, user, "login") == ["/dev/nvidia0"], user


def test_a_session_stays_confined_when_systemd_reloads(cluster: Cluster):
    script = "sleep 2; " + look()
    with subprocess.Popen(
        ["docker", "exec", "--user", "ada", f"{cluster.label}-login", *SSH.split(), "ada@login", script], stdout=subprocess.PIPE, text=True
    ) as session:
        cluster.until("login", "pgrep -u ada -fxc 'sleep 2'", "1")
        cluster.out("login", "systemctl daemon-reload")
        (text, _errors) = session.communicate(timeout=60)
    assert [path for path, error in json.loads(text).items() if error in OPEN] == []


def test_users_programs_that_cron_runs_reach_no_gpu(cluster: Cluster):
    script = look().split("\n", 1)[1].rsplit("\n", 1)[0]
    cluster.out("login", f"cat > look.py <<'END'\n{script}\nEND\ncrontab - <<< '@reboot python3 look.py > seen.json'", user="ada")
    # As after a boot.
    cluster.out("login", "rm -f /run/crond.reboot; systemctl restart cron")
    cluster.until("login", "cat ~ada/seen.json", "}")
    assert [path for path, error in json.loads(cluster.out("login", "cat ~ada/seen.json")).items() if error in OPEN] == []
    cluster.out("login", "crontab -r; rm look.py seen.json", user="ada")


# Started in a job without a GPU, these run after it and outside of it.
LEAVE = """cat > /tmp/ada-look.sh <<'SCRIPT'
#!/bin/sh
PROGRAM
SCRIPT
chmod 755 /tmp/ada-look.sh
echo '@reboot /tmp/ada-look.sh > /tmp/ada-cron.json 2>&1' | crontab -
echo '/tmp/ada-look.sh > /tmp/ada-at.json 2>&1' | at now
mkdir -p ~/.config/systemd/user/default.target.wants
printf '[Service]\\nExecStart=/bin/sh -c "/tmp/ada-look.sh > /tmp/ada-unit.json 2>&1"\\n' > ~/.config/systemd/user/look.service
ln -sf ../look.service ~/.config/systemd/user/default.target.wants/look.service
loginctl enable-linger ada
sleep 2"""
# As a mail server runs the pipe of a user's ~/.forward: in its own control group, as the user.
MAIL = """[Service]
User=ada
ExecStart=/bin/sh -c "/tmp/ada-look.sh > /tmp/ada-mail.json 2>&1"
"""


def leftovers(cluster: Cluster) -> dict[str, list[str]]:
    """What a user's programs outside of every job can open on gpu1, by what started them."""
    cluster.out("gpu1", "rm -f /tmp/ada-*")
    job = submit(cluster, "--nodelist=gpu1", LEAVE.replace("PROGRAM", look()))
    ended(cluster, job)
    # As after a boot.
    cluster.out("gpu1", "rm -f /run/crond.reboot; systemctl restart cron")
    cluster.out(
        "gpu1", f"printf '%s' '{MAIL}' > /run/systemd/system/mail.service; systemctl start mail; rm /run/systemd/system/mail.service"
    )
    cluster.out("gpu1", "systemctl daemon-reload")
    found = {}
    for name in ("cron", "at", "unit", "mail"):
        said = cluster.until("gpu1", f"cat /tmp/ada-{name}.json /tmp/job-{job}_4294967294.out", "nvidia")
        found[name] = [path for path, error in json.loads(said.splitlines()[0]).items() if error in OPEN]
    cluster.out("gpu1", "loginctl disable-linger ada; loginctl terminate-user ada; crontab -r -u ada")
    cluster.out("gpu1", "rm -rf /tmp/ada-* ~ada/.config/systemd")
    cluster.until("gpu1", "systemctl is-active user@2001 || true", "inactive")
    return found


def test_what_a_job_leaves_behind_for_later_reaches_no_gpu(cluster: Cluster):
    """cron, at, a lingering user's unit and a mail server opened every GPU of a node, after the job's end and unseen by accounting."""
    assert leftovers(cluster) == {"cron": [], "at": [], "unit": [], "mail": []}


def test_the_proof_fails_where_a_gpu_is_open_outside_of_jobs(cluster: Cluster):
    drop_ins = "/etc/systemd/system/{user-.slice,service}.d/50-deephdc-gpus.conf"
    cluster.out("gpu1", f"bash -c 'rm {drop_ins}'; systemctl daemon-reload")
    said = cluster.playbook("playbooks/slurm.yml", "--tags", "validate", succeeds=False)
    assert "Users' programs outside of jobs can open GPUs here, in a user's unit (/dev/nvidia0" in " ".join(said.split())
    opened_now = leftovers(cluster)
    assert all(paths for paths in opened_now.values()), opened_now
    repaired = cluster.playbook("playbooks/slurm.yml", "--tags", "gpu_access")
    assert len(changed(repaired)) == 2
    said = cluster.playbook("playbooks/slurm.yml", "--tags", "validate")
    # YAML doubles the apostrophe of "user's".
    assert "gpu[1-2]: GPUs are closed in a user''s unit and a new service and cron.service and atd.service and ssh.service" in " ".join(
        said.split()
    )
    assert leftovers(cluster) == {"cron": [], "at": [], "unit": [], "mail": []}
    assert cluster.out("gpu1", "systemctl list-units --all --no-legend 'run-[ru]*.service' 'user-60*' | wc -l") == "0", (
        "the proof left something"
    )


def in_service(cluster: Cluster, unit: str, path: str) -> bool:
    """Whether a program in the control group of this service's process opens the file; a GPU without a driver answers ENXIO."""
    look_here = f"import os; os.open('{path}', os.O_RDWR | os.O_NONBLOCK)"
    group = f"g=$(sed -n 's/^[0-9]*:devices://p' /proc/$(systemctl show -P MainPID {unit})/cgroup)"
    done = cluster.run("gpu2", f'set -e; {group}; echo $$ > /sys/fs/cgroup/devices$g/cgroup.procs; echo in $g; python3 -c "{look_here}"')
    assert done.stdout.startswith("in /"), done.stderr
    assert done.returncode == 0 or "No such device" in done.stderr or "not permitted" in done.stderr, done.stderr
    return "not permitted" not in done.stderr


@pytest.fixture
def monitoring(cluster: Cluster):
    """A site's own service that has a GPU open; of the real files, which have no driver here, none stays open."""
    cluster.out("gpu2", "mknod /dev/nvidia9 c 1 3; mknod /dev/other c 10 229")
    unit = "[Service]\\nExecStart=/bin/sh -c 'exec 3</dev/nvidia9; exec sleep 1000'\\n"
    cluster.out("gpu2", f'printf "{unit}" > /run/systemd/system/monitoring.service; systemctl start monitoring')
    cluster.until("gpu2", "find /proc/[0-9]*/fd -lname /dev/nvidia9 2>/dev/null | wc -l", "1")
    yield
    cluster.out("gpu2", "systemctl stop monitoring; rm /run/systemd/system/monitoring.service /dev/nvidia9 /dev/other")
    cluster.playbook("playbooks/slurm.yml", "--limit", "gpu2", "--tags", "gpu_access")


def test_a_service_that_reads_gpus_is_named_and_others_are_closed(cluster: Cluster, monitoring: None):
    only = ("playbooks/slurm.yml", "--limit", "gpu2", "--tags", "gpu_access")
    said = cluster.playbook(*only, succeeds=False)
    assert "GPUs of gpu2 are open in monitoring.service, and this run would close GPUs to services" in " ".join(said.split())
    assert changed(said) == []
    slurm = cluster.out("gpu2", "systemctl show -P ActiveEnterTimestampMonotonic slurmd")
    cluster.playbook(*only, variables={"gpu_access_services": ["slurmd.service", "monitoring.service"]})
    cluster.out("gpu2", "systemctl restart monitoring")
    opens = {unit: in_service(cluster, f"{unit}.service", "/dev/nvidia0") for unit in ("slurmd", "monitoring", "cron", "ssh")}
    assert opens == {"slurmd": True, "monitoring": True, "cron": False, "ssh": False}
    # What is no GPU stays as it was for services.
    assert all(in_service(cluster, "cron.service", path) for path in ("/dev/other", "/dev/ptmx", "/dev/urandom"))
    assert cluster.out("gpu2", "systemctl show -P ActiveEnterTimestampMonotonic slurmd") == slurm
    said = cluster.playbook(*only, variables={"gpu_access_services": ["slurmd.service", "monitoring.service"]})
    assert changed(said) == []


@pytest.mark.parametrize("name", ["monitoring", "../x.service", "a b.service"])
def test_what_is_no_service_is_refused(cluster: Cluster, name: str):
    wanted = {"gpu_access_services": ["slurmd.service", name]}
    said = cluster.playbook("playbooks/slurm.yml", "--limit", "gpu2", "--tags", "gpu_access", variables=wanted, succeeds=False)
    assert f"gpu_access_services of gpu2 names {name}, which is no service such as docker.service." in " ".join(said.split())
    assert changed(said) == []
