# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A program that answers as kubectl does, from a file with the cluster; for the tests of modules that call kubectl.

Keys of the cluster: nodes and pods, objects; ends, after how many lists of pods one of this name is gone; evictions, by a pod's
name what the API answers, one after the other, empty for yes; fates, by a node's name the status of the pods that are made for it,
and what they print; broken, words of a command and what the API says instead of an answer; meanwhile, what another program changes
of a node after it was read, one after the other.
"""

from __future__ import annotations

import json
import pathlib
import sys

PATH = pathlib.Path(__file__).with_name("cluster.json")


def merged(old, patch):
    whole = dict(old or {})
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merged(whole.get(key), value) if isinstance(value, dict) else value
    return whole


def say(items):
    print(json.dumps({"items": items}))


def of_name(objects, name):
    return next((one for one in objects if one["metadata"]["name"] == name), None)


def answer(cluster, words, given):
    pods, nodes = cluster["pods"], cluster["nodes"]
    for broken, said in cluster.get("broken", {}).items():
        if broken in " ".join(words):
            sys.exit(f"Error from server: {said}")
    if words[:2] == ["get", "node"]:
        node = of_name(nodes, words[2])
        print(json.dumps(node) if node else "")
        if cluster.get("meanwhile"):
            version = int(node["metadata"].get("resourceVersion", "1")) + 1
            node.update(merged(merged(node, cluster["meanwhile"].pop(0)), {"metadata": {"resourceVersion": str(version)}}))
    elif words[:2] == ["get", "nodes"]:
        cluster["asked"] = cluster.get("asked", 0) + 1
        say(nodes if cluster["asked"] > cluster.get("slow", 0) else [{"metadata": node["metadata"], "status": {}} for node in nodes])
    elif words[:2] == ["get", "pods"]:
        ends = cluster.get("ends", {})
        cluster["pods"] = pods = [pod for pod in pods if ends.get(pod["metadata"]["name"], 1) > 0]
        cluster["ends"] = {name: left - 1 for name, left in ends.items()}
        selector = next(word.split("=", 1)[1] for word in words if "selector=" in word)
        key, value = selector.split("=")
        say(
            [
                pod
                for pod in pods
                if (pod["spec"].get("nodeName") if key == "spec.nodeName" else pod["metadata"]["labels"].get(key)) == value
            ]
        )
    elif words[:2] == ["patch", "node"]:
        node = of_name(nodes, words[2])
        version = json.loads(words[words.index("--patch") + 1])["metadata"].get("resourceVersion")
        if version not in (None, node["metadata"].get("resourceVersion")):
            sys.exit(f'Error from server (Conflict): Operation cannot be fulfilled on nodes "{words[2]}": the object has been modified')
        node.update(merged(node, json.loads(words[words.index("--patch") + 1])))
    elif words[:2] == ["create", "--raw"]:
        name = words[2].split("/")[-2]
        assert (
            given["kind"] == "Eviction" and given["metadata"]["name"] == name and words[2].split("/")[-4] == given["metadata"]["namespace"]
        )
        answers = cluster.get("evictions", {}).get(name, [])
        said = answers.pop(0) if answers else ""
        if said:
            sys.exit(f"Error from server: {said}")
        cluster.setdefault("ends", {}).setdefault(name, 1)
    elif words[0] == "create":
        given["metadata"]["name"] = given["metadata"].pop("generateName") + "abcde"
        fate = cluster["fates"][given["spec"]["nodeSelector"]["kubernetes.io/hostname"]]
        pods.append({**given, "spec": {**given["spec"], **fate.get("spec", {})}, "status": fate["status"], "logs": fate.get("logs", "")})
        cluster.setdefault("made", []).append(given)
        print(given["metadata"]["name"], end="")
    elif words[0] == "logs":
        print(of_name(pods, words[1])["logs"])
    elif words[:2] == ["delete", "pods"]:
        cluster["pods"] = [pod for pod in pods if pod["metadata"]["name"] not in words]
    else:
        sys.exit(f"unknown command: {words}")


def main():
    cluster = json.loads(PATH.read_text(encoding="utf-8"))
    assert sys.argv[1] == "--kubeconfig" and sys.argv[3].startswith("--request-timeout=")
    given = json.load(sys.stdin) if "--filename=-" in sys.argv else None
    try:
        answer(cluster, sys.argv[4:], given)
    finally:
        PATH.write_text(json.dumps(cluster), encoding="utf-8")


if __name__ == "__main__":
    main()
