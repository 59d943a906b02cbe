# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What the artifacts of TOSCA hand to the role tosca_site, computed by Ansible: groups, inventory and variables."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
# Where this collection is found: beside other collections in a checkout, or where ansible-test has put it.
COLLECTIONS = Path(__file__).parents[5] if "ansible_collections" in Path(__file__).parts else ROOT / ".collections"
# As the Infrastructure Manager calls its hosts.
HOSTS = {
    "10.0.0.2_0": {"IM_NODE_HOSTNAME": "front", "IM_NODE_PRIVATE_IP": "10.0.0.2"},
    "10.0.0.3_1": {"IM_NODE_HOSTNAME": "wn-1", "IM_NODE_PRIVATE_IP": "10.0.0.3"},
    "10.0.0.4_2": {"IM_NODE_HOSTNAME": "master-1", "IM_NODE_PRIVATE_IP": "10.0.0.4"},
    "10.0.0.5_3": {"IM_NODE_HOSTNAME": "master-2", "IM_NODE_PRIVATE_IP": "10.0.0.5"},
    "10.0.0.6_4": {"IM_NODE_HOSTNAME": "lb-1", "IM_NODE_PRIVATE_IP": "10.0.0.6"},
}
SLURM = {
    "cluster_workers": [["10.0.0.3"], []],
    "cluster_users": [{"os_user_name": "ada"}],
    "cluster_settings": "",
    "cluster_drain": [],
}
WANTED = (
    "{{ {'playbooks': tosca_site_playbooks, 'secrets': tosca_site_secrets | default({}), 'given': tosca_site_given_secrets | default({}),"
    " 'settings': tosca_site_settings | default({}), 'certificates': tosca_site_certificates | default(''),"
    " 'variables': tosca_site_variables, 'elastic': tosca_site_elastic | default({}), 'collections': tosca_site_collections | default({}),"
    " 'inventory': hostvars | deephdc.accelerators.tosca_inventory(inventory_hostname, tosca_site_workers, tosca_site_groups)} | to_json }}"
)


@pytest.fixture
def handed(tmp_path):
    """A function: an artifact's name and its inputs to what it hands over."""

    def run(artifact, inputs, hosts=None, between=()):
        hosts = hosts or HOSTS
        first, *tasks = tasks_of(artifact)
        task = next(task for task in tasks if "ansible.builtin.include_role" in task)
        made = {
            "name": "Compute",
            "ansible.builtin.copy": {"content": WANTED, "dest": str(tmp_path / "out.json"), "mode": "0600"},
            "vars": task["vars"],
        }
        (tmp_path / "play.yml").write_text(
            yaml.safe_dump(
                [
                    {
                        "hosts": next(iter(hosts)),
                        "connection": "local",
                        "gather_facts": False,
                        "vars": inputs,
                        "tasks": [first, *between, made],
                    }
                ]
            )
        )
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        words = [f"{sys.prefix}/bin/ansible-playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml"]
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_LOCALHOST_WARNING": "False"}
        environment["ANSIBLE_PYTHON_INTERPRETER"] = sys.executable
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads((tmp_path / "out.json").read_text())

    return run


def members(made):
    return {group: sorted(one["hosts"]) for group, one in made["inventory"]["all"]["children"].items()}


def test_slurm(handed):
    made = handed(
        "slurm", {**SLURM, "cluster_partitions": [{"name": "a", "default": True}], "cluster_settings": "slurm_cluster_name: mine\n"}
    )
    assert made["playbooks"] == ["slurm"] and made["secrets"] == {"munge_key": 128}
    front = ["front"]
    assert members(made) == {"slurm_controllers": front, "slurm_databases": front, "slurm_logins": front, "slurm_nodes": ["wn-1"]}
    variables = made["variables"]
    assert (
        made["settings"] == {"slurm_cluster_name": "mine"}
        and variables["slurm_cluster_name"] == "cloud"
        and variables["slurm_cluster_partitions"] == [{"name": "a", "default": True}]
    )
    assert "slurm_cluster_policy" not in variables, "the role makes it of the users and the settings"
    assert not [name for name in variables if name.startswith(("oidc_", "slurm_gateway", "slurm_elastic"))]


def test_workers_to_drain_are_drained_last(handed):
    made = handed("slurm", {**SLURM, "cluster_drain": ["wn-1"], "cluster_drain_wait": 60})
    assert made["playbooks"] == ["slurm", "slurm_drain"]
    assert made["variables"]["slurm_drain_nodes"] == ["wn-1"] and int(made["variables"]["slurm_drain_wait"]) == 60  # text with 2.16


def reasons(*lines):
    return [{"ansible.builtin.set_fact": {"__artifact_reasons": {"stdout_lines": list(lines)}}}]


def test_workers_that_are_drained_no_more_are_resumed(handed):
    drained = reasons("new fan", "leaves the deployment")
    made = handed("slurm", {**SLURM, "cluster_workers": [["10.0.0.3"], ["10.0.0.6"]], "cluster_drain": ["lb-1"]}, between=drained)
    assert made["playbooks"] == ["slurm", "slurm_drain", "slurm_resume"]
    assert made["variables"]["slurm_resume_nodes"] == ["wn-1"] and made["variables"]["slurm_resume_reason"] == "leaves the deployment"
    assert handed("slurm", {**SLURM, "cluster_drain": ["wn-1"]}, between=drained)["playbooks"] == ["slurm", "slurm_drain"]
    # Not those that a person drained.
    assert handed("slurm", SLURM, between=reasons("new fan"))["playbooks"] == ["slurm"]


@pytest.mark.parametrize(
    ("manager", "image", "playbooks", "groups"),
    [
        ("slurm", "", ["deepaas"], ["slurm_controllers", "slurm_databases", "slurm_logins", "slurm_nodes"]),
        ("slurm", "a:1", ["job_containers", "deepaas"], ["slurm_controllers", "slurm_databases", "slurm_logins", "slurm_nodes"]),
        ("kubernetes", "a:1", ["deepaas"], ["kubernetes_control_plane", "kubernetes_workers"]),
        ("marathon", "", ["deepaas"], ["marathon_lb", "mesos_agents", "mesos_masters"]),
    ],
)
def test_one_application_for_each_manager(handed, manager, image, playbooks, groups):
    inputs = {"name": "deepaas", "user": "ada", "namespace": "default", "command": ["deepaas-run"], "port": 30500, "gpus": 1, "cpus": 1}
    inputs |= {"memory": 1024, "wall_clock": "24:00:00", "workers": [["10.0.0.3"]], "balancers": [["10.0.0.6"]]}
    inputs |= {"manager": manager, "image": image}
    made = handed("deepaas", {f"application_{name}": value for name, value in inputs.items()})
    assert made["playbooks"] == playbooks and sorted(members(made)) == groups
    assert made["variables"]["deepaas_manager"] == manager and int(made["variables"]["deepaas_port"]) == 30500
    # The secret that the cluster's own artifact made.
    assert made["secrets"] == ({"mesos_cluster_secrets": ["marathon_http"]} if manager == "marathon" else {})
    assert made["collections"] == ({"kubernetes.core": "5.0.0"} if manager == "kubernetes" else {})


def test_a_worker_is_drained_by_its_own_address(handed):
    inputs = {"drain_front_end": "10.0.0.2", "drain_worker": "10.0.0.3", "drain_wait": 60}
    # As xOpera calls its host.
    made = handed("slurm_worker_drain", inputs, {"opera": {"ansible_host": "10.0.0.3", "ansible_user": "debian"}})
    assert made["playbooks"] == ["slurm_drain"]
    assert members(made) == {"slurm_controllers": ["wn-10-0-0-2"], "slurm_nodes": ["wn-10-0-0-3"]}
    assert made["inventory"]["all"]["hosts"]["wn-10-0-0-3"]["ansible_user"] == "debian"
    assert int(made["variables"].pop("slurm_drain_wait")) == 60  # text with 2.16
    assert made["variables"] == {"slurm_drain_nodes": ["slurm_nodes"], "slurm_drain_reason": "leaves the deployment"}


def test_kubernetes(handed):
    made = handed("kubernetes", {"cluster_workers": [["10.0.0.3"]], "cluster_version": "1.37.2"})
    assert made["playbooks"] == ["kubernetes"] and made["collections"] == {"kubernetes.core": "5.0.0"}
    assert members(made) == {"kubernetes_control_plane": ["front"], "kubernetes_logins": ["front"], "kubernetes_workers": ["wn-1"]}


def test_jobs_by_token(handed):
    gateway = {
        "gateway_server_name": "slurm.site.test",
        "gateway_issuer": "https://iam.site.test",
        "gateway_audience": "https://slurm.site.test",
        "gateway_scopes": ["slurm"],
        "gateway_accounts": [{"subject": "f3c1", "account": "ada"}],
    }
    made = handed("slurm", {**SLURM, **gateway})
    assert made["playbooks"] == ["slurm", "oidc_proxy"] and set(made["secrets"]) == {"munge_key", "slurm_rest_jwt_key"}
    assert members(made)["slurm_rest"] == members(made)["oidc_proxies"] == ["front"]
    variables = made["variables"]
    assert variables["slurm_gateway_accounts"] == [{"issuer": "https://iam.site.test", "subject": "f3c1", "account": "ada"}]
    assert variables["oidc_proxy_backends"][0]["audience"] == "https://slurm.site.test"
    assert variables["slurm_gateway_enabled"] is True


def test_cloud_nodes(handed):
    elastic = {
        "elastic_nodes": 4,
        "elastic_cpus": 8,
        "elastic_memory": 16384,
        "elastic_gpus": 2,
        "elastic_gpu_type": "a100",
        "elastic_image": "slurm-node",
        "elastic_flavor": "gpu.a100.2",
        "elastic_network": "private",
        "elastic_access": "clouds: {site: {}}",
        "elastic_idle_time": 300,
    }
    variables = handed("slurm", {**SLURM, **elastic})["variables"]
    (nodes,) = variables["slurm_cluster_cloud_nodes"]
    assert (nodes["names"], nodes["cpus"], nodes["memory_mib"], nodes["gpus"]) == ("cloud[1-4]", 8, 16384, {"a100": 2})
    assert variables["slurm_cluster_partitions"] == [{"name": "batch", "default": True}, {"name": "burst", "cloud": ["cloud[1-4]"]}]
    assert variables["slurm_cluster_settings"] == {"SuspendTime": 300}
    assert (nodes["hook"], nodes["server"]["flavor"]) == ("openstack", "gpu.a100.2")
    assert handed("slurm", {**SLURM, **elastic, "elastic_gpus": 0})["variables"]["slurm_cluster_cloud_nodes"][0]["gpus"] == {}
    # The same by the Infrastructure Manager: then no credentials are OpenStack's.
    made = handed("slurm", {**SLURM, **elastic, "elastic_manager": "https://im.site.test", "IM_INFRASTRUCTURE_ID": "f3"})
    (nodes,) = made["variables"]["slurm_cluster_cloud_nodes"]
    assert nodes["hook"] == "/usr/local/libexec/deephdc/tosca_elastic" and "server" not in nodes
    assert made["variables"]["slurm_elastic_openstack_clouds"] == ""
    wanted = {"manager": "https://im.site.test", "infrastructure": "f3", "access": "clouds: {site: {}}", "image": "slurm-node"}
    assert made["elastic"] == {**wanted, "network": "private", "cpus": 8, "memory_mib": 16384, "gpus": 2}


@pytest.mark.parametrize("masters", [[], [["10.0.0.4", "10.0.0.5"]]], ids=["one master", "three masters"])
def test_mesos(handed, masters):
    inputs = {
        "cluster_workers": [[], ["10.0.0.3"]],
        "cluster_masters": masters,
        "cluster_balancers": [["10.0.0.6"]],
        "cluster_users": [{"os_user_name": "ada"}],
        "cluster_chronos": False,
        "cluster_operator_secret": "a secret of the template",
    }
    made = handed("mesos", inputs)
    all_masters = ["front", "master-1", "master-2"] if masters else ["front"]
    same = dict.fromkeys(("mesos_masters", "zookeeper", "marathon"), all_masters)
    assert members(made) == {**same, "chronos": [], "mesos_agents": ["wn-1"], "marathon_lb": ["lb-1"]}
    assert members(handed("mesos", {**inputs, "cluster_chronos": True}))["chronos"] == all_masters
    # Each server of ZooKeeper needs a number, and each daemon a certificate with its address.
    numbers = {host: number for number, host in enumerate(all_masters, 1)}
    assert made["certificates"] == "mesos_cluster"
    assert made["variables"] == {
        "mesos_cluster_name": "mesos",
        "mesos_cluster_users": ["nobody", "ada"],
        "mesos_cluster_zookeeper_ids": numbers,
    }
    assert made["given"]["mesos_cluster_secrets"]["operator"] == "a secret of the template"
    assert "zookeeper_mesos" in made["secrets"]["mesos_cluster_secrets"]


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("deephdc.accelerators", "0.1.0", ""),
        (
            "deephdc.accelerators",
            "99.0.0",
            "need the collection deephdc.accelerators 99.0.0 or newer, and where the orchestrator runs Ansible there is 0.",
        ),
        (
            "deephdc.no_such",
            "1.0.0",
            "need the collection deephdc.no_such 1.0.0 or newer, and where the orchestrator runs Ansible there is none:",
        ),
    ],
)
def test_collections_that_are_missing_or_old_are_named(tmp_path, name, version, words):
    task = {"name": "Check", "ansible.builtin.include_tasks": str(ROOT / "roles/tosca_site/tasks/collections.yml")}
    variables = {"__tosca_site_needed": {"key": name, "value": version}, "tosca_site_playbooks": ["kubernetes"]}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_LOCALHOST_WARNING": "False"}
    words_of_run = [f"{sys.prefix}/bin/ansible-playbook", tmp_path / "play.yml"]
    done = subprocess.run(words_of_run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (words == ""), done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())


def check(tmp_path, name, variables):
    """Run one check of the role tosca_site, with the role's own variables."""
    block = yaml.safe_load((ROOT / "roles/tosca_site/tasks/main.yml").read_text())[0]["block"]
    (task,) = (task for task in block if task["name"] == name)
    files = [str(ROOT / f"roles/tosca_site/{folder}/main.yml") for folder in ("defaults", "vars")]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars_files": files, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_LOCALHOST_WARNING": "False"}
    words = [f"{sys.prefix}/bin/ansible-playbook", tmp_path / "play.yml", "-e", f"@{tmp_path}/variables.json"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"infrastructure": ""}, "tosca_site_elastic has no infrastructure: cloud_manager of the template is for deployments by the Infra"),
        ({"access": "", "image": ""}, "tosca_site_elastic has no access and no image: "),
    ],
)
def test_nodes_of_no_deployment_are_refused(tmp_path, change, words):
    """Else the hook would ask the manager for another deployment."""
    whole = {"manager": "https://im.site.test", "infrastructure": "f3", "access": "id = im", "image": "ost://x", "network": "n", "gpus": 0}
    found, said = check(tmp_path, "Check how the manager makes nodes", {"tosca_site_elastic": {**whole, **change}})
    assert (found == 0) == (words == "") and words in said, said


@pytest.mark.parametrize(
    ("kept", "code"), [(None, 0), (b"{}\n", 0), (b'{"munge_key": "c2VjcmV0"}\n', 0), (b'{"munge_key": "c2Vj', 2), (b"[]", 2)]
)
def test_damaged_secrets_are_refused_without_showing_them(tmp_path, kept, code):
    before = {} if kept is None else {"content": base64.b64encode(kept).decode()}
    found, said = check(tmp_path, "Check that the secrets of the cluster can be read", {"__tosca_site_kept": before})
    assert found == code, said
    assert "c2Vj" not in said


def operations(values):
    """The operations of the types: each with its artifact and its inputs."""
    if isinstance(values, dict):
        if "implementation" in values and "inputs" in values:
            yield values["implementation"].removeprefix("deephdc_"), values["inputs"]
        for value in values.values():
            yield from operations(value)


def play_of(artifact):
    return yaml.safe_load((ROOT / f"tosca/artifacts/{artifact}.yml").read_text())[0]


def tasks_of(artifact):
    """The task that takes the inputs, without what shows its failure, and those behind it."""
    first, *rest = play_of(artifact)["tasks"]
    return [first["block"][0], *rest]


def test_each_input_is_taken_as_data_and_read_nowhere_else():
    found = list(operations(yaml.safe_load((ROOT / "tosca/types/deephdc.yaml").read_text())))
    assert {artifact for artifact, _inputs in found} == {path.stem for path in (ROOT / "tosca/artifacts").glob("*.yml")}
    for artifact, inputs in found:
        play = play_of(artifact)
        assert "vars" not in play
        asked = tasks_of(artifact)[0]["deephdc.accelerators.tosca_inputs"]
        assert set(inputs) <= set(asked["inputs"]) and set(asked.get("numbers", [])) <= set(asked["inputs"]), artifact
        rest = yaml.safe_dump([play["tasks"][0]["block"][1:], play["tasks"][1:]], width=10**6)
        assert re.findall(rf"(?<![\w.])(?:{'|'.join(inputs)})(?![\w'])", rest) == [], artifact


def names_set_in(part):
    """The variables that tasks set or register."""
    if isinstance(part, dict):
        own = {*part.get("vars", {}), *([part["register"]] if "register" in part else [])}
        return own.union(*(names_set_in(value) for value in part.values()))
    return set().union(*(names_set_in(value) for value in part)) if isinstance(part, list) else set()


@pytest.mark.parametrize("path", sorted((ROOT / "tosca/artifacts").glob("*.yml")), ids=lambda path: path.stem)
def test_an_artifacts_own_variables_are_those_that_no_orchestrator_may_set(path):
    own = names_set_in(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert [name for name in own if name != "given" and not name.startswith(("__artifact_", "tosca_site_"))] == []


# Whose evaluation would leave a file.
HOSTILE = (
    "{{{{ lookup('pipe', 'touch {}') }}}}",
    "{{% set a = lookup('pipe', 'touch {}') %}}",
    "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ lookup('pipe', 'touch {}') ]]",
    "#jinja2: block_start_string:'<<', block_end_string:'>>'\n<< set a = lookup('pipe', 'touch {}') >>",
    '[\'{{{{ lookup("pipe", "touch {}") }}}}\']',
    "plain {{# {} #}} text",
)
# Free texts of the inputs of each artifact that makes a site, beside what it needs.
FREE = {
    "slurm": {
        **{name: value for name, value in SLURM.items() if name != "cluster_settings"},
        "gateway_issuer": "https://iam.site.test",
        "elastic_nodes": 1,
        **{f"elastic_{name}": 1 for name in ("cpus", "memory", "gpus")},
        **{f"elastic_{name}": None for name in ("access", "image", "flavor", "network", "gpu_type")},
        "gateway_audience": None,
        "gateway_accounts": [{"subject": None, "account": "ada"}],
        "cluster_name": None,
        "cluster_partitions": [{"name": None}],
        "cluster_settings": "slurm_cluster_settings",
    },
    "kubernetes": {"cluster_workers": [["10.0.0.3"]], "cluster_version": None, "cluster_settings": "kubernetes_cluster_kubelet"},
    "mesos": {
        "cluster_workers": [["10.0.0.3"]],
        "cluster_operator_secret": None,
        "cluster_name": None,
        "cluster_settings": "mesos_agent_attributes",
    },
    "deepaas": {
        **{f"application_{name}": None for name in ("name", "user", "namespace", "image", "wall_clock")},
        **{f"application_{name}": 1 for name in ("port", "gpus", "cpus", "memory")},
        "application_command": ["run", None],
        "application_manager": "kubernetes",
        "application_workers": [["10.0.0.3"]],
    },
}


def filled(value, text):
    """The inputs with a text in the place of each None."""
    if isinstance(value, dict):
        return {key: filled(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, text) for one in value]
    return text if value is None else value


def texts_of(value):
    if isinstance(value, dict):
        return [text for one in value.items() for part in one for text in texts_of(part)]
    return [text for one in value for text in texts_of(one)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("where", ["run", "host", "play"])
@pytest.mark.parametrize("artifact", FREE)
def test_texts_of_users_arrive_as_they_are_and_run_nowhere(tmp_path, artifact, where):
    """With all orchestrators' ways to give them, and up to the variables of the playbooks."""
    first, *tasks = tasks_of(artifact)
    task = next(task for task in tasks if "ansible.builtin.include_role" in task)
    block = yaml.safe_load((ROOT / "roles/tosca_site/tasks/run.yml").read_text())[0]["block"]
    run_them = next(task for task in block if task["name"] == "Run the playbooks")
    write = {
        "ansible.builtin.copy": {"content": run_them["ansible.builtin.command"]["stdin"], "dest": str(tmp_path / "both"), "mode": "0600"}
    }
    text = "\n".join(one.format(tmp_path / "ran") for one in HOSTILE)
    inputs = filled(FREE[artifact], text)
    if "cluster_settings" in inputs:
        settings = {inputs["cluster_settings"]: {"Comment": text, text: text}}
        if artifact == "slurm":
            settings["slurm_cluster_policy"] = {"accounts": [{"name": "a", "description": text}]}
        inputs["cluster_settings"] = json.dumps(settings)
    files = [ROOT / f"roles/tosca_site/{folder}/main.yml" for folder in ("defaults", "vars")]
    of_role = {name: value for file in files for name, value in yaml.safe_load(file.read_text()).items()}
    write["vars"] = {**of_role, **task["vars"], **run_them["vars"], "__tosca_site_kept": {}}
    write["vars"]["tosca_site_certificates"] = ""  # which no host has here
    tasks = [first, write]
    if artifact != "deepaas":
        of_members = yaml.safe_load((ROOT / "roles/tosca_site/tasks/members.yml").read_text())
        compute = next(task for task in of_members if task["name"] == "Compute who is a user of the deployment and who was")
        compute["vars"] = {**of_role, **task["vars"], **compute["vars"], "__tosca_site_known": {}}
        tasks = [first, compute, write]
    play = {"hosts": next(iter(HOSTS)), "connection": "local", "gather_facts": False, "tasks": tasks}
    play["vars"] = inputs if where == "play" else {}
    hosts = {name: {**own, **(inputs if where == "host" else {})} for name, own in HOSTS.items()}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (tmp_path / "inputs.yml").write_text(yaml.safe_dump(inputs if where == "run" else {"a": 1}))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}

    def run(*words):
        command = [f"{sys.prefix}/bin/ansible-playbook", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    done = run("-vvv", "-i", "inventory.yml", "-e", "@inputs.yml", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()
    # As the playbooks find them.
    for name, line in zip(("hosts", "variables"), (tmp_path / "both").read_text().splitlines(), strict=True):
        (tmp_path / f"{name}.yml").write_text(line)
    found = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": []}
    names = list(task["vars"].get("tosca_site_variables", {})) if isinstance(task["vars"].get("tosca_site_variables"), dict) else []
    names += {
        "slurm": [
            "slurm_cluster_settings",
            "slurm_cluster_partitions",
            "slurm_cluster_cloud_nodes",
            "slurm_gateway_accounts",
            "slurm_cluster_policy",
        ]
    }.get(artifact, [])
    names += {"kubernetes": ["kubernetes_cluster_kubelet", "kubernetes_cluster_version"], "mesos": ["mesos_agent_attributes"]}.get(
        artifact, []
    )
    names += {"deepaas": ["deepaas_command", "deepaas_image", "deepaas_wall_clock"]}.get(artifact, [])
    listed = ", ".join(names)
    found["tasks"] = [
        {"ansible.builtin.copy": {"content": f"{{{{ [{listed}] | to_json }}}}", "dest": str(tmp_path / "out"), "mode": "0600"}}
    ]
    found["run_once"] = True
    (tmp_path / "second.yml").write_text(yaml.safe_dump([found]))
    done = run("-i", "hosts.yml", "-e", "@variables.yml", "second.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()
    assert text in texts_of(json.loads((tmp_path / "out").read_text()))
    assert {one for one in texts_of(json.loads((tmp_path / "out").read_text())) if "touch" in str(one)} == {text}


def test_no_secret_of_the_inputs_is_shown(tmp_path):
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks_of("mesos")[:1]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "inputs.yml").write_text(yaml.safe_dump({"cluster_operator_secret": "5ecret-of-the-template", "cluster_users": []}))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)}
    words = [f"{sys.prefix}/bin/ansible-playbook", "-vvv", "-e", "@inputs.yml", "play.yml"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "5ecret-of-the-template" not in done.stdout + done.stderr, done.stdout


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        *(
            ({name: {"cluster_name": "x"}}, f"The orchestrator has a variable '{name}', which only the collection may set.")
            for name in ("given", "__artifact_base", "tosca_site_connection", "__tosca_site_members")
        ),
        (
            {"cluster_settings": "ansible_connection: local"},
            "The settings of the template have 'ansible_connection', which a template must not set",
        ),
        ({"elastic_gpus": "two"}, "The orchestrator's input elastic_gpus is 'two': write a whole number, 0 or more."),
        (
            {"cluster_name": "{{ hostvars[groups['gone'][0]]['IM_NODE_PUBLIC_IP'] }}"},
            "The orchestrator's input cluster_name: the deployment has no host",
        ),
    ],
)
def test_refusals_name_the_input(tmp_path, inputs, words):
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": play_of("slurm")["tasks"][:1]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "inputs.yml").write_text(yaml.safe_dump(inputs))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)}
    words_of_run = [f"{sys.prefix}/bin/ansible-playbook", "-e", "@inputs.yml", "play.yml"]
    done = subprocess.run(words_of_run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in " ".join((done.stdout + done.stderr).split()), done.stdout + done.stderr
