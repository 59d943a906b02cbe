# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may use a Kubernetes cluster: issuers, rights, and what users have on a host."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import yaml
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._kubernetes import access, manager, settings
from ansible_collections.deephdc.accelerators.tests.unit.plugins.plugin_utils.kubernetes_examples import site

# What names alone would not show: scripts/narrow.py.
READS = ("*",)

IAM = {"name": "iam", "url": "https://iam.example.org", "audiences": ["kubernetes"]}
EGI = {"name": "egi", "url": "https://egi.example.org/oidc", "audiences": ["kubernetes"]}
WHERE = "kubernetes_cluster_issuers: iam"
READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
RULES = [
    {
        "expression": 'user.username.startsWith("iam:") && size(user.username) > 4',
        "message": "the name of the user is empty, or not one that this issuer may give",
    },
    {
        "expression": 'user.groups.all(name, name.startsWith("iam:") && size(name) > 4)',
        "message": "the name of a group is empty, or not one that this issuer may give",
    },
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("pki")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=CA", "-keyout", "ca.key", "-out", "ca.pem"]
    subprocess.run(words, cwd=path, check=True, capture_output=True)
    return (path / "ca.pem").read_text(encoding="utf-8")


def sentences(**given):
    return [str(found) for found in access.errors({**access.DEFAULTS, **given})]


def without_remedy(**given):
    return [str(found).removesuffix(f": {found.remedy}.") for found in access.errors({**access.DEFAULTS, **given})]


def of_issuer(**change):
    issuer = {key: value for key, value in {**IAM, **change}.items() if value is not ...}
    return without_remedy(issuers=[issuer])


class TestIssuers:
    def test_defaults_are_safe(self):
        assert sentences(issuers=[IAM]) == []
        assert access.jwt(IAM) == {
            "issuer": {"url": "https://iam.example.org", "audiences": ["kubernetes"], "audienceMatchPolicy": "MatchAny"},
            "claimMappings": {"username": {"claim": "sub", "prefix": "iam:"}, "groups": {"claim": "groups", "prefix": "iam:"}},
            "userValidationRules": RULES,
        }

    def test_all_keys(self, certificate):
        issuer = {
            **IAM,
            "discovery_url": "https://inside.example.org/.well-known/openid-configuration",
            "certificate_authority": certificate,
            "username": {"expression": "'iam:' + claims.preferred_username"},
            "groups": {"claim": "wlcg.groups", "prefix": "g:"},
            "allowed_groups": ["/gpu", 'say "hi"'],
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.org/iss", "value_expression": "claims.iss"}],
            "required_claims": {"wlcg.ver": "1.0"},
            "claim_validation_rules": [{"expression": "claims.exp - claims.iat <= 86400", "message": "lives too long"}],
            "user_validation_rules": [{"expression": "!user.username.endsWith('!')"}],
        }
        assert sentences(issuers=[issuer]) == []
        found = access.jwt(issuer)
        assert found["issuer"]["discoveryURL"] == issuer["discovery_url"] and found["issuer"]["certificateAuthority"] == certificate
        assert found["claimMappings"] == {
            "username": {"expression": "'iam:' + claims.preferred_username"},
            "groups": {"claim": "wlcg.groups", "prefix": "g:"},
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.org/iss", "valueExpression": "claims.iss"}],
        }
        assert found["claimValidationRules"] == [
            {"claim": "wlcg.ver", "requiredValue": "1.0"},
            {"expression": "claims.exp - claims.iat <= 86400", "message": "lives too long"},
        ]
        rules = [rule["expression"] for rule in found["userValidationRules"]]
        # An expression is held to the prefix, too.
        assert rules[0] == RULES[0]["expression"] and rules[1] == 'user.groups.all(name, name.startsWith("g:") && size(name) > 2)'
        assert rules[2] == r'user.groups.exists(name, name in ["g:/gpu", "g:say \"hi\""])'
        assert rules[3] == "!user.username.endsWith('!')"

    def test_without_a_prefix_no_token_gives_a_name_of_kubernetes(self):
        issuer = {**IAM, "username": {"prefix": ""}, "groups": {"prefix": ""}}
        assert sentences(issuers=[issuer]) == []
        name, groups = (rule["expression"] for rule in access.jwt(issuer)["userValidationRules"])
        assert name == 'size(user.username) > 0 && !user.username.startsWith("system:") && !user.username.startsWith("kubeadm:")'
        assert groups == 'user.groups.all(name, size(name) > 0 && !name.startsWith("system:") && !name.startsWith("kubeadm:"))'

    def test_the_file(self):
        text = access.configuration_text([IAM])
        assert text.startswith("# Made by deephdc.accelerators")
        found = yaml.safe_load(text)
        assert found == access.configuration([IAM]) and found["kind"] == "AuthenticationConfiguration"
        assert [one["path"] for one in found["anonymous"]["conditions"]] == list(access.OPEN)
        # The API server refuses a change of this part.
        assert found["anonymous"] == yaml.safe_load(access.configuration_text([]))["anonymous"]

    @pytest.mark.parametrize("name", [..., None, "", "IAM", "a:b", "-a", 7])
    def test_names(self, name):
        shown = None if name is ... else name
        assert of_issuer(name=name) == [f"kubernetes_cluster_issuers has an issuer with the name {shown!r}"]

    @pytest.mark.parametrize(
        "url",
        [
            *("http://iam.example.org", "iam.example.org", "https://", "https://a@iam.example.org", "https://iam.example.org?a=b"),
            *("https://iam.example.org#a", "https://iam example.org", "https://iam.example.org:port", 7, ""),
        ],
    )
    def test_addresses(self, url):
        assert of_issuer(url=url) == [f"{WHERE}: url is {url!r}"]

    def test_the_issuer_of_service_accounts(self):
        url = "https://kubernetes.default.svc.cluster.local"
        assert of_issuer(url=url) == [f"{WHERE}: url is {url!r}, the issuer of the cluster's own service accounts"]

    @pytest.mark.parametrize(
        "change, sentence",
        [
            ({"audiences": ...}, "has no audiences, so it would take tokens that were made for any other service"),
            ({"audiences": []}, "has no audiences, so it would take tokens that were made for any other service"),
            ({"audiences": "kubernetes"}, "audiences is 'kubernetes'"),
            ({"audiences": [""]}, "audiences is a list"),
            ({"audiences": ["a", "a"]}, "audiences names one twice"),
            ({"discovery_url": "https://iam.example.org/"}, "discovery_url is the url"),
            ({"discovery_url": "http://x"}, "discovery_url is 'http://x'"),
            ({"certificate_authority": "/etc/ssl/ca.pem"}, "certificate_authority has no certificate"),
            (
                {"certificate_authority": "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"},
                "certificate_authority can't be read",
            ),
            (
                {"certificate_authority": "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"},
                "certificate_authority has a private key",
            ),
            ({"username": "sub"}, "username is 'sub'"),
            ({"username": {"claim": "sub", "expression": "claims.sub"}}, "username has claim and expression"),
            ({"username": {"claim": ""}}, "username: claim is ''"),
            ({"groups": {"expression": " "}}, "groups: expression is ' '"),
            ({"groups": {"prefix": None}}, "groups: prefix is None"),
            ({"groups": {"prefix": "a'b"}}, 'groups: prefix is "a\'b"'),
            ({"groups": {"prefix": "system:iam:"}}, "groups: prefix is 'system:iam:', by which Kubernetes knows its own users"),
            ({"groups": {"prefix": "sys"}}, "groups: prefix is 'sys', by which Kubernetes knows its own users"),
            ({"allowed_groups": []}, "allowed_groups is empty"),
            ({"allowed_groups": "gpu"}, "allowed_groups is 'gpu'"),
            ({"uid": "sub"}, "uid is 'sub'"),
            ({"uid": {"claim": "a", "expression": "b"}}, "uid has claim and expression"),
            ({"required_claims": {"a": True}}, "required_claims is no dictionary of texts"),
            ({"extra": [{"key": "iss", "value_expression": "claims.iss"}]}, "extra has the key 'iss'"),
            ({"extra": [{"key": "Example.org/a", "value_expression": "claims.iss"}]}, "extra has the key 'Example.org/a'"),
            ({"extra": [{"key": "a.k8s.io/a", "value_expression": "claims.iss"}]}, "extra has the key 'a.k8s.io/a'"),
            ({"extra": [{"key": "example.org/a"}]}, "extra: example.org/a has no value_expression"),
            ({"claim_validation_rules": [{"message": "x"}]}, "claim_validation_rules has a rule without expression"),
            ({"user_validation_rules": [{"expression": "true"}] * 2}, "user_validation_rules has an expression twice"),
        ],
    )
    def test_what_is_refused(self, change, sentence):
        found = of_issuer(**change)
        assert found == [f"{WHERE}: {sentence}".replace("iam: has", "iam has")], found

    @pytest.mark.parametrize(
        "change, sentence",
        [
            ({"auds": ["a"]}, "kubernetes_cluster_issuers has the unknown key 'auds' (did you mean audiences?)."),
            ({"username": {"clam": "a"}}, f"{WHERE}: username has the unknown key 'clam' (did you mean claim?)."),
            ({"uid": {"prefix": "a"}}, f"{WHERE}: uid has the unknown key 'prefix' (known: claim, expression)."),
            (
                {"user_validation_rules": [{"expression": "true", "claim": "a"}]},
                f"{WHERE}: user_validation_rules has the unknown key 'claim' ",
            ),
        ],
    )
    def test_unknown_keys(self, change, sentence):
        (found,) = sentences(issuers=[{**IAM, **change}])
        assert found.startswith(sentence)

    def test_several(self):
        assert sentences(issuers=[IAM, EGI]) == []
        assert without_remedy(issuers=[IAM, {**EGI, "name": "iam", "username": {"prefix": "e:"}, "groups": {"prefix": "e:"}}]) == [
            "kubernetes_cluster_issuers has two issuers with the name iam"
        ]
        assert without_remedy(issuers=[IAM, {**EGI, "url": IAM["url"]}]) == [
            "kubernetes_cluster_issuers has two issuers with the url https://iam.example.org"
        ]
        assert sentences(issuers={"name": "iam"})[0].startswith("kubernetes_cluster_issuers is no list of dictionaries: write one such as")
        many = [{**IAM, "name": f"iam{number:02}", "url": f"https://iam{number}.example.org"} for number in range(65)]
        assert without_remedy(issuers=many) == ["kubernetes_cluster_issuers has 65 issuers, but the API server takes 64"]
        assert sentences(issuers=many[:64]) == []

    @pytest.mark.parametrize("prefix", ["iam:", "iam:e:", "", "i"])
    @pytest.mark.parametrize("kind", ["username", "groups"])
    def test_no_issuer_can_give_the_names_of_another(self, kind, prefix):
        short, long = sorted(("iam:", prefix), key=len)
        assert without_remedy(issuers=[IAM, {**EGI, kind: {"prefix": prefix}}]) == [
            f"kubernetes_cluster_issuers: the {kind} of iam and of egi have the prefixes {short!r} and {long!r}, "
            "so one could give the other's names"
        ]


class TestRights:
    def test_roles_and_bindings(self):
        cluster = {
            **settings.DEFAULTS,
            "issuers": [IAM],
            "roles": [
                {"name": "pod-reader", "rules": [READ]},
                {"name": "metrics", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
            ],
            "bindings": [
                {"role": "cluster-admin", "groups": ["iam:admins"], "users": ["iam:alice"]},
                {"role": "pod-reader", "users": ["iam:bob"], "namespaces": ["caribou", "physics"]},
                {"role": "pod-reader", "groups": ["iam:gpu"], "users": ["iam:bob"], "namespaces": ["physics"]},
                {"role": "metrics", "service_accounts": ["monitoring/prometheus"]},
                {"role": "view", "groups": ["system:authenticated"]},
            ],
        }
        assert [str(one) for one in access.errors(cluster)] == []
        found = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in access.rights(cluster)}
        assert list(found) == [
            ("ClusterRole", None, "metrics"),
            ("ClusterRole", None, "pod-reader"),
            ("ClusterRoleBinding", None, "deephdc:cluster-admin"),
            ("ClusterRoleBinding", None, "deephdc:metrics"),
            ("ClusterRoleBinding", None, "deephdc:view"),
            ("RoleBinding", "caribou", "deephdc:pod-reader"),
            ("RoleBinding", "physics", "deephdc:pod-reader"),
        ]
        both = found["RoleBinding", "physics", "deephdc:pod-reader"]
        assert both["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pod-reader"}
        assert [(one["kind"], one["name"]) for one in both["subjects"]] == [("Group", "iam:gpu"), ("User", "iam:bob")]
        assert both["metadata"]["labels"] == access.OWNED
        assert found["ClusterRoleBinding", None, "deephdc:metrics"]["subjects"] == [
            {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
        ]

    @pytest.mark.parametrize(
        "role, sentence",
        [
            ({"rules": [READ]}, "kubernetes_cluster_roles has a role with the name None"),
            ({"name": "a b", "rules": [READ]}, "kubernetes_cluster_roles has a role with the name 'a b'"),
            ({"name": "view", "rules": [READ]}, "kubernetes_cluster_roles has the role view, which is one of Kubernetes' own"),
            ({"name": "system:x", "rules": [READ]}, "kubernetes_cluster_roles has the role system:x, which is one of Kubernetes' own"),
            ({"name": "a", "rules": []}, "kubernetes_cluster_roles: a has no rules"),
            ({"name": "a", "rules": [{**READ, "verbs": []}]}, "kubernetes_cluster_roles: a has a rule that is incomplete"),
            ({"name": "a", "rules": [{**READ, "nonResourceURLs": ["/x"]}]}, "kubernetes_cluster_roles: a has a rule that is incomplete"),
            ({"name": "a", "rules": [{**READ, "verbs": "get"}]}, "kubernetes_cluster_roles: a has a rule that is incomplete"),
            (
                {"name": "a", "rules": [{"resources": ["pods"], "verbs": ["get"]}]},
                "kubernetes_cluster_roles: a has resources without apiGroups",
            ),
            ({"name": "a", "rules": [{**READ, "verbs": [True]}]}, "kubernetes_cluster_roles: a has a rule with a value that is no text"),
        ],
    )
    def test_roles_that_are_refused(self, role, sentence):
        assert without_remedy(roles=[role]) == [sentence]

    def test_two_roles_of_one_name(self):
        assert without_remedy(roles=[{"name": "a", "rules": [READ]}] * 2) == ["kubernetes_cluster_roles has the role a twice"]

    @pytest.mark.parametrize(
        "binding, sentence",
        [
            ({"groups": ["iam:a"]}, "kubernetes_cluster_bindings has an entry with the role None"),
            ({"role": "view"}, "kubernetes_cluster_bindings: view names no one"),
            ({"role": "view", "groups": "iam:a"}, "kubernetes_cluster_bindings: view: groups is 'iam:a'"),
            ({"role": "view", "groups": ["iam:a"], "namespaces": []}, "kubernetes_cluster_bindings: view: namespaces is empty"),
            (
                {"role": "view", "groups": ["iam:a"], "namespaces": ["A"]},
                "kubernetes_cluster_bindings: view: 'A' is no name of a namespace",
            ),
            ({"role": "view", "service_accounts": ["prometheus"]}, "kubernetes_cluster_bindings: view: 'prometheus' is no service account"),
            ({"role": "view", "groups": ["a"]}, "kubernetes_cluster_bindings: view: groups has a, which no issuer gives"),
            ({"role": "view", "users": ["iam:"]}, "kubernetes_cluster_bindings: view: users has iam:, which no issuer gives"),
            (
                {"role": "view", "groups": ["system:unauthenticated"]},
                "kubernetes_cluster_bindings: view: groups has system:unauthenticated, which is no user of an issuer",
            ),
            *(
                (
                    {"groups": ["system:authenticated"], **more},
                    f"kubernetes_cluster_bindings: {more['role']}: system:authenticated is all who",
                )
                for more in (
                    {"role": "cluster-admin"},
                    {"role": "edit", "namespaces": ["physics"]},
                    {"role": "made-by-hand"},
                    {"role": "admin", "everybody": "yes"},
                    {"role": "edit", "everybody": False},
                )
            ),
            (
                {"role": "view", "users": ["system:authenticated"]},
                "kubernetes_cluster_bindings: view: users has system:authenticated, which is no user of an issuer",
            ),
        ],
    )
    def test_bindings_that_are_refused(self, binding, sentence):
        found = sentences(issuers=[IAM], bindings=[binding])
        assert len(found) == 1 and found[0].startswith(sentence if sentence.endswith("all who") else f"{sentence}: "), found

    def test_everybody_gets_what_is_confirmed_or_only_reads(self):
        roles = [{"name": "look", "rules": [READ]}, {"name": "touch", "rules": [READ, {**READ, "verbs": ["get", "deletecollection"]}]}]
        everybody = {"groups": ["system:authenticated"]}
        assert sentences(issuers=[IAM], roles=roles, bindings=[{**everybody, "role": "look"}, {**everybody, "role": "view"}]) == []
        assert sentences(issuers=[IAM], bindings=[{**everybody, "role": "edit", "everybody": True}]) == []
        (found,) = sentences(issuers=[IAM], roles=roles, bindings=[{**everybody, "role": "touch"}])
        assert "this role changes things or reads secrets: name groups of an issuer" in found

    @pytest.mark.parametrize(
        "rule",
        [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get"]},
        ],
    )
    def test_everybody_reads_no_secret_and_enters_no_pod(self, rule):
        bindings = [{"groups": ["system:authenticated"], "role": "look"}]
        (found,) = sentences(issuers=[IAM], roles=[{"name": "look", "rules": [READ, rule]}], bindings=bindings)
        assert "this role changes things or reads secrets" in found

    def test_a_name_without_its_prefix_is_shown_with_it(self):
        (sentence,) = sentences(issuers=[IAM, EGI], bindings=[{"role": "view", "groups": ["gpu"]}])
        assert sentence.endswith(": write it with the prefix of its issuer: iam:gpu, egi:gpu.")


class TestChanges:
    def wanted(self, **binding):
        given = {"role": "view", "groups": ["iam:gpu"], **binding}
        return access.rights({**settings.DEFAULTS, "roles": [{"name": "pod-reader", "rules": [READ]}], "bindings": [given]})

    def test_nothing_where_all_is_there(self):
        wanted = self.wanted(namespaces=["physics"])
        present = json.loads(json.dumps(wanted))
        # As the API server gives them back.
        present[0]["rules"][0]["resourceNames"] = None
        present[1]["metadata"].update(uid="1", resourceVersion="7", annotations={"a": "b"})
        there = [*present, {"kind": "ClusterRole", "metadata": {"name": "view"}}]
        assert access.changes(there, wanted, ["physics"]) == {"remove": [], "write": [], "problems": []}

    @pytest.mark.parametrize("change", ["subject", "label", "rules"])
    def test_what_another_one_changed_is_written_again(self, change):
        wanted = self.wanted()
        present = json.loads(json.dumps(wanted))
        if change == "subject":
            present[1]["subjects"].append({"kind": "User", "name": "iam:mallory", "apiGroup": access.RBAC})
        elif change == "rules":
            present[0]["rules"][0]["verbs"].append("delete")
        else:
            present[1]["metadata"]["labels"].pop("app.kubernetes.io/component")
        found = access.changes([*present, {"kind": "ClusterRole", "metadata": {"name": "view"}}], wanted, [])
        if change == "label":  # not of ours any more: it is left and reported
            assert found["write"] == [] and "deephdc:view that is not of" in found["problems"][0]
        else:
            assert found == {"remove": [], "write": [wanted[0 if change == "rules" else 1]], "problems": []}

    def test_what_is_named_no_longer_is_removed_and_others_stay(self):
        policy = {
            "kind": "RoleBinding",
            "metadata": {"name": "physics", "namespace": "a", "labels": {"app.kubernetes.io/managed-by": "deephdc.accelerators"}},
        }
        present = [*self.wanted(namespaces=["a"]), policy, {"kind": "ClusterRole", "metadata": {"name": "view"}}]
        found = access.changes(present, [], ["a"])
        assert [(one["kind"], one["metadata"]) for one in found["remove"]] == [
            ("ClusterRole", {"name": "pod-reader"}),
            ("RoleBinding", {"name": "deephdc:view", "namespace": "a"}),
        ]

    def test_problems(self):
        present = [{"kind": "ClusterRole", "metadata": {"name": "pod-reader"}}]
        found = access.changes(present, self.wanted(namespaces=["a", "b"]), ["b"])
        assert [one["metadata"].get("namespace") for one in found["write"]] == ["b"]
        assert [sentence.split(":")[0] for sentence in found["problems"]] == [
            "The cluster has a ClusterRole pod-reader that is not of kubernetes_cluster_roles",
            "kubernetes_cluster_bindings names the namespace a for view, which the cluster does not have",
            "kubernetes_cluster_bindings names the role view, which the cluster does not have",
        ]


class TestUsers:
    def test_the_program_of_the_collection(self):
        found = access.plan({**settings.DEFAULTS, "issuers": [IAM]}, "192.0.2.1:6443")
        assert found["plugin"] == access.PLUGIN
        (user,) = found["kubeconfig"]["users"]
        assert user["user"]["exec"]["command"] == access.PLUGIN and user["user"]["exec"]["interactiveMode"] == "Never"
        assert found["kubeconfig"]["clusters"] == [{"name": "kubernetes", "cluster": {"server": "https://192.0.2.1:6443"}}]

    def test_without_an_issuer_there_is_nothing_for_users(self):
        found = access.plan(settings.DEFAULTS, "192.0.2.1:6443")
        assert (found["plugin"], found["kubeconfig"]) == ("", {})
        assert found["authentication"] == found["first_authentication"]

    def test_a_file_or_another_program(self):
        assert access.user({"file": "token"}) == {"tokenFile": "token"}
        program = {"command": "kubelogin", "args": ["get-token"], "env": {"B": "2", "A": "1"}, "install_hint": "ask us"}
        assert sentences(user_token={"exec": program}) == []
        assert access.user({"exec": program})["exec"] == {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "kubelogin",
            "args": ["get-token"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "interactiveMode": "IfAvailable",
            "installHint": "ask us",
        }

    @pytest.mark.parametrize(
        "given, sentence",
        [
            ("token", "kubernetes_cluster_user_token is 'token'"),
            ({"file": "a", "exec": {"command": "b"}}, "kubernetes_cluster_user_token has file and exec"),
            ({"file": ""}, "kubernetes_cluster_user_token: file is ''"),
            ({"exec": "kubelogin"}, "kubernetes_cluster_user_token: exec is 'kubelogin'"),
            ({"exec": {}}, "kubernetes_cluster_user_token: exec: command is None"),
            ({"exec": {"command": "a", "args": "b"}}, "kubernetes_cluster_user_token: exec: args is 'b'"),
            ({"exec": {"command": "a", "env": {"A": 1}}}, "kubernetes_cluster_user_token: exec: env is no dictionary of texts"),
            ({"exec": {"command": "a", "interactive_mode": "no"}}, "kubernetes_cluster_user_token: exec: interactive_mode is 'no'"),
            ({"exec": {"command": "a", "install_hint": 1}}, "kubernetes_cluster_user_token: exec: install_hint is 1"),
            (
                {"exec": {"command": "a", "args": ["--oidc-client-secret=x"]}},
                "kubernetes_cluster_user_token: exec has --oidc-client-secret, but all users of a host read this file",
            ),
            (
                {"exec": {"command": "a", "env": {"PASSWORD": "x"}}},
                "kubernetes_cluster_user_token: exec has PASSWORD, but all users of a host read this file",
            ),
        ],
    )
    def test_what_is_refused(self, given, sentence):
        assert without_remedy(user_token=given) == [sentence]


def test_the_manager_checks_access_before_a_host_is_contacted():
    found = [str(one) for one in manager.check(site(issuers=[{**IAM, "url": "http://iam.example.org"}]))]
    assert len(found) == 1 and found[0].startswith("kubernetes_cluster_issuers: iam: url is 'http://iam.example.org'")


# The program that finds a user's token


PROGRAM = pathlib.Path(access.__file__).resolve().parents[3] / "roles/kubernetes_cluster/files/kubernetes_token.py"


def token(**claims):
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "RS256"}, claims)]
    return ".".join([*parts, "c2ln"])


def ran(**environment):
    return subprocess.run([sys.executable, "-I", str(PROGRAM)], env=environment, capture_output=True, text=True, check=False)


def written(path, text, mode=0o600):
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


class TestProgram:
    def test_the_order(self, tmp_path):
        first, second, third = (token(n=number, exp=time.time() + 60) for number in range(3))
        there = {
            "BEARER_TOKEN": f" {first}\n",
            "BEARER_TOKEN_FILE": written(tmp_path / "b", second + "\n"),
            "XDG_RUNTIME_DIR": str(tmp_path),
        }
        written(tmp_path / f"bt_u{os.getuid()}", third)
        for wanted, name in ((first, "BEARER_TOKEN"), (second, "BEARER_TOKEN_FILE"), (third, "XDG_RUNTIME_DIR")):
            said = json.loads(ran(**there).stdout)
            assert said["kind"] == "ExecCredential" and said["status"]["token"] == wanted
            there.pop(name)

    def test_the_end_is_what_the_token_says(self):
        said = json.loads(ran(BEARER_TOKEN=token(exp=4102444800)).stdout)
        assert said["status"]["expirationTimestamp"] == "2100-01-01T00:00:00Z"
        assert "expirationTimestamp" not in json.loads(ran(BEARER_TOKEN="opaque").stdout)["status"]

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
    def test_a_file_that_others_can_open_is_refused(self, tmp_path, mode):
        done = ran(BEARER_TOKEN_FILE=written(tmp_path / "b", "secret", mode))
        assert done.returncode == 1 and "is open to other users" in done.stderr and "secret" not in done.stderr + done.stdout

    @pytest.mark.skipif(os.getuid() != 0, reason="because only root can give a file away")
    def test_a_file_of_another_user_is_refused(self, tmp_path):
        path = written(tmp_path / "b", "secret")
        os.chown(path, 12345, 12345)
        done = ran(BEARER_TOKEN_FILE=path)
        assert done.returncode == 1 and "belongs to another user" in done.stderr

    def test_a_link_at_a_known_place_is_not_followed(self, tmp_path):
        (tmp_path / f"bt_u{os.getuid()}").symlink_to(written(tmp_path / "other", "secret"))
        done = ran(XDG_RUNTIME_DIR=str(tmp_path))
        assert done.returncode == 1 and "can't be read" in done.stderr and not done.stdout

    @pytest.mark.parametrize(
        "environment, said",
        [
            ({"BEARER_TOKEN": "two words"}, "what BEARER_TOKEN has is no token"),
            ({"BEARER_TOKEN": "a\nb"}, "what BEARER_TOKEN has is no token"),
            ({"BEARER_TOKEN_FILE": "/nonexistent"}, "BEARER_TOKEN_FILE names /nonexistent, which is not there"),
            ({"BEARER_TOKEN_FILE": "/"}, "/ is no file"),
            ({"BEARER_TOKEN": token(exp=1)}, "ended at 1970-01-01 00:00:01 UTC: get a new one"),
            ({"XDG_RUNTIME_DIR": "/nonexistent"}, "there is no token"),
        ],
    )
    def test_what_is_refused(self, environment, said):
        done = ran(**environment)
        assert done.returncode == 1 and said in done.stderr and not done.stdout
