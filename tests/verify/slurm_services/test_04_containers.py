"""The roles udocker and podman: containers in jobs.

The image is made here, as no registry is asked for one.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from local import ROOT, Cluster
from slurm_jobs import OPEN, ended, submit

OWNS = (
    "playbooks/job_containers.yml",
    "roles/container_gpu",
    "roles/podman",
    "roles/udocker",
    "plugins/module_utils/_host/subordinate_ids.py",
    "plugins/modules/subordinate_ids.py",
    "tests/stand_ins/libcuda.c",
    "tests/verify/slurm_services/in_container.c",
)

PROGRAM = (Path(__file__).parent / "in_container.c").read_text(encoding="utf-8")
LIBCUDA = (ROOT / "tests/stand_ins/libcuda.c").read_text(encoding="utf-8")

# A root with one program, the loader and the C library.
IMAGE = f"""
cat > in_container.c <<'END'
{PROGRAM}END
cat > libcuda.c <<'END'
{LIBCUDA}END
machine=$(uname -m)
lib=usr/lib/$machine-linux-gnu
mkdir -p image/bin image/etc image/proc image/sys image/dev image/run image/tmp image/root image/$lib
ln -sfn usr/lib image/lib
cp -L /lib/$machine-linux-gnu/libc.so.6 image/$lib
loader=$(readelf -l /bin/true | sed -n 's/.*interpreter: \\(.*\\)]/\\1/p')
mkdir -p image$(dirname $loader) && cp -L $loader image$loader
echo root:x:0:0:root:/root:/bin/sh > image/etc/passwd
gcc -o image/bin/in_container in_container.c
echo 'int main(void) {{ return 0; }}' | gcc -static -x c -o image/bin/static -
gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.550.1 libcuda.c
tar -cf image.tar -C image .
"""

# As Debian's packages of the driver leave it: a chain of links to a folder that the loader does not search.
DRIVER = """
folder=/usr/lib/$(uname -m)-linux-gnu
mkdir -p $folder/nvidia/current
mv /home/ada/libcuda.so.550.1 $folder/nvidia/current/
ln -s libcuda.so.550.1 $folder/nvidia/current/libcuda.so.1
ln -s $folder/nvidia/current/libcuda.so.1 /etc/alternatives/stand_in--libcuda.so.1
ln -s /etc/alternatives/stand_in--libcuda.so.1 $folder/libcuda.so.1
ldconfig
"""
NO_DRIVER = """
folder=/usr/lib/$(uname -m)-linux-gnu
rm -rf $folder/nvidia $folder/libcuda.so.1 /etc/alternatives/stand_in--libcuda.so.1
ldconfig
"""

RUN = {
    "podman": """export PODMAN_IGNORE_CGROUPSV1_WARNING=1
podman import --quiet image.tar local/box:1 >/dev/null
podman run --rm local/box:1 /bin/in_container {seconds}""",
    "udocker": """udocker --quiet import image.tar local/box:1 >/dev/null
udocker --quiet run --rm local/box:1 /bin/in_container {seconds}""",
}


@pytest.fixture(scope="module", autouse=True)
def image(cluster: Cluster):
    """Built by a user on the login host, which has compilers, and taken to the user's home on the node; with a driver's library there."""
    cluster.out("login", IMAGE, user="ada")
    for name in ("image.tar", "libcuda.so.550.1"):
        content = subprocess.run(
            ["docker", "exec", f"{cluster.label}-login", "cat", f"/home/ada/{name}"], stdout=subprocess.PIPE, check=True, timeout=60
        ).stdout
        subprocess.run(
            ["docker", "exec", "-i", "--user", "ada", f"{cluster.label}-gpu1", "tee", f"/home/ada/{name}"],
            input=content,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
    cluster.out("gpu1", DRIVER)
    yield
    cluster.run("gpu1", NO_DRIVER)
    # A container's files may belong to ids that only podman can remove.
    cluster.run("gpu1", "podman system reset --force; rm -rf ~/.local/share/containers ~/.udocker image.tar", user="ada")
    cluster.run("login", "rm -rf image image.tar libcuda.* in_container.c job.sh", user="ada")
    cluster.run("gpu1", "rm -f /tmp/job-*.out")


def seen(cluster: Cluster, runtime: str, gpus: int) -> dict[str, int]:
    """What the program in the container says, in a job with so many GPUs."""
    gres = f"--gres=gpu:a100:{gpus}" if gpus else ""
    job = submit(cluster, f"{gres} --chdir=/home/ada --nodelist=gpu1 --time=2", RUN[runtime].format(seconds=0))
    (row,) = ended(cluster, job)
    output = cluster.out("gpu1", f"cat /tmp/job-{job}_4294967294.out")
    assert row["State"] == "COMPLETED", output
    return {line.split()[0]: int(line.split()[1]) for line in output.splitlines() if line.startswith(("/dev/", "cuda "))}


def let_in(said: dict[str, int]) -> list[str]:
    return [path for path, error in said.items() if path.startswith("/dev/") and error in OPEN]


@pytest.mark.parametrize("runtime", ["udocker", "podman"])
def test_a_container_opens_its_jobs_gpu_only_and_loads_the_hosts_library(cluster: Cluster, runtime: str):
    said = seen(cluster, runtime, gpus=1)
    assert len(let_in(said)) == 1
    # Not even the other one's file is there (ENOENT).
    assert [error for error in said.values() if error not in (*OPEN, 12040)] == [2]
    assert said["cuda"] == 12040


@pytest.mark.parametrize("runtime", ["udocker", "podman"])
def test_a_container_of_a_job_without_a_gpu_has_none_and_no_library(cluster: Cluster, runtime: str):
    said = seen(cluster, runtime, gpus=0)
    assert (let_in(said), said["cuda"]) == ([], 0)


def test_a_container_of_a_job_with_all_gpus_has_all(cluster: Cluster):
    assert let_in(seen(cluster, "podman", gpus=2)) == ["/dev/nvidia0", "/dev/nvidia1"]


@pytest.mark.parametrize("runtime", ["udocker", "podman"])
def test_a_container_ends_with_its_job(cluster: Cluster, runtime: str):
    job = submit(cluster, "--chdir=/home/ada --nodelist=gpu1 --time=2", RUN[runtime].format(seconds=90))
    cluster.until("gpu1", "pgrep -c in_container", "1", seconds=40)
    cluster.out("login", f"scancel {job}", user="ada")
    assert ended(cluster, job)[0]["State"].startswith("CANCELLED")
    # SLURM's KillWait (30 s) is for programs that do not end when they are asked, as the first one of a container.
    deadline = time.monotonic() + 45
    while cluster.run("gpu1", "pgrep in_container").returncode == 0:
        assert time.monotonic() < deadline, cluster.out("gpu1", "ps -ef")
        time.sleep(0.5)


def test_the_exit_status_of_a_container_is_its_programs(cluster: Cluster):
    runs = "; ".join(f"{command.format(seconds='0 7')}; echo $? >> said" for command in RUN.values())
    job = submit(cluster, "--chdir=/home/ada --nodelist=gpu1 --time=2", f"rm -f said; {runs}")
    ended(cluster, job)
    assert cluster.out("gpu1", "cat said; rm said", user="ada").split() == ["7", "7"]


def test_users_download_no_programs(cluster: Cluster):
    """What udocker does at its first use by a user, unless a setting forbids it."""
    assert cluster.run("login", "udocker install", user="eve").returncode == 0
    assert cluster.out("login", "find ~/.udocker -type f -name 'proot*'", user="eve") == ""
    cluster.run("login", "rm -rf ~/.udocker", user="eve")


# A site's archive, by its layout; what is in it is the distribution's.
ARCHIVE = """
mkdir -p site/udocker_dir/bin site/udocker_dir/lib site/udocker_dir/doc
cp /usr/bin/proot site/udocker_dir/bin/proot-$(uname -m)
echo 1.2.11 > site/udocker_dir/lib/VERSION
tar -czf archive.tar.gz -C site udocker_dir
sha256sum archive.tar.gz | cut -d' ' -f1
"""


def test_udockers_tools_come_from_a_sites_archive_with_the_right_checksum_only(cluster: Cluster):
    digest = cluster.out("login", ARCHIVE)
    source = {"udocker_tools_url": "file:///root/archive.tar.gz", "udocker_tools_checksum": f"sha256:{digest}"}
    arguments = ("--limit", "login", "--tags", "udocker")
    try:
        wrong = cluster.playbook(
            "playbooks/job_containers.yml", *arguments, variables={**source, "udocker_tools_checksum": "sha256:" + "0" * 64}, succeeds=False
        )
        assert "checksum" in wrong
        cluster.playbook("playbooks/job_containers.yml", *arguments, variables=source)
        cluster.out("login", "udocker --quiet import image.tar local/box:1", user="ada")
        said = cluster.out("login", "UDOCKER_LOGLEVEL=4 udocker run --rm local/box:1 /bin/static 2>&1", user="ada")
        assert "/usr/local/lib/udocker/archive/udocker_dir/bin/proot" in said
    finally:
        cluster.playbook("playbooks/job_containers.yml", *arguments)
        cluster.run("login", "rm -rf site archive.tar.gz /usr/local/lib/udocker/archive /home/ada/.udocker")
