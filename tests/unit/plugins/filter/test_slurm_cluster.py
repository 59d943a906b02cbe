# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters of a SLURM cluster, given hostvars and groups as Ansible has them."""

from __future__ import annotations

import base64
import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.deephdc.accelerators.plugins.filter.slurm_cluster import FilterModule
from ansible_collections.deephdc.accelerators.plugins.filter.slurm_operations import FilterModule as Operations
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import jobs as slurm_jobs
from ansible_collections.deephdc.accelerators.tests.unit.plugins.module_utils.accelerator_examples import gpu, mig_gpu

FILTERS = FilterModule().filters()
FILTERS_OF_OPERATIONS = Operations().filters()
GROUPS = {
    "all": ["head", "gpu1", "gpu2"],
    "slurm_controllers": ["head"],
    "slurm_databases": ["head"],
    "slurm_nodes": ["gpu1", "gpu2"],
    "small": ["gpu2"],
}
WANTED = {
    "name": "physics",
    "partitions": [{"name": "batch", "default": True}],
    "settings": {},
    "cloud_nodes": [],
    "cgroup_settings": {},
    "memory_reserve_mib": 1024,
    "accept_hardware": [],
    "untested_platforms": False,
}


class HostVars(dict):
    """Ansible's hostvars, as far as the filters use it."""

    def raw_get(self, host):
        return {key: value for key, value in self[host].items() if key != "ansible_facts"}


def facts(name, number, **changes):
    return {
        "hostname": name,
        "distribution": "Debian",
        "distribution_major_version": "12",
        "default_ipv4": {"address": f"10.0.0.{number}"},
        "memtotal_mb": 64000,
        "processor_count": 1,
        "processor_cores": 16,
        "processor_threads_per_core": 2,
        "processor_vcpus": 32,
        **changes,
    }


@pytest.fixture
def hostvars():
    """A controller and two nodes, whose inventory names are not their own names."""
    return HostVars(
        head={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("ctl", 1)},
        gpu1={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("n1", 11, accelerators=[gpu(0), gpu(1)])},
        gpu2={"munge_key": base64.b64encode(bytes(64)).decode(), "ansible_facts": facts("n2", 12, accelerators=[gpu(0)])},
    )


def plan(hostvars, recorded="", groups=None, **changes):
    return FILTERS["slurm_cluster_plan"](hostvars, groups or GROUPS, {**WANTED, **changes}, recorded)


def node_lines(found):
    return [line for line in found["files"]["slurm.conf"].splitlines() if line.startswith("NodeName=")]


def test_plan_uses_the_hosts_own_names_and_addresses(hostvars):
    found = plan(hostvars, partitions=[{"name": "small", "group": "small"}])
    assert found["errors"] == []
    assert found["names"] == {"head": "ctl", "gpu1": "n1", "gpu2": "n2"}
    assert found["controllers"] == ["10.0.0.1"]
    assert [line.split()[:2] for line in node_lines(found)] == [
        ["NodeName=n1", "NodeAddr=10.0.0.11"],
        ["NodeName=n2", "NodeAddr=10.0.0.12"],
    ]
    text = found["files"]["slurm.conf"]
    assert "SlurmctldHost=ctl(10.0.0.1)\n" in text and "AccountingStorageHost=10.0.0.1\n" in text
    assert "PartitionName=small Nodes=n2 " in text
    assert "RealMemory=62976 " in node_lines(found)[0]


def test_variables_of_a_host_come_first(hostvars):
    hostvars["gpu1"].update(slurm_cluster_address="192.168.0.5", slurm_cluster_node_settings={"Weight": 5})
    first = node_lines(plan(hostvars))[0]
    assert "NodeAddr=192.168.0.5 " in first and " Weight=5 " in first


def test_plan_is_plain_data_and_leaves_its_input(hostvars):
    before = json.dumps(hostvars)
    found = plan(hostvars)
    assert json.loads(json.dumps(found)) == found
    assert json.dumps(hostvars) == before


def test_order_of_the_inventory_makes_no_difference(hostvars):
    assert plan(hostvars, groups={**GROUPS, "slurm_nodes": ["gpu2", "gpu1"]})["files"] == plan(hostvars)["files"]


def test_lost_device_and_accepted_hardware(hostvars):
    record = plan(hostvars)["record"]
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(0)]
    assert plan(hostvars, record)["unfit"] == {"n1": "a100 at 0000:02:00.0 (/dev/nvidia1) is missing"}
    for accepted in (["gpu1"], "gpu1", "gpu2, gpu1"):
        found = plan(hostvars, record, accept_hardware=accepted)
        assert found["unfit"] == {} and "Gres=gpu:a100:1 " in node_lines(found)[0]
    assert plan(hostvars, record, accept_hardware=["typo"])["errors"] == [
        "slurm_cluster_accept_hardware names typo, which is not in slurm_nodes."
    ]


def test_an_interpreter_that_can_not_make_the_database_is_refused_before_a_change(hostvars):
    """It failed in the middle of the run, where PyMySQL was missing."""
    hostvars["head"]["slurm_cluster_packages"] = {"distribution_python": False}
    (sentence,) = plan(hostvars)["errors"]
    assert sentence.startswith("ansible_python_interpreter of head does not see the distribution's Python packages")
    hostvars["head"]["slurm_cluster_packages"] = {"distribution_python": True}
    assert plan(hostvars)["errors"] == []


def test_an_address_that_a_host_does_not_have_is_refused(hostvars):
    hostvars["gpu2"]["slurm_cluster_address"] = "10.0.0.99"
    hostvars["gpu2"]["ansible_facts"]["all_ipv4_addresses"] = ["10.0.0.12", "10.1.0.12"]
    (sentence,) = plan(hostvars)["errors"]
    assert sentence.startswith("slurm_cluster_address of gpu2 is 10.0.0.99, but gpu2 has 10.0.0.12, 10.1.0.12: correct it.")
    hostvars["gpu2"]["slurm_cluster_address"] = "10.1.0.12"
    assert plan(hostvars)["errors"] == []


def test_a_node_that_goes_is_named_for_the_last_look_at_jobs(hostvars):
    """A job that came between the plan and the change would have been ended."""
    record = plan(hostvars)["record"]
    assert plan(hostvars, record)["nodes_going"] == []
    groups = {**GROUPS, "slurm_nodes": ["gpu1"], "small": []}
    assert plan(hostvars, record, groups)["nodes_going"] == ["n2"]
    assert plan(hostvars, record, groups, end_jobs_in=["n2"])["nodes_going"] == []


def test_a_partition_that_goes_is_named_likewise(hostvars):
    """A list on the command line may have blanks."""
    now = {"partitions": ["all", "old", "older"]}

    def going(allowed):
        return FILTERS["slurm_cluster_plan"](hostvars, GROUPS, {**WANTED, "end_jobs_in": allowed}, "", now)["partitions_going"]

    kept = [str(one["name"]) for one in WANTED["partitions"]]
    assert going([]) == sorted({"all", "old", "older"} - set(kept))
    assert going("old, older") == sorted({"all"} - set(kept))


@pytest.mark.parametrize(
    ("settings", "jobs", "refused"),
    [
        ({"SlurmctldPort": 6999}, "17|RUNNING|ada|n1|all", True),
        ({"slurmctldport": 6999}, None, True),
        ({"SlurmdPort": 6999}, "17|RUNNING|ada|n1|all", True),
        ({"SlurmctldPort": 6999}, "", False),
        ({"SlurmctldPort": 6817}, "17|RUNNING|ada|n1|all", False),
        ({}, None, False),
    ],
)
def test_a_port_changes_only_while_no_job_runs(hostvars, settings, jobs, refused):
    nodes = {} if jobs == "" else {"n1": {"count": 1, "some": ["17 of ada"]}}
    known = None if jobs is None else {"partitions": {}, "nodes": nodes}
    now = {"partitions": [], "jobs": known, "ports": {"SlurmctldPort": "6817", "SlurmdPort": "6818"}}
    found = FILTERS["slurm_cluster_plan"](hostvars, GROUPS, {**WANTED, "settings": settings}, "", now)
    assert found["controller_port"] == (0 if refused else int({k.lower(): v for k, v in settings.items()}.get("slurmctldport", 6817)))
    assert [error.startswith("slurm_cluster_settings sets Slurm") for error in found["errors"]] == [True] * refused
    confirmed = {**WANTED, "settings": settings, "end_jobs_in": [WANTED["name"]]}
    found = FILTERS["slurm_cluster_plan"](hostvars, GROUPS, confirmed, "", now)
    assert (found["errors"], found["ports_change"]) == ([], False)


def test_what_the_proof_leaves_out_is_named(hostvars):
    """A partition with accounts had no line in what the jobs proved, and a GPU cluster without a GPU passed without a warning."""
    closed = {"name": "mine", "settings": {"AllowAccounts": "physics"}}
    assert plan(hostvars, partitions=[{"name": "batch", "default": True}, closed])["closed"] == ["mine"]
    assert not [line for line in plan(hostvars)["warnings"] if "No node has a GPU" in line]
    for host in ("gpu1", "gpu2"):
        hostvars[host]["ansible_facts"]["accelerators"] = []
    assert [line for line in plan(hostvars)["warnings"] if "No node has a GPU" in line]


def test_text_from_the_command_line_is_converted(hostvars):
    assert plan(hostvars, memory_reserve_mib="1024", untested_platforms="false") == plan(hostvars)
    hostvars["gpu1"]["ansible_facts"]["distribution"] = "Ubuntu"
    assert plan(hostvars, untested_platforms="false")["errors"] != []
    assert plan(hostvars, untested_platforms="yes")["errors"] == []


def test_facts_that_contradict_the_inventory(hostvars):
    hostvars["gpu2"]["ansible_facts"] = facts("n2", 11, accelerators=[])
    assert plan(hostvars)["errors"] == ["The hosts gpu1 and gpu2 have the same address 10.0.0.11: correct one of them."]
    hostvars["gpu2"]["ansible_facts"] = facts("n2", 12, default_ipv4={}, accelerators=[])
    found = plan(hostvars)
    assert found["errors"] == ["The host gpu2 has no default IPv4 address: set slurm_cluster_address for it."]
    assert [one["sentence"] for one in found["findings"]] == found["errors"]
    assert not any(value for key, value in found.items() if key not in ("errors", "findings"))


@pytest.mark.parametrize("missing", ["accelerators", "memtotal_mb"])
def test_facts_of_a_node_that_were_not_read(hostvars, missing):
    del hostvars["gpu2"]["ansible_facts"][missing]
    assert plan(hostvars)["errors"] == [
        "Accelerators and memory of gpu2 were not read: bring it up, or take it out of slurm_nodes, then run again."
    ]


def test_host_that_did_not_answer(hostvars):
    del hostvars["gpu2"]["ansible_facts"]
    (sentence,) = plan(hostvars)["errors"]
    assert sentence.startswith("No facts of gpu2 are known: ")


@pytest.mark.parametrize(
    "record", ["{", "[]", "{}", '{"nodes": []}', '{"nodes": {"n1": "x"}}', '{"nodes": {"n1": [{}]}}', '{"nodes": {"n1": 5}}', "null"]
)
def test_damaged_record_is_one_sentence(hostvars, record):
    with pytest.raises(AnsibleFilterError) as raised:
        plan(hostvars, record)
    assert str(raised.value) == "The record of accelerators on head is damaged: restore or remove it, then run again."


def test_devices_with_one_file_are_one_sentence(hostvars):
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(0), gpu(1, device_files=["/dev/nvidia0"])]
    with pytest.raises(AnsibleFilterError, match=r"^Node n1: The accelerators at .* have the same device file /dev/nvidia0\.$"):
        plan(hostvars)


# --- members without facts ---


def without_facts(hostvars, *in_play):
    return FILTERS["slurm_members_without_facts"](hostvars, GROUPS, list(in_play))


def test_members_outside_of_the_run_whose_facts_are_missing(hostvars):
    assert without_facts(hostvars) == []
    hostvars["head"].pop("ansible_facts")
    hostvars["gpu1"]["ansible_facts"].pop("accelerators")
    hostvars["gpu2"]["ansible_facts"].pop("memtotal_mb")
    assert without_facts(hostvars) == ["head", "gpu1", "gpu2"]
    assert without_facts(hostvars, "gpu2") == ["head", "gpu1"]


def test_controller_needs_no_accelerators(hostvars):
    assert "accelerators" not in hostvars["head"]["ansible_facts"]
    assert without_facts(hostvars, "gpu1", "gpu2") == []


# --- policy ---

GOOD = {
    "qos": [{"name": "long", "preempt": ["spare"]}, {"name": "spare"}],
    "accounts": [{"name": "physics", "limits": {"gpus": {"a100": 2}}, "users": ["ada"]}],
    "partitions": [{"name": "batch", "accounts": ["physics"], "partition_qos": "long"}],
}


def test_policy_in_the_plan(hostvars):
    found = plan(hostvars, policy=GOOD)
    assert (found["policy"], found["partition_qos"]) == (GOOD, [{"name": "long"}])
    text = found["files"]["slurm.conf"]
    (line,) = [line for line in text.splitlines() if line.startswith("PartitionName=")]
    assert " AllowAccounts=physics QOS=long " in line
    assert "PreemptType=preempt/qos\n" in text and "AccountingStorageEnforce=associations,limits,qos,safe\n" in text
    assert "Preempt" not in plan(hostvars)["files"]["slurm.conf"]
    assert found["probes"] == [], "the proof's jobs run as root, in the account root with the QOS normal"
    for access, proved in (({"qos": ["long"]}, False), ({"qos": ["long", "normal"]}, True), ({"deny_accounts": ["physics"]}, True)):
        assert bool(plan(hostvars, policy={**GOOD, "partitions": [{"name": "batch", **access}]})["probes"]) is proved


def test_gpu_types_of_the_policy_are_those_of_the_nodes(hostvars):
    policy = {"accounts": [{"name": "physics", "limits": {"gpus": {"h100": 2}}}]}
    assert plan(hostvars, policy=policy)["errors"] == [
        "slurm_cluster_policy: account physics limits the GPU type h100, which no node has; they have a100."
    ]
    assert plan(hostvars, policy=policy, settings={"AccountingStorageTRES": ["gres/gpu:h100"]})["errors"] == []


def test_policy_from_a_file(hostvars, tmp_path):
    file = tmp_path / "policy.yml"
    file.write_text(json.dumps(GOOD))
    assert inventory_errors(hostvars, policy_file=str(file)) == []
    assert plan(hostvars, policy_file=str(file))["files"] == plan(hostvars, policy=GOOD)["files"]
    file.write_text("")
    assert inventory_errors(hostvars, policy_file=str(file)) == []
    file.write_text("accounts: [{name: a, parent: b}]")
    assert inventory_errors(hostvars, policy_file=str(file)) == [f"{file}: account a has the parent b, which is not in accounts."]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("accounts:\n  - name: a\n   users: [b]\n", "FILE, line 3: "),
        (
            "accounts:\n  - name: a\n    users: [b]\n    users: [c]\n",
            "FILE, line 4: the key users stands there twice. Correct the file named by ",
        ),
        ("accounts: !!python/object:os.system x\n", "FILE, line 1: could not determine a constructor for the tag "),
        ("accounts: \x00", "FILE: "),
        ("[" * 100000, "FILE, line 1: "),
        ("x" * 6 * 1024 * 1024, "FILE has 6291456 bytes, more than the 5 MiB that a policy may have."),
        (None, "FILE, named by slurm_cluster_policy_file, can't be read: No such file or directory."),
    ],
)
def test_files_that_are_no_policy(hostvars, tmp_path, content, sentence):
    file = tmp_path / "policy.yml"
    if content is not None:
        file.write_text(content)
    (found,) = inventory_errors(hostvars, policy_file=str(file), policy_purge=True)
    assert found.startswith(sentence.replace("FILE", str(file))) and "\n" not in found and len(found) < 500


def test_place_of_the_policy_that_is_not_clear(hostvars, tmp_path):
    assert inventory_errors(hostvars, policy_file="policy.yml")[0].startswith("slurm_cluster_policy_file must be an absolute path ")
    found = inventory_errors(hostvars, policy_file=str(tmp_path / "x"), policy=GOOD)
    assert found == ["slurm_cluster_policy and slurm_cluster_policy_file are both set: keep the policy in one place."]


# --- errors of the inventory ---


def inventory_errors(hostvars, here="head", **changes):
    return FILTERS["slurm_inventory_errors"](hostvars, GROUPS, here, {**WANTED, **changes})


def test_errors_of_the_inventory(hostvars):
    assert inventory_errors(hostvars) == []
    hostvars["head"]["ansible_host"] = "{{ inventory_hostname }}.example"
    hostvars["gpu1"]["munge_key"] = ""
    found = inventory_errors(hostvars, settings={"ClusterName": "x"})
    assert [sentence.split(" ")[0] for sentence in found] == ["ansible_host", "munge_key", "slurm_cluster_settings"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("nonsense", [None, [], "x", 5, True, ["x"], [None], {"x": None}, {"x": "a\nb"}, {1: 2}])
def test_nonsense_is_answered_in_sentences(hostvars, nonsense):
    for variable in ("settings", "cgroup_settings", "partitions"):
        found = inventory_errors(hostvars, **{variable: nonsense})
        for sentence in found:
            assert "\n" not in sentence and f"slurm_cluster_{variable}" in sentence
        assert found
    hostvars["gpu2"]["slurm_cluster_node_settings"] = nonsense
    for sentence in inventory_errors(hostvars):
        assert sentence.startswith("slurm_cluster_node_settings of gpu2 ") and "\n" not in sentence


# --- ssh to nodes, REST ---


def test_operator_who_would_be_locked_out_stops_the_plan(hostvars):
    hostvars["gpu1"]["slurm_cluster_login"] = {"stdout": "deploy\nusers adm"}
    hostvars["gpu2"]["slurm_cluster_login"] = {"stdout": "deploy\nusers sudo"}
    wanted = {"node_ssh": "jobs", "node_ssh_groups": ["sudo"]}
    (sentence,) = plan(hostvars, **wanted)["errors"]
    assert sentence.startswith("Ansible logs in to gpu1 as deploy, whom slurm_cluster_node_ssh: jobs would lock out")
    # Users must be able to log in to a login host, so no user is locked out.
    both = plan(hostvars, groups={**GROUPS, "slurm_logins": ["gpu1"]}, **wanted)
    assert (both["errors"], both["guarded"], both["ssh_groups"]) == ([], ["gpu2"], ["sudo"])
    assert plan(hostvars, **{**wanted, "node_ssh": "everyone"})["guarded"] == []


def test_settings_that_access_needs_are_added_to_the_sites(hostvars):
    def settings(**changes):
        return dict(line.split("=", 1) for line in plan(hostvars, **changes)["files"]["slurm.conf"].splitlines() if "=" in line)

    assert settings()["PrologFlags"] == "Alloc" and not {"AuthAltTypes", "AuthAltParameters"} & set(settings())
    groups = {**GROUPS, "slurm_rest": ["head"]}
    theirs = {"PrologFlags": ["Alloc", "Contain"], "AuthAltParameters": "disable_token_creation"}
    found = settings(groups=groups, node_ssh="jobs", settings=theirs)
    assert found["PrologFlags"] == "Alloc,Contain"
    assert found["AuthAltTypes"] == "auth/jwt"
    assert found["AuthAltParameters"] == "jwt_key=/etc/slurm/jwt_hs256.key,disable_token_creation"


def test_two_controllers_and_databases(hostvars):
    hostvars["gpu1"]["slurm_controller_state_directory"] = hostvars["head"]["slurm_controller_state_directory"] = "/srv/state/"
    found = plan(hostvars, groups={**GROUPS, "slurm_controllers": ["head", "gpu1"], "slurm_databases": ["gpu1", "head"]})
    assert found["controllers"] == ["10.0.0.1", "10.0.0.11"]
    lines = found["files"]["slurm.conf"].splitlines()
    assert [line for line in lines if line.startswith("SlurmctldHost")] == ["SlurmctldHost=ctl(10.0.0.1)", "SlurmctldHost=n1(10.0.0.11)"]
    for line in (
        "StateSaveLocation=/srv/state",
        "AccountingStorageHost=10.0.0.11",
        "AccountingStorageBackupHost=10.0.0.1",
        "SlurmctldTimeout=60",
    ):
        assert line in lines
    assert "SlurmctldTimeout" not in plan(hostvars)["files"]["slurm.conf"]


ALLOTMENT = {"slurm": {"devices": ["0000:01:00.0"]}, "opennebula": {"devices": ["0000:02:00.0"]}}


def test_devices_of_another_manager_are_not_slurms(hostvars):
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    found = plan(hostvars)
    assert found["errors"] == [] and " Gres=gpu:a100:1 " in node_lines(found)[0]
    assert "0000:02:00.0" not in json.dumps({**found, "findings": [], "open_to_jobs": {}})


def test_what_jobs_can_open_although_it_is_not_slurms_is_told(hostvars):
    """SLURM denies its jobs only the devices that it has."""
    assert plan(hostvars)["open_to_jobs"] == {}, "without an allotment all is SLURM's"
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    found = plan(hostvars)
    ((host, (sentence,)),) = found["open_to_jobs"].items()
    assert host == "gpu1" and sentence.startswith("jobs of SLURM on gpu1 can open the a100 0000:02:00.0, which accelerator_allotment")
    assert [one for one in found["findings"] if one["layer"] == "division" and one["device"] == "0000:02:00.0" and one["host"] == "gpu1"]
    for driver in ("vfio-pci", None):
        hostvars["gpu1"]["ansible_facts"]["accelerators"][1] = gpu(1, driver=driver, device_files=[])
        assert plan(hostvars)["open_to_jobs"] == {}


def test_what_was_seen_to_be_closed_to_jobs_is_no_error(hostvars):
    """By the role gpu_guard."""
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    hostvars["gpu1"]["ansible_facts"]["closed_to_jobs"] = ["/dev/nvidia0"]
    assert "0000:02:00.0" in json.dumps(plan(hostvars)["open_to_jobs"]), "another one"
    hostvars["gpu1"]["ansible_facts"]["closed_to_jobs"] = ["/dev/nvidia1"]
    found = plan(hostvars)
    assert found["open_to_jobs"] == {} and not [one for one in found["findings"] if one["layer"] == "division"]


def test_an_instance_of_another_manager_can_be_opened_by_jobs_too(hostvars):
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [mig_gpu(0, ["1g.5gb", "2g.10gb"])]
    hostvars["gpu1"]["accelerator_allotment"] = {"slurm": {"devices": ["MIG-0-0"]}, "opennebula": {"devices": []}}
    (sentence,) = plan(hostvars)["open_to_jobs"]["gpu1"]
    assert "the a100_2g.10gb MIG-0-1, which" in sentence


def test_a_device_given_to_another_manager_is_not_lost_but_one_of_slurms_is(hostvars):
    record = plan(hostvars)["record"]
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    found = plan(hostvars, record)
    assert found["unfit"] == {} and " Gres=gpu:a100:1 " in node_lines(found)[0]
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(1)]
    found = plan(hostvars, record)
    assert found["errors"] == [] and found["unfit"] == {"n1": "a100 at 0000:01:00.0 (/dev/nvidia0) is missing"}


def test_a_device_is_not_taken_from_running_jobs_by_an_allotment(hostvars):
    record = plan(hostvars)["record"]
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    jobs = {"jobs": slurm_jobs.summary("7|ada|batch|n1\n"), "partitions": [], "leaving": []}
    errors = FILTERS["slurm_cluster_plan"](hostvars, GROUPS, WANTED, record, jobs)["errors"]
    assert len(errors) == 1 and "Node n1 would change" in errors[0] and "job 7 of ada" in errors[0]


def test_an_allotted_device_that_the_host_lacks_stops_the_run(hostvars):
    hostvars["gpu1"]["accelerator_allotment"] = {"slurm": {"devices": ["0000:77:00.0"]}, "opennebula": {"devices": []}}
    (error,) = plan(hostvars)["errors"]
    assert error.startswith("accelerator_allotment of gpu1 gives 0000:77:00.0 to slurm, but the host has no such device; it has ")
    # After a loss was accepted, too: what counts is what the host has now.
    hostvars["gpu1"]["accelerator_allotment"] = ALLOTMENT
    record = plan(hostvars)["record"]
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(1)]
    assert plan(hostvars, record)["errors"] == []
    found = plan(hostvars, record, accept_hardware=["gpu1"])
    (error,) = found["errors"]
    assert error.endswith(": correct it, or remove it from accelerator_allotment of gpu1.")
    (finding,) = found["findings"]
    assert (finding["host"], finding["device"], finding["sentence"]) == ("gpu1", "0000:01:00.0", error)
    assert finding["remedy"] == "correct it, or remove it from accelerator_allotment of gpu1"


def test_allotted_instances_are_kept_while_nvidia_smi_gives_no_answer(hostvars):
    hostvars["gpu1"]["accelerator_allotment"] = {"slurm": {"devices": ["MIG-0-1"]}, "kubernetes": {"devices": ["MIG-0-0"]}}
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [mig_gpu(0, ["1g.10gb", "2g.20gb"])]
    before = plan(hostvars)
    assert " Gres=gpu:a100_2g.20gb:1 " in node_lines(before)[0]
    silence = [{"problem": "nvidia_smi_timeout", "message": "nvidia-smi gave no answer"}]
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [
        mig_gpu(0, [], health=silence) | {"uuid": None, "mig": {"capable": None, "enabled": None, "devices": []}}
    ]
    found = plan(hostvars, before["record"])
    assert (found["errors"], found["unfit"]) == ([], {})
    assert (found["files"], found["record"]) == (before["files"], before["record"])
    nodes = FILTERS_OF_OPERATIONS["slurm_unfit_nodes"](["gpu1"], hostvars, "none", before["record"], "head")
    assert nodes == {}
    # nvidia-smi -q answered, and nvidia-smi -L, which names the instances, did not.
    nameless = mig_gpu(0, ["1g.10gb", "2g.20gb"], health=silence)
    for instance in nameless["mig"]["devices"]:
        instance.update(uuid=None, profile=None)
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [nameless]
    found = plan(hostvars, before["record"])
    assert (found["errors"], found["unfit"]) == ([], {})
    assert (found["files"], found["record"]) == (before["files"], before["record"])
    # Accepted is what the host shows, and that is not the instance.
    (error,) = plan(hostvars, before["record"], accept_hardware=["gpu1"])["errors"]
    assert "gives MIG-0-1 to slurm, but the host has no such device" in error


def test_a_gpu_of_another_manager_with_an_instance_of_slurms_stops_the_run(hostvars):
    hostvars["gpu1"]["accelerator_allotment"] = {"slurm": {"devices": ["MIG-0-1"]}, "opennebula": {"devices": ["0000:01:00.0"]}}
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [mig_gpu(0, ["1g.10gb", "2g.20gb"])]
    found = plan(hostvars)
    assert len(found["errors"]) == 1 and "a MIG instance of that GPU" in found["errors"][0]
    assert [(one["host"], one["device"]) for one in found["findings"]] == [("gpu1", "0000:01:00.0")]


def test_every_sentence_of_a_plan_is_a_finding(hostvars):
    hostvars["head"]["ansible_facts"]["packages"] = {}
    hostvars["gpu1"]["ansible_facts"]["accelerators"] = [gpu(0, driver=None)]
    hostvars["gpu2"]["ansible_facts"]["accelerators"] = []
    found = plan(hostvars)
    assert len(found["warnings"]) == 2
    assert [one["sentence"] for one in found["findings"]] == found["warnings"]
