"""What a policy of accounts makes in the cluster, for several files of tests."""

from __future__ import annotations

from kubernetes_site import Site

OURS = "app.kubernetes.io/part-of=deephdc-accelerators-policy"


def forget_policy(site: Site) -> None:
    """Leave no trace of it: the playbook leaves all as it is when there is no policy any more."""
    site.kubectl(f"delete namespaces,priorityclasses,clusterroles -l {OURS}")
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings"
    site.kubectl(f"delete {kinds} -l {OURS}")
