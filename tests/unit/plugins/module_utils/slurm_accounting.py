# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""A database of accounts that takes commands of sacctmgr and prints as sacctmgr does: as much of it as the tests need."""

from __future__ import annotations

import re

from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import associations as slurm_associations


def as_printed(setting, value):
    if setting == "MaxWall" and value:
        days, rest = divmod(int(value), 1440)
        return f"{f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00"
    return value


class Database:
    def __init__(self):
        self.clusters = []
        self.qos = {"normal": {"description": "Normal QOS default", "priority": "0", "usagefactor": "1.000000"}}
        self.associations = {("root", ""): {"fairshare": "1", "qos": "normal"}, ("root", "root"): {"fairshare": "1"}}
        self.parents = {}
        self.described = {"root": {"description": "default root account", "organization": "root"}}
        self.default = {"root": "root"}
        self.coordinators = {}

    def rows(self, words):
        """What a list command prints, as rows of columns."""
        entity, columns = words[1], words[-1].split("=")[1].split(",")
        if entity == "clusters":
            return [[name] for name in self.clusters]
        if entity == "qos":
            return [[name, *self.columns(own, slurm_associations.QOS_COLUMNS)] for name, own in self.qos.items()]
        if entity == "associations":
            return [
                [
                    account,
                    user,
                    "",
                    "" if user else self.parents.get(account, ""),
                    *self.columns(own, slurm_associations.ASSOCIATION_COLUMNS),
                ]
                for (account, user), own in self.associations.items()
            ]
        if entity == "accounts":
            if columns == ["Account", "Organization"]:
                return [[name, own.get("organization", "")] for name, own in self.described.items()]
            assert columns == ["Account", "Coordinators", "Description"]
            return [
                [name, ",".join(sorted(self.coordinators.get(name, set()))), own.get("description", "")]
                for name, own in self.described.items()
            ]
        return [[user, account] for user, account in self.default.items()]

    @staticmethod
    def columns(own, columns):
        return [as_printed(setting, own.get(setting, "")) for setting in columns.values()]

    def state(self):
        return slurm_associations.parse([self.rows(words) for words in slurm_associations.reads("demo")])

    def run(self, commands):
        for words in commands:
            self.one(*words)

    def one(self, verb, entity, *words):
        given = dict(word.split("=", 1) for word in words if "=" in word)
        names = given.pop("name", "").split(",")
        given.pop("cluster", None)
        if entity == "cluster":
            self.clusters.append(words[0])
        elif entity == "coordinator":
            self.coordinators.setdefault(given["account"], set()).update(given["names"].split(","))
        elif entity == "qos":
            for name in names:
                assert (verb == "add") == (name not in self.qos), name
                self.put(self.qos.setdefault(name, {"priority": "0", "usagefactor": "1.000000"}), given)
        elif entity == "account":
            self.account(verb, names, given)
        else:
            self.user(verb, names, given)

    def account(self, verb, names, given):
        for name in names:
            assert (verb == "add") == ((name, "") not in self.associations), name
            own = self.associations.setdefault((name, ""), {"fairshare": "1"})
            settings = dict(given)
            if "parent" in settings:
                assert (settings["parent"], "") in self.associations, settings["parent"]
                self.parents[name] = settings.pop("parent")
            described = self.described.setdefault(name, {"organization": name})
            described.update({key: settings.pop(key).lower() for key in ("description", "organization") if key in settings})
            self.put(own, settings)

    def user(self, verb, names, given):
        account = given.pop("account", None)
        for name in names:
            if "defaultaccount" in given:
                assert (given["defaultaccount"], name) in self.associations
                self.default[name] = given["defaultaccount"]
                continue
            assert (account, "") in self.associations and (verb == "add") == ((account, name) not in self.associations), name
            self.default.setdefault(name, account)
            self.put(self.associations.setdefault((account, name), {"fairshare": "1"}), given)

    @staticmethod
    def put(own, settings):
        for setting, value in settings.items():
            if setting in slurm_associations.TRES_SETTINGS:
                now = dict(part.split("=") for part in own.get(setting, "").split(",") if part)
                now.update(re.findall(r"([^,=]+)=([^,]+)", value))
                own[setting] = ",".join(f"{tres}={number}" for tres, number in now.items() if number != "-1")
            elif value == "-1":
                own.pop(setting, None)
            else:
                own[setting] = value
