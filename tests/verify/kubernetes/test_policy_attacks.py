# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What users of accounts with limits must not do on the cluster that Molecule has made."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes_policy_site import accounts, as_user, empty, member, phase, pod
from kubernetes_site import BUSYBOX, Site
from local import ROOT

ATTACKS = ROOT / "tests/kubernetes/attacks"
sys.path.insert(0, str(ATTACKS))
from load import CLASSES, attempts  # noqa: E402 because the attacks are no package

OWNS = (
    "plugins/plugin_utils/_kubernetes/policy_rules.py",
    "tests/kubernetes/attacks",
)
__all__ = ["accounts", "empty"]


@pytest.mark.parametrize("kind", CLASSES)
def test_attacks(site: Site, empty: str, kind: str, tmp_path: Path, record_property: Any):
    """Each is refused in an account's namespace; in one without the policy it comes through, so it is an attack."""
    mine = attempts(kind, "physics", "biology", "ada")
    plain = {one.id: one for one in attempts(kind, "naive", "biology", "naive")}
    sent = [one.request for one in mine] + [{**one.request, "id": f"naive {one.id}"} for one in plain.values()]
    given = {"users": {user: {"Authorization": f"Bearer {member(site, user).token}"} for user in ("ada", "naive")}, "attempts": sent}
    # By files, as the attempts of a class are longer than a command may be.
    (tmp_path / "attempts.json").write_text(json.dumps(given), encoding="utf-8")
    for path in (ATTACKS / "attempts.py", tmp_path / "attempts.json"):
        subprocess.run(["docker", "cp", "-q", str(path), f"{site.label}-cp1:/root/{path.name}"], check=True)
    answers = json.loads(site.out("cp1", "python3 /root/attempts.py /etc/kubernetes/admin.conf < /root/attempts.json"))
    refused, passes = ([one for one in mine if one.expect == what] for what in ("refused", "passes"))
    assert [(one.id, answers[one.id]) for one in refused if one.is_let_in(answers[one.id])] == []
    assert [(one.id, answers[one.id]) for one in passes if not one.is_let_in(answers[one.id])] == []
    assert [(one.id, answers[one.id]) for one in refused if one.says not in answers[one.id]["said"]] == []
    harmless = [one.id for one in refused if plain[one.id].is_let_in(answers[f"naive {one.id}"]) != one.naive]
    assert harmless == []
    assert len(passes) >= 2
    record_property("attacks", f"{kind}: {len(refused)} attacks, 0 let in; {len(passes)} must pass, 0 turned away")


def test_there_are_enough_attacks():
    assert sum(one.expect == "refused" for kind in CLASSES for one in attempts(kind, "a", "b", "ada")) >= 200


def test_a_pod_can_not_be_changed_into_what_it_may_not_be(site: Site, empty: str):
    """Some fields of a pod can be changed later, and those of what makes pods all."""
    as_user(site, "ada", "create -f -", pod("waits", schedulingGates=[{"name": "example.org/gate"}]))

    def patch(change: dict[str, Any], succeeds: bool) -> str:
        return as_user(site, "ada", f"patch pod waits --type=merge -p {shlex.quote(json.dumps({'spec': change}))}", succeeds=succeeds)

    tolerations = site.get("pod waits -n physics")["spec"]["tolerations"]
    assert "This toleration is not allowed" in patch({"tolerations": [*tolerations, {"operator": "Exists"}]}, False)
    assert "by their role" in patch({"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}, False)
    patch({"activeDeadlineSeconds": 30}, True)
    patch({"nodeSelector": {"kubernetes.io/hostname": "gpu1"}}, True)
    service = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": pod("a")["spec"]["containers"]}}
    as_user(
        site,
        "ada",
        "create -f -",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {**service, "template": template}},
    )
    for change, says in (
        ({"replicas": 41}, "CPUs"),
        ({"template": {"spec": {"hostNetwork": True}}}, "hostNetwork"),
        ({"template": {"spec": {"nodeName": "cp1"}}}, "nodeName"),
    ):
        said = as_user(site, "ada", f"patch deployment a --type=merge -p {shlex.quote(json.dumps({'spec': change}))}", succeeds=False)
        assert says in said
    assert "forbidden" in as_user(site, "ada", "scale deployment a --replicas=2", succeeds=False)


def test_no_container_can_send_raw_packets(site: Site, empty: str):
    """By these a pod answered for the address of another pod on its node, and received its traffic."""
    program = "grep -h CapBnd /proc/self/status; arping -c 1 -I eth0 10.244.0.1; ping -c 1 127.0.0.1; sleep 600"
    given = pod("mine", program, initContainers=[])
    container = given["spec"]["containers"][0]
    given["spec"]["initContainers"] = [{**container, "name": "side", "restartPolicy": "Always", "securityContext": {"capabilities": {}}}]
    sets = (
        {},
        {"runAsUser": 0},
        {"capabilities": {"add": ["CHOWN"]}},
        {"capabilities": {"drop": ["CHOWN"]}},
        {"capabilities": {"drop": ["ALL"]}},
    )
    given["spec"]["containers"] = [{**container, "name": f"c{number}", "securityContext": one} for number, one in enumerate(sets)]
    as_user(site, "ada", "create -f -", given)
    phase(site, "mine", "Running")
    for name in ("side", *(f"c{number}" for number in range(len(sets)))):
        said = as_user(site, "ada", f"logs mine -c {name}")
        assert int(re.search(r"CapBnd:\s*(\w+)", said).group(1), 16) & 1 << 13 == 0, said
        assert "arping: socket: Operation not permitted" in said and "ping: permission denied" in said, said
    there = site.get("pod mine -n physics")["spec"]
    drops = [one["securityContext"]["capabilities"].get("drop") for one in there["containers"]]
    assert drops == [["NET_RAW"]] * 3 + [["CHOWN", "NET_RAW"], ["ALL"]]
    assert there["containers"][2]["securityContext"]["capabilities"]["add"] == ["CHOWN"]
    assert there["initContainers"][0]["securityContext"]["capabilities"] == {"drop": ["NET_RAW"]}
    many = pod("many", schedulingGates=[{"name": "example.org/gate"}])
    many["spec"]["initContainers"] = [{**many["spec"]["containers"][0], "name": f"i{number}"} for number in range(40)]
    as_user(site, "ada", "create -f -", many)
    for one in site.get("pod many -n physics")["spec"]["initContainers"]:
        assert one["securityContext"]["capabilities"]["drop"] == ["NET_RAW"], one["name"]


def test_a_container_for_debugging_sends_no_raw_packets_either(site: Site, empty: str):
    """A site may let an account's users have them, by a role of its own."""
    as_user(site, "ada", "create -f -", pod("mine"))
    phase(site, "mine", "Running")
    site.kubectl("create role debug -n physics --verb=patch,update,get --resource=pods/ephemeralcontainers")
    site.kubectl("create rolebinding debug -n physics --role=debug --group=iam:physics")
    try:
        for drop, succeeds in (({}, False), ({"securityContext": {"capabilities": {"drop": ["NET_RAW"]}}}, True)):
            more = {"name": "look", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["true"], **drop}
            change = shlex.quote(json.dumps({"spec": {"ephemeralContainers": [more]}}))
            said = as_user(site, "ada", f"patch pod mine --subresource=ephemeralcontainers -p {change}", succeeds=succeeds)
            assert succeeds or "drop: [NET_RAW]} in a container for debugging" in said
    finally:
        site.kubectl("delete role,rolebinding debug -n physics")


def test_a_pod_can_not_be_left_to_end_for_ever(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine"))
    phase(site, "mine", "Running")
    said = as_user(site, "ada", "delete pod mine --wait=false --grace-period=2000000000", succeeds=False)
    assert "A pod may take at most 3600 seconds to end" in said
    said = as_user(site, "ada", "delete pods --all --wait=false --grace-period=2000000000", succeeds=False)
    assert "A pod may take at most 3600 seconds to end" in said
    assert "deletionTimestamp" not in site.get("pod mine -n physics")["metadata"]
    as_user(site, "ada", "delete pod mine --grace-period=1")


def test_objects_end_at_the_quota_of_the_account(site: Site, empty: str):
    quota = site.get("resourcequota account -n physics")["status"]
    assert quota["hard"]["configmaps"] == "100"
    there = int(quota["used"]["configmaps"])
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"many{number}"}} for number in range(101 - there)]
    try:
        said = as_user(site, "ada", "create -f -", {"apiVersion": "v1", "kind": "List", "items": items}, succeeds=False)
        assert "exceeded quota: account, requested: configmaps=1, used: configmaps=100, limited: configmaps=100" in said
    finally:
        site.kubectl("delete configmaps -n physics " + " ".join(one["metadata"]["name"] for one in items[:-1]))


def test_a_debug_container_and_the_nodes_are_out_of_reach(site: Site, empty: str):
    as_user(site, "ada", "create -f -", pod("mine", gpus=1))
    phase(site, "mine", "Running")
    assert "forbidden" in as_user(site, "ada", f"debug mine --image={BUSYBOX} --profile=sysadmin -- true", succeeds=False)
    assert "forbidden" in as_user(site, "ada", f"debug node/gpu1 --image={BUSYBOX} -- true", succeeds=False)
    assert "forbidden" in as_user(site, "ada", "create token default", succeeds=False)
