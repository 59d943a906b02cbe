"""NVIDIA's container toolkit, the real one: engines are configured, a container gets the GPU it asks for, bad settings are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_host_site import PLAYBOOK, told
from local import Cluster, changed

OWNS = (
    "roles/nvidia_container_toolkit",
    "plugins/filter/apt.py",
    "plugins/modules/nvidia_container_engine.py",
    "tests/stand_ins/nvidia_toolkit_package",
)

TOOLKIT = ("--tags", "nvidia_container_toolkit")
SPECIFIED = ("--tags", "validate", "--skip-tags", "gpu_check")
SPECIFICATION = "/var/run/cdi/nvidia.yaml"
# A container of the host's own programs: no image is needed, and none could be had.
RUN = (
    "podman --log-level=error --cgroup-manager=cgroupfs run --rm --network=none --cgroups=disabled"
    " --volume=/usr:/usr:ro {} --rootfs /root/rootfs {}"
)


def inside(cluster: Cluster, options: str) -> list[str]:
    """GPUs in a container."""
    return cluster.out("gpu1", RUN.format(options, "ls /dev") + " | grep nvidia || true").split()


@pytest.fixture(scope="module")
def specification(cluster: Cluster) -> Iterator[None]:
    """What NVIDIA's unit would generate by NVML on a host with a driver, from the list of simulated devices by the same program."""
    cluster.out(
        "gpu1",
        "cd /root; mkdir -p rootfs/dev rootfs/proc rootfs/sys rootfs/etc rootfs/run rootfs/tmp rootfs/usr; ln -sfn usr/bin rootfs/bin;"
        " ln -sfn usr/lib rootfs/lib; ln -sfn usr/lib64 rootfs/lib64; echo 'dev, /dev/nvidia0' > devices.csv;"
        f" nvidia-ctk --quiet cdi generate --mode=csv --csv.file=devices.csv --output={SPECIFICATION}",
    )
    yield
    cluster.out("gpu1", f"rm -rf /root/rootfs /root/devices.csv {SPECIFICATION}")


def test_the_units_that_write_the_specification_are_on(cluster: Cluster):
    assert cluster.out("gpu1", "systemctl is-enabled nvidia-cdi-refresh.path nvidia-cdi-refresh.service").split() == ["enabled", "enabled"]
    assert cluster.out("gpu1", "systemctl is-active nvidia-cdi-refresh.path") == "active"


def test_containerd_runs_with_the_runtime(cluster: Cluster):
    """The daemon's own view: it read the file that nvidia-ctk wrote, and what the site had in it is still there."""
    configured = cluster.out("gpu1", "containerd config dump")
    assert "runtimes.nvidia]" in configured
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in configured
    assert 'bin_dir = "/usr/lib/cni"' in configured
    started = cluster.out("gpu1", "stat -c %Y /proc/$(systemctl show -P ExecMainPID containerd)")
    assert int(started) >= int(cluster.out("gpu1", "stat -c %Y /etc/containerd/conf.d/99-nvidia.toml"))


def test_a_setting_that_somebody_removed_comes_back_and_containerd_reads_it(cluster: Cluster):
    process = cluster.out("gpu1", "systemctl show -P ExecMainPID containerd")
    cluster.out("gpu1", "sed -i 's,/usr/bin/nvidia-container-runtime,/bin/false,' /etc/containerd/conf.d/99-nvidia.toml")
    assert changed(cluster.playbook(PLAYBOOK, *TOOLKIT)) == [
        "deephdc.accelerators.nvidia_container_toolkit : Configure container engines for NVIDIA's runtime: gpu1",
        "deephdc.accelerators.nvidia_container_toolkit : Make the container engines read their configuration: gpu1",
    ]
    assert "/bin/false" not in cluster.out("gpu1", "containerd config dump")
    assert cluster.out("gpu1", "systemctl show -P ExecMainPID containerd") != process
    kept = "/etc/containerd/conf.d/99-nvidia.toml.before-deephdc"
    assert "/bin/false" in cluster.out("gpu1", f"cat {kept} && rm {kept}")
    assert changed(cluster.playbook(PLAYBOOK, *TOOLKIT)) == []


def test_without_a_driver_the_reason_is_told(cluster: Cluster):
    said = told(cluster.playbook(PLAYBOOK, *SPECIFIED, variables={"nvidia_driver_image": False}, succeeds=False))
    assert "gpu1: the device specification names no GPU, so containers get none" in said
    assert "Skipped due to ''exec-condition''" in said


def test_a_container_gets_the_gpu_that_it_asks_for(cluster: Cluster, specification: None):
    assert inside(cluster, "") == []
    assert inside(cluster, "--device=nvidia.com/gpu=0") == ["nvidia0"]
    cluster.playbook(PLAYBOOK, *SPECIFIED, variables={"nvidia_driver_image": False})


def test_a_container_that_asks_for_a_gpu_that_is_not_there_does_not_start(cluster: Cluster, specification: None):
    failed = cluster.run("gpu1", RUN.format("--device=nvidia.com/gpu=7", "ls /dev"))
    assert failed.returncode != 0
    assert "unresolvable CDI devices nvidia.com/gpu=7" in failed.stderr


def test_an_engine_that_is_not_there_is_refused(cluster: Cluster):
    said = told(cluster.playbook(PLAYBOOK, *TOOLKIT, variables={"nvidia_container_toolkit_engines": ["crio"]}, succeeds=False))
    assert "nvidia_container_toolkit_engines of gpu1 names crio, which the host does not have" in said


def test_a_source_that_can_t_be_read_is_taken_away_again(cluster: Cluster):
    source = "/etc/apt/sources.list.d/deephdc-nvidia-container-toolkit.sources"
    before = cluster.out("gpu1", f"cat {source}")
    key = (cluster.secrets / "nvidia_toolkit.asc").read_text(encoding="utf-8")
    down = {"nvidia_container_toolkit_repository": {"uri": "http://gpu1:9/nothing", "suite": "./", "key": key}}
    cluster.out("gpu1", f"rm {source}")
    said = told(cluster.playbook(PLAYBOOK, *TOOLKIT, variables=down, succeeds=False))
    assert "gpu1 can't get nvidia-container-toolkit-base from http://gpu1:9/nothing" in said
    assert cluster.run("gpu1", f"test -e {source}").returncode != 0
    cluster.playbook(PLAYBOOK, *TOOLKIT)
    assert cluster.out("gpu1", f"cat {source}") == before
