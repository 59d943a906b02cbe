"""What tests of a SLURM cluster share beside its jobs: runs of the site's playbook, and what a cluster is."""

from __future__ import annotations

from local import Cluster

SITE = "playbooks/slurm.yml"
# Of an installed cluster: what a run compares and restarts.
INSTALLED = ("--skip-tags", "install,validate")
NODES = ("--tags", "slurm_cluster,slurm_node", *INSTALLED)

FILES = (
    "/etc/slurm/* /etc/munge/munge.key /etc/default/slurmd /etc/systemd/system/*.d/deephdc.conf /usr/local/libexec/deephdc/* "
    "/var/lib/slurm/slurmd/conf-cache/* /var/lib/deephdc/*"
)


def words(output: str) -> str:
    """A run's output without its line breaks."""
    return " ".join(output.split())


def forget(cluster: Cluster, host: str) -> None:
    """Remove a host's facts from the control node: they are no longer true."""
    for file in (cluster.state / "facts").glob(f"*{host}"):
        file.unlink()


def snapshot(cluster: Cluster, hosts: tuple[str, ...] = ("ctl", "login", "gpu1", "gpu2")) -> dict[str, str]:
    """What every host's files, units and the running controller's settings are; the controller is the first host."""
    seen = {}
    for name in hosts:
        files = f"$(ls -d {FILES} 2>/dev/null | sort)"
        seen[f"{name} files"] = cluster.out(name, f"sha256sum {files}; stat -c '%n %U:%G %a' {files}")
        seen[f"{name} units"] = cluster.out(name, "systemctl list-unit-files --state=enabled --no-legend")
        seen[f"{name} running"] = cluster.out(name, "systemctl is-active munge mariadb slurmdbd slurmctld slurmd; true")
    config = cluster.out(hosts[0], "scontrol show config").splitlines()
    seen["controller"] = "\n".join(line for line in config if not line.startswith(("Configuration data", "BOOT_TIME", "NEXT_JOB_ID")))
    seen["nodes"] = cluster.out(hosts[0], "sinfo -h -N -o '%N %P %T %G' | sort")
    return seen
