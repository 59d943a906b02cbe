# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What slurmdbd has and what a policy asks for, in one form.

The commands of sacctmgr(1) between them: pure functions.

Commands take many names at a time: one for 500 users costs what one for five does.
"""

from __future__ import annotations

import typing as t

from ansible_collections.deephdc.accelerators.plugins.module_utils._model.text import text_of
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import limits as slurm_limits
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm import policy as slurm_policy
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.limits import Attributes
from ansible_collections.deephdc.accelerators.plugins.module_utils._slurm.policy import NORMAL, ROOT, names

# Columns of `sacctmgr list`, with the setting each one shows.
ASSOCIATION_COLUMNS = {
    "Share": "fairshare",
    "QOS": "qos",
    "DefaultQOS": "defaultqos",
    "GrpTRES": "GrpTRES",
    "GrpTRESMins": "GrpTRESMins",
    "GrpJobs": "GrpJobs",
    "GrpSubmit": "GrpSubmitJobs",
    "MaxTRES": "MaxTRESPerJob",
    "MaxTRESMins": "MaxTRESMinsPerJob",
    "MaxWall": "MaxWall",
}
QOS_COLUMNS = {
    "Priority": "priority",
    "Flags": "flags",
    "Preempt": "preempt",
    "UsageFactor": "usagefactor",
    "GrpTRES": "GrpTRES",
    "GrpTRESMins": "GrpTRESMins",
    "GrpJobs": "GrpJobs",
    "GrpSubmit": "GrpSubmitJobs",
    "MaxTRES": "MaxTRESPerJob",
    "MaxTRESMins": "MaxTRESMinsPerJob",
    "MaxWall": "MaxWall",
    "MaxTRESPU": "MaxTRESPerUser",
    "MaxJobsPU": "MaxJobsPerUser",
    "MaxSubmitPU": "MaxSubmitJobsPerUser",
    "MaxTRESPA": "MaxTRESPerAccount",
    "MaxJobsPA": "MaxJobsPerAccount",
    "MaxSubmitPA": "MaxSubmitJobsPerAccount",
    "Description": "description",  # last, as a free text may have the sign between the columns
}
TRES_SETTINGS = {"GrpTRES", "GrpTRESMins", "MaxTRESPerJob", "MaxTRESMinsPerJob", "MaxTRESPerUser", "MaxTRESPerAccount"}
LISTS = {"qos", "preempt", "flags"}
# The value of a setting that was never set, and the word that resets it to that; "-1" for all others.
UNSET = {"fairshare": "1", "priority": "0", "usagefactor": "1", "qos": "", "preempt": ""}
# They describe and limit nothing: never reported as undeclared, never taken back.
DESCRIBING = {"description", "organization", "parent"}
# A name is at most 250 characters long, an argument at most 128 KiB.
BATCH = 400


class State:
    """Accounts, users, QOS and who belongs where, of one cluster."""

    def __init__(self) -> None:
        self.clusters: list[str] = []
        self.qos: dict[str, Attributes] = {}
        self.accounts: dict[str, Attributes] = {}
        # By account and user.
        self.users: dict[tuple[str, str], Attributes] = {}
        self.default: dict[str, str] = {}
        self.coordinators: dict[str, set[str]] = {}
        # Accounts whose users are declared elsewhere: none of them is a stranger there.
        self.elsewhere: set[str] = set()


# What is read, in this order; every column by its name, as the default ones differ between releases.
def reads(cluster: str) -> list[list[str]]:
    associations = ["Account", "User", "Partition", "ParentName", *ASSOCIATION_COLUMNS]
    return [
        ["list", "clusters", "format=Cluster"],
        ["list", "qos", f"format={','.join(['Name', *QOS_COLUMNS])}"],
        # Without what an association inherits from those above it.
        ["list", "associations", f"cluster={cluster}", "WOPLimits", f"format={','.join(associations)}"],
        ["list", "accounts", "WithCoordinator", "format=Account,Coordinators,Description"],
        ["list", "accounts", "format=Account,Organization"],
        ["list", "users", "format=User,DefaultAccount"],
    ]


def rows(words: t.Sequence[str], output: str) -> list[list[str]]:
    """What one command of reads printed, as rows of columns.

    :raises ValueError: a row has too few; one sentence.
    """
    width = words[-1].count(",") + 1
    found = [line.split("|", width - 1) for line in output.splitlines() if line]
    for row in found:
        if len(row) != width:
            raise ValueError(f"'sacctmgr {' '.join(words)}' prints a row of {len(row)} columns instead of {width}: {'|'.join(row)!r}")
    return found


def attributes(columns: t.Mapping[str, str], row: t.Sequence[str]) -> Attributes:
    found: Attributes = {}
    for setting, value in zip(columns.values(), row):
        if setting in TRES_SETTINGS:
            found.update(slurm_limits.parse_tres(setting, value))
        elif setting in LISTS:
            found.update({setting: listed(value.split(","))} if value else {})
        elif setting == "usagefactor":
            found[setting] = f"{float(value or 1):g}"
        elif setting == "MaxWall":
            found.update({setting: slurm_limits.minutes(value)} if value else {})
        elif value:
            found[setting] = value.lower() if setting in ("description", "defaultqos") else value
    return found


def listed(values: t.Iterable[str]) -> str:
    """Names as one text whose order says nothing."""
    return ",".join(sorted({value.strip() for value in values if value.strip()}))


def parse(outputs: t.Sequence[t.Sequence[t.Sequence[str]]]) -> State:
    """What the commands of reads printed, as rows of columns."""
    clusters, qos, associations, accounts, organizations, users = outputs
    state = State()
    state.clusters = [row[0] for row in clusters]
    state.qos = {row[0]: attributes(QOS_COLUMNS, row[1:]) for row in qos}
    for account, user, partition, parent, *rest in associations:
        if partition:
            continue  # made by hand for one partition; a policy knows no such thing and leaves it
        found = attributes(ASSOCIATION_COLUMNS, rest)
        if user:
            state.users[account, user] = found
        else:
            state.accounts[account] = {**found, "parent": parent}
    for name, coordinators, description in accounts:
        if name in state.accounts:
            state.accounts[name]["description"] = description.lower()
            state.coordinators[name] = {one for one in coordinators.split(",") if one}
    for name, organization in organizations:
        if name in state.accounts:
            state.accounts[name]["organization"] = organization.lower()
    state.default = {row[0]: row[1] for row in users if row[1]}
    return state


def association(entry: t.Mapping[str, t.Any]) -> Attributes:
    """What a policy declares for an account or user."""
    found: Attributes = {}
    if entry.get("fairshare") is not None:
        found["fairshare"] = str(entry["fairshare"])
    if entry.get("qos") is not None:
        found["qos"] = listed(names(entry["qos"])) or None
    if entry.get("default_qos") is not None:
        found["defaultqos"] = text_of(entry["default_qos"]).lower()
    found.update(slurm_limits.attributes(entry.get("limits") or {}, slurm_limits.ASSOCIATION))
    return found


def wanted(policy: t.Mapping[str, t.Any]) -> State:
    """What a policy that was found right declares; accounts stand after their parents."""
    state = State()
    for entry in policy.get("qos") or []:
        found: Attributes = {}
        if entry.get("description") is not None:
            found["description"] = entry["description"].lower()
        if entry.get("priority") is not None:
            found["priority"] = str(entry["priority"])
        if entry.get("flags") is not None:
            found["flags"] = listed(entry["flags"]) or None
        if entry.get("preempt") is not None:
            found["preempt"] = listed(names(entry["preempt"])) or None
        if entry.get("usage_factor") is not None:
            found["usagefactor"] = f"{float(entry['usage_factor']):g}"
        state.qos[text_of(entry["name"]).lower()] = {
            **found,
            **slurm_limits.attributes(entry.get("limits") or {}, slurm_limits.QOS),
        }
    state.qos.setdefault(NORMAL, {})
    for account in slurm_policy.top_down(policy.get("accounts") or []):
        name = text_of(account["name"]).lower()
        own: Attributes = {key: account[key].lower() for key in ("description", "organization") if account.get(key) is not None}
        state.accounts[name] = {**own, "parent": text_of(account.get("parent") or ROOT).lower(), **association(account)}
        if account.get("coordinators") is not None:
            state.coordinators[name] = set(names(account["coordinators"]))
        if account.get("users_from") is not None:
            state.elsewhere.add(name)
    for account in policy.get("accounts") or []:
        name = text_of(account["name"]).lower()
        for user in slurm_policy.users_of(account):
            state.users[name, user["name"]] = association(user)
            if user.get("default") is True:
                state.default[user["name"]] = name
    return state


def words(found: Attributes) -> list[str]:
    """Settings as sacctmgr takes them; None takes one back."""
    plain = []
    tres: dict[str, list[str]] = {}
    for key, value in sorted(found.items()):
        setting, _colon, resource = key.partition(":")
        if resource:
            tres.setdefault(setting, []).append(f"{resource}={'-1' if value is None else value}")
        else:
            plain.append(f"{setting}={UNSET.get(setting, '-1') if value is None else value}")
    return plain + [f"{setting}={','.join(resources)}" for setting, resources in tres.items()]


def given(found: Attributes) -> Attributes:
    """The settings of something new: there is nothing to take back."""
    return {key: value for key, value in found.items() if value is not None}


def differences(present: Attributes, declared: Attributes) -> Attributes:
    """What has to be set."""
    found: Attributes = {}
    for key, value in declared.items():
        now = present.get(key)
        if value is None:
            if now is not None and now != UNSET.get(key):
                found[key] = value
        elif now != value:
            found[key] = value
    return found


def undeclared(present: Attributes, declared: Attributes) -> Attributes:
    """What is set and not declared."""
    return {
        key: value
        for key, value in present.items()
        if key not in declared and key not in DESCRIBING and value is not None and value != UNSET.get(key)
    }


class Plan:
    """What a call would do: sacctmgr's commands in their order, and the same in words."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.added: list[str] = []
        self.changed: list[str] = []
        self.undeclared: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []

    def add(self, what: str, found: Attributes | None = None) -> None:
        self.added.append(what)
        self.after.append(" ".join([what, *words(given(found or {}))]))

    def change(self, what: str, before: Attributes, after: Attributes) -> None:
        self.changed.append(what)
        known = {key: before.get(key) for key in after}
        self.before.append(f"{what} {' '.join(words({k: v for k, v in known.items() if v is not None}) or ['nothing set'])}")
        self.after.append(f"{what} {' '.join(words(after))}")


def batches(values: t.Sequence[str]) -> list[str]:
    return [",".join(values[start : start + BATCH]) for start in range(0, len(values), BATCH)]


class Groups:
    """Names with equal words, in the order in which the words came."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], list[str]] = {}

    def put(self, key: t.Sequence[str], name: str) -> None:
        self.found.setdefault(tuple(key), []).append(name)

    def commands(self, form: t.Callable[[str, tuple[str, ...]], list[str]]) -> list[list[str]]:
        return [form(batch, key) for key, given in self.found.items() for batch in batches(given)]


def plan(cluster: str, present: State, declared: State, purge: bool) -> Plan:
    """What must be added and changed; removals come after it (see removals)."""
    found = Plan()
    if cluster not in present.clusters:
        found.add(f"cluster {cluster}")
        found.commands.append(["add", "cluster", cluster])
    plan_qos(found, present, declared, purge)
    plan_accounts(found, cluster, present, declared, purge)
    plan_users(found, cluster, present, declared, purge)
    plan_coordinators(found, present, declared)
    tell_undeclared(found, present, declared)
    return found


def to_set(found: Plan, what: str, present: Attributes, declared: Attributes, purge: bool) -> Attributes:
    """What has to be set on something that exists.

    What is not declared is taken back with purge, else reported.
    """
    wrong = differences(present, declared)
    strange = undeclared(present, declared)
    if closed_by_purge(strange):
        # A purge closed it when the policy did not name it; now it does.
        wrong["GrpSubmitJobs"] = None
        del strange["GrpSubmitJobs"]
    if purge:
        wrong.update(dict.fromkeys(strange))
    elif strange:
        found.undeclared.append(f"{what}: {' '.join(words(strange))}")
    return wrong


def plan_qos(found: Plan, present: State, declared: State, purge: bool) -> None:
    new, changed = Groups(), Groups()
    preempting: list[list[str]] = []
    for name, own in declared.qos.items():
        now = present.qos.get(name, {})
        # A request beyond a limit is refused at once, where SLURM would let it wait for ever; the site may say otherwise.
        kept = [] if purge else (now.get("flags") or "").split(",")
        own = {"flags": listed([*kept, "DenyOnLimit"]), **own}
        # It may name a QOS that is added in this run.
        preempt = {"preempt": own.pop("preempt")} if "preempt" in own else {}
        if name not in present.qos:
            found.add(f"QOS {name}", {**own, **preempt})
            new.put(words(given({**own, "description": own.get("description") or name})), name)
            wrong: Attributes = {key: value for key, value in preempt.items() if value}
        else:
            wrong = to_set(found, f"QOS {name}", now, {**own, **preempt}, purge)
            if wrong:
                found.change(f"QOS {name}", now, wrong)
        later = {"preempt": wrong.pop("preempt")} if "preempt" in wrong else {}
        if wrong:
            changed.put(words(wrong), name)
        if later:
            preempting.append(["modify", "qos", "where", f"name={name}", "set", *words(later)])
    found.commands += new.commands(lambda batch, key: ["add", "qos", f"name={batch}", *key])
    found.commands += changed.commands(lambda batch, key: ["modify", "qos", "where", f"name={batch}", "set", *key])
    found.commands += preempting


def plan_accounts(found: Plan, cluster: str, present: State, declared: State, purge: bool) -> None:
    scope = f"cluster={cluster}"
    for name, own in declared.accounts.items():
        if name not in present.accounts:
            found.add(f"account {name}", own)
            described = given({**own, "description": own.get("description") or name})
            found.commands.append(["add", "account", f"name={name}", scope, *words(described)])
            continue
        wrong = to_set(found, f"account {name}", present.accounts[name], own, purge)
        if wrong:
            found.change(f"account {name}", present.accounts[name], wrong)
            # Describing words belong to the account, all others to its association.
            record: Attributes = {key: wrong.pop(key) for key in ("description", "organization") if key in wrong}
            if record:
                found.commands.append(["modify", "account", "where", f"name={name}", "set", *words(record)])
            if wrong:
                found.commands.append(["modify", "account", "where", f"name={name}", scope, "set", *words(wrong)])
            if "parent" in wrong:
                # slurmctld goes on with the QOS of the former parent until it hears of the account's own.
                own_qos = own["qos"] if "qos" in own else None if purge else present.accounts[name].get("qos")
                found.commands.append(["modify", "account", "where", f"name={name}", scope, "set", *words({"qos": own_qos})])


def plan_users(found: Plan, cluster: str, present: State, declared: State, purge: bool) -> None:
    new, changed, defaults = Groups(), Groups(), Groups()
    scope = f"cluster={cluster}"
    first: dict[str, str] = {}
    for (account, user), own in declared.users.items():
        first.setdefault(user, account)
        what = f"user {user} in {account}"
        if (account, user) not in present.users:
            found.add(what, own)
            new.put([f"account={account}", *words(given(own))], user)
            continue
        wrong = to_set(found, what, present.users[account, user], own, purge)
        if wrong:
            found.change(what, present.users[account, user], wrong)
            changed.put([f"account={account}", *words(wrong)], user)
    for (account, user), now_set in present.users.items():
        if account in declared.elsewhere and (account, user) not in declared.users and closed_by_purge(now_set):
            found.change(f"user {user} in {account}", now_set, {"GrpSubmitJobs": None})
            changed.put([f"account={account}", *words({"GrpSubmitJobs": None})], user)
    for user, account in first.items():
        now = present.default.get(user, account)
        stays = not purge or (now, user) in declared.users or now in declared.elsewhere
        chosen = declared.default.get(user) or (now if stays else account)
        if chosen != now:
            what = f"default account of {user}"
            found.changed.append(what)
            found.before.append(f"{what} {now}")
            found.after.append(f"{what} {chosen}")
            defaults.put([chosen], user)
    found.commands += new.commands(lambda batch, key: ["add", "user", f"name={batch}", scope, *key])
    found.commands += changed.commands(lambda batch, key: ["modify", "user", "where", f"name={batch}", scope, key[0], "set", *key[1:]])
    found.commands += defaults.commands(
        lambda batch, key: ["modify", "user", "where", f"name={batch}", scope, "set", f"defaultaccount={key[0]}"]
    )


def plan_coordinators(found: Plan, present: State, declared: State) -> None:
    for account, own in declared.coordinators.items():
        missing = sorted(own - present.coordinators.get(account, set()))
        for name in missing:
            found.add(f"coordinator {name} of {account}")
        if missing:
            found.commands.append(["add", "coordinator", f"account={account}", f"names={','.join(missing)}"])


def inherited(accounts: t.Mapping[str, Attributes], coordinators: t.Mapping[str, set[str]], account: str) -> set[str]:
    """Coordinators of the accounts above one: some releases list them for it too."""
    found: set[str] = set()
    above = accounts.get(account, {}).get("parent")
    while above and above in accounts:
        found |= coordinators.get(above, set())
        above = accounts[above].get("parent")
    return found


class Strangers:
    """What slurmdbd has and the policy does not name."""

    def __init__(self, present: State, declared: State) -> None:
        self.accounts = [name for name in present.accounts if name not in declared.accounts and name != ROOT]
        self.users = [
            (account, user)
            for account, user in present.users
            if (account, user) not in declared.users and account in declared.accounts and account not in declared.elsewhere and user != ROOT
        ]
        self.qos = [name for name in present.qos if name not in declared.qos]
        self.coordinators = [
            (account, name)
            for account in declared.accounts
            for name in sorted(present.coordinators.get(account, set()))
            if name not in declared.coordinators.get(account, set())
            and name not in inherited(declared.accounts, declared.coordinators, account)
            and name not in inherited(present.accounts, present.coordinators, account)
        ]


def tell_undeclared(found: Plan, present: State, declared: State) -> None:
    strangers = Strangers(present, declared)
    found.undeclared += [f"QOS {name}" for name in strangers.qos]
    found.undeclared += [f"account {name}" for name in strangers.accounts]
    found.undeclared += [f"user {user} in {account}" for account, user in strangers.users]
    found.undeclared += [f"coordinator {name} of {account}" for account, name in strangers.coordinators]


class Job(t.NamedTuple):
    """A job that is pending or running."""

    account: str
    user: str
    qos: str


# No new job: of what waits to be removed, and so that a held job does not keep it open for ever.
CLOSED: Attributes = {"GrpSubmitJobs": "0"}


class Removal(t.NamedTuple):
    """One thing to remove.

    why: what keeps it; close: how it takes no new job until then (empty where it takes none).
    """

    what: str
    command: list[str]
    why: str
    close: tuple[str, ...] = ()


def closed_by_purge(present: Attributes) -> bool:
    """Whether a purge closed it.

    The role iam_accounts, for those who left, closes running jobs too.
    """
    return present.get("GrpSubmitJobs") == CLOSED["GrpSubmitJobs"] and present.get("GrpJobs") != "0"


def closing(kind: str, where: t.Sequence[str], present: Attributes) -> tuple[str, ...]:
    return () if present.get("GrpSubmitJobs") == "0" else ("modify", kind, "where", *where, "set", *words(CLOSED))


def removals(
    cluster: str, present: State, declared: State, jobs: t.Sequence[Job], partition_qos: t.Collection[str] | None
) -> list[Removal]:
    """What the policy does not name, from the leaves of the tree up.

    partition_qos: those that the partitions name now, None where slurmctld does not say: it would not start again without one of them.

    One thing per command: slurmdbd's query grows with the square of what a command removes. 40 accounts of 50 users in
    one command did not end in 10 minutes, one after the other they took 84 s.
    """
    strangers = Strangers(present, declared)
    scope = f"cluster={cluster}"
    found = []
    for account, name in strangers.coordinators:
        command = ["delete", "coordinator", "where", f"account={account}", f"names={name}"]
        found.append(Removal(f"coordinator {name} of {account}", command, ""))
    busy = {(job.account, job.user) for job in jobs}
    for account, user in strangers.users:
        why = "jobs of theirs are pending or running" if (account, user) in busy else ""
        where = [f"name={user}", f"account={account}", scope]
        close = closing("user", where, present.users[account, user])
        found.append(Removal(f"user {user} in {account}", ["delete", "user", "where", *where], why, close))
    children: dict[str, list[str]] = {}
    for name, own in {**present.accounts, **declared.accounts}.items():
        children.setdefault(own.get("parent") or "", []).append(name)
    strange = set(strangers.accounts)
    kept: set[str] = set()
    needed_by_policy: set[str] = set()

    def visit(account: str) -> None:
        below = children.get(account, [])
        for child in below:
            visit(child)
        if account not in strange:
            return
        needed = [child for child in below if child not in strange or child in kept]
        declared_below = [child for child in needed if child not in strange or child in needed_by_policy]
        if declared_below:
            needed_by_policy.add(account)
        why = f"account {needed[0]} is below it" if needed else ""
        if any(job.account == account for job in jobs):
            why = "jobs in it are pending or running"
        if why:
            kept.add(account)
        where = [f"name={account}", scope]
        # The limit would hold for the accounts below it too.
        close = () if declared_below else closing("account", where, present.accounts[account])
        found.append(Removal(f"account {account}", ["delete", "account", "where", *where], why, close))

    visit(ROOT)
    for name in strangers.qos:
        why = ""
        if [other for other in present.clusters if other != cluster]:
            why = "other clusters of this database may use it"
        elif partition_qos is None:
            why = "slurmctld does not say which QOS its partitions name"
        elif name in partition_qos:
            why = "a partition names it"
        elif any(job.qos == name for job in jobs):
            why = "jobs with it are pending or running"
        found.append(Removal(f"QOS {name}", ["delete", "qos", "where", f"name={name}"], why))
    return found


def policy_of(present: State) -> dict[str, t.Any]:
    """The reverse of wanted: a policy that declares what there is."""
    qos = []
    for name, own in present.qos.items():
        entry: dict[str, t.Any] = {"name": name}
        if own.get("description"):
            entry["description"] = own["description"]
        entry["priority"] = int(own.get("priority") or 0)
        entry["flags"] = [flag for flag in (own.get("flags") or "").split(",") if flag in slurm_policy.FLAGS]
        if own.get("preempt"):
            entry["preempt"] = t.cast(str, own["preempt"]).split(",")
        entry["usage_factor"] = float(own.get("usagefactor") or 1)
        qos.append(with_limits(entry, own, slurm_limits.QOS))
    users: dict[str, list[dict[str, t.Any]]] = {}
    for (account, user), own in present.users.items():
        if user != ROOT:
            entry = {"name": user, **association_of(own)}
            if present.default.get(user) == account:
                entry["default"] = True
            users.setdefault(account, []).append(with_limits(entry, own, slurm_limits.ASSOCIATION))
    accounts = []
    for name, own in present.accounts.items():
        if name == ROOT:
            continue
        entry = {"name": name, **{key: own[key] for key in ("description", "organization") if own.get(key)}}
        if own.get("parent") and own["parent"] != ROOT:
            entry["parent"] = own["parent"]
        entry.update(association_of(own))
        direct = present.coordinators.get(name, set()) - inherited(present.accounts, present.coordinators, name)
        if direct:
            entry["coordinators"] = sorted(direct)
        if users.get(name):
            entry["users"] = users[name]
        accounts.append(with_limits(entry, own, slurm_limits.ASSOCIATION))
    return {"accounts": accounts, "qos": qos}


def association_of(own: Attributes) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {}
    share = own.get("fairshare")
    if share and share != UNSET["fairshare"]:
        entry["fairshare"] = int(share) if share.isdigit() else share
    if own.get("qos"):
        entry["qos"] = t.cast(str, own["qos"]).split(",")
    if own.get("defaultqos"):
        entry["default_qos"] = own["defaultqos"]
    return entry


def with_limits(entry: dict[str, t.Any], own: Attributes, scopes: t.Mapping[str, slurm_limits.Scope]) -> dict[str, t.Any]:
    limits = slurm_limits.limits_of(own, scopes)
    return {**entry, "limits": limits} if limits else entry
