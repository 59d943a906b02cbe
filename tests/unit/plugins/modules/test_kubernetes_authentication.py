# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""The module kubernetes_authentication: a file that the API server does not take never lies where it would look for it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.deephdc.accelerators.plugins.modules import kubernetes_authentication as module

OLD, NEW, OTHER = "# old\n", "# new\n", "# other\n"
PASSED = (
    'E1 run.go:72] "command failed" err="invalid authorization config: error loading config file \\"/dev/null/deephdc\\": not a directory"'
)
REFUSED = 'E1 run.go:72] "command failed" err="invalid authentication configuration: jwt[0].issuer.url: Invalid value: \\"x\\": no"'
COMMAND = [
    *("kube-apiserver", "--advertise-address=192.0.2.1", "--authentication-config=/etc/kubernetes/authn/config.yaml"),
    *("--authorization-mode=Node,RBAC", "--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile=/a", "--secure-port=6443"),
    *("--audit-log-path=/var/log/audit.log", "--client-ca-file=/etc/kubernetes/pki/ca.crt"),
]


class ApiServer:
    """An API server that takes what lies at its path, or does not."""

    def __init__(self, path):
        self.path, self.verdict, self.works, self.failures, self.calls = path, PASSED, True, 0, []
        self.log, self.has = "", OLD

    def __call__(self, _kubectl, *words, given=None):
        self.calls.append(words)
        if "--raw" in words:
            there = self.path.read_text(encoding="utf-8")
            if there != self.has:
                if self.works or there == OLD:
                    self.has = there
                else:
                    self.failures += 1
                    self.log = 'E1124 1 authentication.go:811] "failed to update authentication config" err="no route to host"\n'
            return (
                f'{module.METRICS}last_config_info{{apiserver_id_hash="sha256:a",hash="{module.digest(self.has)}"}} 1\n'
                f'{module.METRICS}automatic_reloads_total{{apiserver_id_hash="sha256:a",status="failure"}} {self.failures}\n'
            )
        if words[0] == "get":
            return json.dumps({"spec": {"containers": [{"command": COMMAND}]}})
        if words[0] == "logs":
            return self.log
        assert words[0] == "exec"
        # Not at its place while it is tried.
        assert self.path.read_text(encoding="utf-8") != NEW
        raise module.Refused(self.verdict)


@pytest.fixture
def server(run, monkeypatch, tmp_path, fake):
    fake("kubectl")
    path = tmp_path / "config.yaml"
    path.write_text(OLD, encoding="utf-8")
    one = ApiServer(path)
    monkeypatch.setattr(module.Kubectl, "__call__", lambda kubectl, *words, given=None: one(kubectl, *words, given=given))
    monkeypatch.setattr(module, "POLL", 0.01)
    one.run = lambda content=NEW, **more: run(
        module, content=content, path=str(path), node="cp1", server="https://192.0.2.1:6443", patience=1, **more
    )
    one.text = lambda: path.read_text(encoding="utf-8")
    one.beside = lambda name: path.with_name(f"config.yaml.{name}")
    one.names = lambda: sorted(file.name for file in tmp_path.glob("config*"))
    return one


def test_a_new_one_is_tried_then_taken(server):
    result = server.run()
    assert result["changed"] and result["hash"] == module.digest(NEW)
    assert server.text() == NEW == server.has and server.names() == ["config.yaml"]
    (tried,) = [words for words in server.calls if words[0] == "exec"]
    assert f"--authentication-config={server.path}.candidate" in tried
    assert all("--server=https://192.0.2.1:6443" in words for words in server.calls)
    assert not server.run()["changed"]


def test_the_trial_can_not_serve_or_write(server):
    words = module.trial(COMMAND, "/x", 4711)
    assert words[:3] == ["kube-apiserver", "--advertise-address=192.0.2.1", "--client-ca-file=/etc/kubernetes/pki/ca.crt"]
    assert words[3:] == [
        *("--authentication-config=/x", "--secure-port=4711", "--authorization-mode=Webhook"),
        *("--authorization-webhook-config-file=/dev/null/deephdc", "--bind-address=127.0.0.1", "--etcd-servers=http://127.0.0.1:1"),
    ]
    with pytest.raises(module.Failed, match="which the trial of a configuration does not know"):
        module.trial(["kube-apiserver", "-v"], "/x", 1)


def test_one_that_is_refused_never_comes_to_its_place(server):
    server.verdict = REFUSED
    result = server.run()
    assert (
        result["failed"]
        and 'it refuses the new one: invalid authentication configuration: jwt[0].issuer.url: Invalid value: "x": no' in result["msg"]
    )
    assert server.text() == OLD and server.names() == ["config.yaml"]


def test_one_that_could_not_be_tried_does_not_come_to_its_place(server):
    server.verdict = "error: unable to upgrade connection"
    result = server.run()
    assert result["failed"] and "could not be tried: error: unable to upgrade connection" in result["msg"]
    assert server.text() == OLD and server.names() == ["config.yaml"]


def test_one_that_is_not_taken_is_taken_back(server):
    server.works = False
    result = server.run()
    assert result["failed"] and result["msg"].endswith("goes on with its former authentication configuration: no route to host")
    assert server.text() == OLD == server.has and server.names() == ["config.yaml"]


def test_a_run_that_was_killed_before_the_check_is_completed(server):
    server.path.write_text(NEW, encoding="utf-8")
    server.beside("former").write_text(OLD, encoding="utf-8")
    assert server.run()["changed"] and server.names() == ["config.yaml"] and server.has == NEW
    assert [words[0] for words in server.calls].count("exec") == 0


def test_after_a_killed_run_the_one_from_before_it_comes_back(server):
    """The one that the killed run wrote was never taken, so it is nothing to go back to."""
    server.works = False
    server.path.write_text(NEW, encoding="utf-8")
    server.beside("former").write_text(OLD, encoding="utf-8")
    assert server.run()["failed"]
    assert server.text() == OLD and server.names() == ["config.yaml"]


def test_what_a_killed_trial_left_is_removed(server):
    server.beside("candidate").write_text("# broken\n", encoding="utf-8")
    assert server.run(content=OLD)["changed"] and server.names() == ["config.yaml"]


def test_what_the_server_does_not_have_is_not_kept(server):
    """Such as a file that an administrator broke by hand."""
    server.works = False
    server.path.write_text("# broken\n", encoding="utf-8")
    server.has = OTHER
    result = server.run()
    assert result["failed"]
    assert server.text() == NEW, "it passed the trial, so the API server would start with it"


def test_check_mode_changes_nothing(server):
    assert server.run(_ansible_check_mode=True)["changed"] and server.text() == OLD
    assert not server.run(content=OLD, _ansible_check_mode=True)["changed"]
    assert all(words[0] == "get" for words in server.calls)


def test_an_api_server_without_the_file(server):
    server.path.unlink()
    assert "was made without an authentication configuration" in server.run()["msg"]


@pytest.mark.parametrize(
    "said, wanted",
    [
        ('x "command failed" err="a \\"b\\" c"', 'a "b" c'),
        ('x "failed to validate authentication config" err=<\n\tjwt[0]: bad\n\t | claims.a ==\n >\nI1 next', "jwt[0]: bad | claims.a =="),
        ('x "command failed" err=< jwt[0]: bad | .....^ > command terminated with exit code 1', "jwt[0]: bad | .....^"),
        ("something else", "something else"),
    ],
)
def test_reasons(said, wanted):
    assert module.reason(said) == wanted
