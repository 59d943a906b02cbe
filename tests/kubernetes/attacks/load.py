"""The attempts of a class as requests to the API; see README.md."""

from __future__ import annotations

import copy
import json
import typing as t
from pathlib import Path

import yaml

HERE = Path(__file__).parent
CLASSES = tuple(sorted(path.stem for path in HERE.glob("*.yml")))
PATHS = {
    "Pod": "api/v1/namespaces/{ns}/pods",
    "Job": "apis/batch/v1/namespaces/{ns}/jobs",
    "CronJob": "apis/batch/v1/namespaces/{ns}/cronjobs",
    "Deployment": "apis/apps/v1/namespaces/{ns}/deployments",
    "StatefulSet": "apis/apps/v1/namespaces/{ns}/statefulsets",
    "DaemonSet": "apis/apps/v1/namespaces/{ns}/daemonsets",
    "Namespace": "api/v1/namespaces",
    "PersistentVolume": "api/v1/persistentvolumes",
    "Ingress": "apis/networking.k8s.io/v1/namespaces/{ns}/ingresses",
    "Endpoints": "api/v1/namespaces/{ns}/endpoints",
    "DeviceClass": "apis/resource.k8s.io/v1/deviceclasses",
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
}
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "CertificateSigningRequest", "CustomResourceDefinition")
CLUSTER_WIDE_SUFFIX = "WebhookConfiguration"
DENIED = (401, 403, 422)
# Small enough for the account's quota.
GOOD = {"name": "c", "image": "docker.io/library/busybox:1.37", "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}}}


class Attempt(t.NamedTuple):
    id: str
    expect: str
    says: str
    naive: bool
    request: dict[str, t.Any]

    def is_let_in(self, answer: dict[str, t.Any]) -> bool:
        return answer["status"] not in DENIED


def filled(value: t.Any, words: dict[str, t.Any]) -> t.Any:
    if isinstance(value, str):
        for key, word in words.items():
            if value == key:
                return word
            value = value.replace(key, str(word))
        return value
    if isinstance(value, list):
        return [filled(one, words) for one in value]
    if isinstance(value, dict):
        return {filled(key, words): filled(one, words) for key, one in value.items()}
    return value


def merged(first: t.Any, second: t.Any) -> t.Any:
    """Two dictionaries, at any depth; lists are replaced."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    return {
        key: merged(first[key], second[key]) if key in first and key in second else second.get(key, first.get(key))
        for key in {**first, **second}
    }


def pod_of(change: dict[str, t.Any]) -> dict[str, t.Any]:
    change = copy.deepcopy(change)
    container = merged(GOOD, change.pop("container", {}))
    metadata = change.pop("metadata", {})
    spec = merged({"restartPolicy": "Never", "containers": [container]}, change)
    return {"metadata": {"labels": {"app": "a"}, **metadata}, "spec": spec}


def object_of(kind: str, entry: dict[str, t.Any]) -> dict[str, t.Any]:
    pod, around = pod_of(entry.get("pod", {})), entry.get("around", {})
    if kind == "Pod":
        pod["metadata"]["name"] = "a"
        return {"apiVersion": "v1", "kind": "Pod", **pod}
    if kind in ("Job", "CronJob"):
        job = {"template": pod, **around}
        spec = job if kind == "Job" else {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    pod["spec"]["restartPolicy"] = "Always"
    pod["spec"].pop("activeDeadlineSeconds", None)
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": pod, **({"serviceName": "a"} if kind == "StatefulSet" else {}), **around}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def path_of(given: dict[str, t.Any]) -> str:
    kind, version = given["kind"], given["apiVersion"]
    if kind in PATHS:
        return f"/{PATHS[kind]}?dryRun=All"
    plural = f"{kind.lower()}s"
    base = f"api/{version}" if "/" not in version else f"apis/{version}"
    is_wide = kind in CLUSTER_WIDE or kind.endswith(CLUSTER_WIDE_SUFFIX)
    return f"/{base}/{plural}?dryRun=All" if is_wide else f"/{base}/namespaces/{{ns}}/{plural}?dryRun=All"


def requests_of(entry: dict[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Each request of an entry, with the end of its name."""
    if "request" in entry:
        yield "", entry["request"]
    elif "may" in entry:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": entry["may"]}}
        yield "", {"method": "POST", "path": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "body": body, "may": True}
    elif "object" in entry:
        yield "", {"method": "POST", "path": path_of(entry["object"]), "body": entry["object"]}
    else:
        for kind in entry.get("in", ["Pod"]):
            made = object_of(kind, entry)
            yield f"-{kind}", {"method": "POST", "path": path_of(made), "body": made}


def attempts(name: str, namespace: str, other: str, user: str) -> list[Attempt]:
    """All attempts of a class, by a user in a namespace."""
    result = []
    defaults: dict[str, t.Any] = {}
    for entry in yaml.safe_load((HERE / f"{name}.yml").read_text(encoding="utf-8")):
        if "id" not in entry:
            defaults = entry
            continue
        for item in entry.get("items", [""]):
            data = filled({**defaults, **{key: value for key, value in entry.items() if key != "items"}}, {"{item}": item})
            data = filled(data, {"{ns}": namespace, "{other}": other})
            for end, request in requests_of(data):
                number = f"{name}/{data['expect']}/{data['id']}{end}"
                sent = filled({**request, "id": number, "user": user}, {"{ns}": namespace})
                json.dumps(sent)
                result.append(Attempt(number, data["expect"], data.get("says", ""), data.get("naive", True), sent))
    return result
