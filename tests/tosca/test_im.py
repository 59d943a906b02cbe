# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The Infrastructure Manager reads every template: hosts, GPUs, what it would run; and refuses what can't be, by name."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from IM.tosca.Tosca import Tosca
from templates import TEMPLATES, local
from toscaparser.tosca_template import ToscaTemplate

logging.disable(logging.CRITICAL)
CLUSTERS = [path for path in TEMPLATES if "gpu_wn_server:" in path.read_text(encoding="utf-8")]

TEMPLATE = {path.stem: path for path in TEMPLATES}


@pytest.fixture(params=TEMPLATES, ids=lambda path: path.stem)
def template(request: pytest.FixtureRequest) -> dict[str, Any]:
    return local(request.param)


def radl(template: dict[str, Any]) -> str:
    _infrastructure, found = Tosca(yaml.safe_dump(template)).to_radl()
    return str(found)


def system(text: str, name: str) -> str:
    found = re.search(rf"^system {name} \(\n(.*?)^\)", text, re.DOTALL | re.MULTILINE)
    assert found, text
    return found.group(1)


def given(template: dict[str, Any], **inputs: Any) -> dict[str, Any]:
    for name, value in inputs.items():
        template["topology_template"]["inputs"][name]["default"] = value
    return template


def test_tosca_parser_takes_it(template: dict[str, Any]) -> None:
    assert ToscaTemplate(yaml_dict_tpl=template).nodetemplates


def test_each_input_is_described_bounded_and_has_a_default(template: dict[str, Any]) -> None:
    for name, one in template["topology_template"]["inputs"].items():
        assert one.get("description") and "default" in one and one.get("constraints"), name


def test_no_secret_stands_in_it(template: dict[str, Any]) -> None:
    for name, one in template["topology_template"]["inputs"].items():
        if re.search("password|secret|token|key", name):
            assert one["default"] in ("", "random(16)", "random(32)"), name


def test_each_tab_has_inputs_and_each_input_at_most_one_tab(template: dict[str, Any]) -> None:
    tabs, names = template["metadata"]["tabs"], list(template["topology_template"]["inputs"])
    of = {title: [name for name in names if re.fullmatch(pattern, name)] for title, pattern in tabs.items()}
    assert all(of.values())
    assert all(sum(name in listed for listed in of.values()) <= 1 for name in names)


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_the_pool_with_gpus_asks_for_them_and_no_other_does(path: Any) -> None:
    text = radl(given(local(path), gpu_num=2, gpu_vendor="NVIDIA", gpu_model="A100", gpu_wn_num=3, wn_num=1))
    pool = system(text, "gpu_wn_server")
    assert "gpu.count >= 2" in pool and "gpu.vendor = 'NVIDIA'" in pool and "gpu.model = 'A100'" in pool
    assert all("gpu." not in system(text, name) for name in ("fe_server", "wn_server"))
    assert "deploy gpu_wn_server 3" in text and "deploy wn_server 1" in text


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_the_front_end_is_set_up_first_with_the_addresses_of_all_workers(path: Any) -> None:
    text = radl(given(local(path), wn_num=1))
    assert "system fe_server configure front_end_fe_server_conf step 2" in text
    assert "system gpu_wn_server configure gpu_wn_node_gpu_wn_server_conf step 3" in text
    workers = text[text.index("    cluster_workers:") :][:600]
    assert "groups[''wn_server'']" in workers and "groups[''gpu_wn_server'']" in workers
    # Where it runs Ansible.
    assert "ansible.collections.deephdc-accelerators-0.1.0.tar.gz" in system(text, "fe_server")
    # A play's own become and the manager's beside it would be no text any more.
    assert not re.search("^  become", text, re.MULTILINE)


def play(text: str, name: str) -> dict[str, Any]:
    """What the manager runs of a node: the artifact's play with its inputs."""
    found = re.search(rf"^configure {name} \(\n@begin\n(.*?)\n@end", text, re.DOTALL | re.MULTILINE)
    assert found, text
    return dict(yaml.safe_load(found.group(1))[0])


def test_jobs_by_token_get_what_the_template_says() -> None:
    accounts = [{"subject": "f3c1", "account": "ada"}]
    template = given(local(TEMPLATE["slurm_gateway"]), oidc_server_name="slurm.site.test", oidc_accounts=accounts)
    inputs = play(radl(template), "front_end_fe_server_conf")["vars"]
    assert inputs["gateway_accounts"] == accounts and inputs["gateway_server_name"] == "slurm.site.test"
    assert inputs["gateway_scopes"] == ["slurm"] and "elastic_nodes" not in inputs


def test_cloud_nodes_get_what_the_template_says() -> None:
    inputs = play(radl(given(local(TEMPLATE["slurm_elastic"]), cloud_nodes=7, cloud_gpus=2)), "front_end_fe_server_conf")["vars"]
    assert (inputs["elastic_nodes"], inputs["elastic_gpus"], inputs["elastic_gpu_type"]) == (7, 2, "a100")
    assert "gateway_issuer" not in inputs and inputs["elastic_manager"] == ""
    text = radl(given(local(TEMPLATE["slurm_elastic"]), cloud_manager="https://im.site.test", cloud_network="priv_network"))
    inputs = play(text, "front_end_fe_server_conf")["vars"]
    assert (inputs["elastic_manager"], inputs["elastic_network"]) == ("https://im.site.test", "priv_network")


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_each_worker_is_held_to_the_gpus_that_its_machine_asks_for(path: Any) -> None:
    wanted = {"gpu_num": 2, "gpu_vendor": "NVIDIA", "gpu_model": "A100", "gpu_memory": "40 GB", "gpu_mig_profile": "3g.20gb"}
    inputs = play(radl(given(local(path), **wanted)), "gpu_wn_node_gpu_wn_server_conf")["vars"]
    assert [inputs[f"worker_{name}"] for name in ("gpus", "gpu_vendor", "gpu_model", "gpu_memory", "mig_profile")] == list(wanted.values())


def test_the_manager_runs_no_drain_of_a_worker() -> None:
    """It calls nothing when a machine goes, so it must not call that when one comes."""
    assert "slurm_drain for the worker" not in radl(local(TEMPLATE["slurm_cluster"]))


@pytest.mark.parametrize(("name", "pools"), [("mesos_cluster", ["lb"]), ("mesos_high_availability", ["lb", "master"])])
def test_masters_agents_and_balancers_are_pools(name: str, pools: list[str]) -> None:
    text = radl(given(local(TEMPLATE[name]), lb_num=2))
    inputs = play(text, "front_end_fe_server_conf")["vars"]
    assert ["lb_server" in str(inputs["cluster_balancers"]), "master_server" in str(inputs["cluster_masters"])] == [True, "master" in pools]
    assert "deploy lb_server 2" in text and ("deploy master_server 2" in text) == ("master" in pools)


def after_its_cluster(template: dict[str, Any], node: str) -> dict[str, Any]:
    """The inputs of what runs on a cluster, which comes in the step after it."""
    text = radl(template)
    assert "system fe_server configure front_end_fe_server_conf step 2" in text
    assert f"system fe_server configure {node}_fe_server_conf step 3" in text
    return dict(play(text, f"{node}_fe_server_conf")["vars"])


def test_a_job_comes_after_its_cluster() -> None:
    inputs = after_its_cluster(local(TEMPLATE["batch_job"]), "job")
    assert inputs["job_gpus"] == 1 and inputs["job_user"] == "ada" and inputs["job_executable"]


@pytest.mark.parametrize(("name", "manager"), [("deepaas", "slurm"), ("kubernetes_cluster", "kubernetes"), ("mesos_cluster", "marathon")])
def test_one_application_comes_after_each_kind_of_cluster(name: str, manager: str) -> None:
    template = local(TEMPLATE[name])
    node = local(TEMPLATE["deepaas"])["topology_template"]["node_templates"]["deepaas"]
    node["properties"] = {"manager": manager, "user": "ada", "image": "deephdc/model:1", "port": 30500}
    template["topology_template"]["node_templates"]["deepaas"] = node
    inputs = after_its_cluster(template, "deepaas")
    assert (inputs["application_manager"], inputs["application_port"], inputs["application_gpus"]) == (manager, 30500, 1)
    assert inputs["application_command"] == ["deepaas-run"]


def unknown_property(template: dict[str, Any]) -> str:
    template["topology_template"]["node_templates"]["front_end"]["properties"]["colour"] = "red"
    return "colour"


def unknown_input(template: dict[str, Any]) -> str:
    template["topology_template"]["node_templates"]["front_end"]["properties"]["cluster_name"] = {"get_input": "no_such"}
    return "no_such"


def unknown_node(template: dict[str, Any]) -> str:
    template["topology_template"]["node_templates"]["front_end"]["requirements"] = [{"host": "no_such_server"}]
    return "no_such_server"


def wrong_type(template: dict[str, Any]) -> str:
    given(template, gpu_num="many")
    return "many"


def too_many_gpus(template: dict[str, Any]) -> str:
    host = template["topology_template"]["node_templates"]["gpu_wn_server"]["capabilities"]["host"]["properties"]
    host["num_gpus"] = 17
    return "17"


def no_mig_profile(template: dict[str, Any]) -> str:
    host = template["topology_template"]["node_templates"]["gpu_wn_server"]["capabilities"]["host"]["properties"]
    host["mig_profile"] = "half of it"
    return "half of it"


@pytest.mark.parametrize(
    "spoil",
    [unknown_property, unknown_input, unknown_node, wrong_type, too_many_gpus, no_mig_profile],
    ids=lambda spoil: spoil.__name__,
)
@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_what_cant_be_is_refused_by_name(path: Any, spoil: Callable[[dict[str, Any]], str]) -> None:
    template = local(path)
    name = spoil(template)
    with pytest.raises(Exception, match=re.escape(name)):
        radl(template)


def test_a_good_mig_profile_passes() -> None:
    template = local(CLUSTERS[0])
    template["topology_template"]["node_templates"]["gpu_wn_server"]["capabilities"]["host"]["properties"]["mig_profile"] = "1g.10gb"
    assert radl(template)
