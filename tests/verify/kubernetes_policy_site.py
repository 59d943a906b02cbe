# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy of accounts, and what its users do, for several files of tests."""

from __future__ import annotations

import copy
import re
import shlex
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_accounts import forget_policy
from kubernetes_site import BUSYBOX, KUBECTL, PLAYBOOK, Site, User

Pod = dict[str, Any]

GROUPS = {"ada": ["physics"], "carl": ["physics"], "eve": ["biology"], "naive": ["naive"]}
POLICY: dict[str, Any] = {
    "qos": [{"name": "long", "priority": 10, "limits": {"per_job": {"wall": "00:10:00", "gpus": 3}}}, {"name": "urgent", "priority": 100}],
    "accounts": [
        {
            "name": "physics",
            "groups": ["iam:physics"],
            "qos": ["normal", "long"],
            "fairshare": 3,
            "limits": {
                "gpus": {"a100": 2, "any": 3},
                "cpus": 8,
                "memory": "16G",
                "jobs": 10,
                "submitted_jobs": 20,
                "gpu_minutes": 600,
                "per_job": {"gpus": 2, "cpus": 4, "memory": "4G", "wall": "00:01:00"},
            },
        },
        {"name": "biology", "groups": ["iam:biology"], "limits": {"gpus": 1}},
    ],
    "partitions": [{"name": "gpu", "accounts": ["physics"]}],
}
SMALL = {"cpu": "100m", "memory": "32Mi"}


def member(site: Site, user: str) -> User:
    """A user with a token of the IAM, at a host where users log in.

    Not the names that other rights of the site are for.
    """
    return site.as_user(f"member-{user}", GROUPS[user])


def without(*names: str, **changes: Any) -> dict[str, Any]:
    """The policy without some accounts; changes are of all others."""
    policy = copy.deepcopy(POLICY)
    policy["accounts"] = [{**account, **changes} for account in policy["accounts"] if account["name"] not in names]
    return policy


def bring(site: Site, policy: dict[str, Any], *arguments: str, succeeds: bool = True, **variables: Any) -> str:
    """Apply a policy alone, as the documentation says."""
    given = {"kubernetes_cluster_policy": policy, **variables}
    return site.playbook(PLAYBOOK, "--tags", "kubernetes_cluster", *arguments, variables=given, succeeds=succeeds)


def words(said: str) -> str:
    return " ".join(said.split())


def as_user(
    site: Site, user: str, command: str, given: dict[str, Any] | None = None, succeeds: bool = True, namespace: str = "physics"
) -> str:
    return member(site, user).kubectl(f"--namespace={namespace} {command}", given, succeeds)


def pod(name: str, program: str = "sleep 600", gpus: int = 0, **spec: Any) -> Pod:
    limits = {**SMALL, **({"nvidia.com/gpu": gpus} if gpus else {})}
    container = {
        "name": "c",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", program],
        "resources": {"limits": limits},
    }
    spec_of_pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    if not gpus:
        # There are nodes with GPUs only, which keep other pods away.
        spec_of_pod.setdefault("tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec_of_pod}


def job(name: str, program: str = "sleep 600", gpus: int = 0, around: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": pod(name, program, gpus, **spec)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, **(around or {}), "template": template},
    }


def phase(site: Site, name: str, wanted: str, namespace: str = "physics", seconds: float = 90) -> None:
    site.until("cp1", f"{KUBECTL} get pod {name} -n {namespace} -o jsonpath={{.status.phase}}", wanted, seconds)


def said_of(site: Site, user: str, name: str, path: str, pattern: str, seconds: float = 60) -> str:
    """What a user reads somewhere in an object, as soon as it says so."""
    deadline = time.monotonic() + seconds
    while True:
        said = as_user(site, user, f"get {name} -o {shlex.quote(f'jsonpath={path}')}")
        if re.search(pattern, said) or time.monotonic() > deadline:
            return said
        time.sleep(1)


WAITS = '{.status.conditions[?(@.type=="PodScheduled")].message}'
EVENTS = '{.items[?(@.reason=="FailedCreate")].message}'


def clean(site: Site, *spaces: str) -> None:
    for space in spaces:
        site.kubectl(f"delete jobs,cronjobs,deployments,pods --all --now --namespace={space}")


def gone(site: Site) -> None:
    """Leave no trace of a policy."""
    site.kubectl("delete namespace naive taken --ignore-not-found --wait=false")
    forget_policy(site)


@pytest.fixture(scope="module")
def accounts(site: Site) -> Iterator[str]:
    """The policy is there; what the run said."""
    said = bring(site, POLICY)
    site.kubectl("create namespace naive")
    site.kubectl("create rolebinding naive --namespace=naive --clusterrole=edit --group=iam:naive")
    yield words(said)
    gone(site)


@pytest.fixture
def empty(site: Site, accounts: str) -> Iterator[str]:
    yield accounts
    clean(site, "physics", "biology")
