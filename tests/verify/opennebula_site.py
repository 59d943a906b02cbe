"""The site of the scenario opennebula: a front end with a stand-in for oned, and a KVM host with the distribution's libvirt."""

from __future__ import annotations

import json
import tempfile
from typing import Any

from local import Cluster

PLAYBOOK = "playbooks/opennebula.yml"
# Molecule has run the whole playbook; no driver can be bound to simulated devices.
SKIP = ("--skip-tags", "pci_passthrough")
CONF = "/var/lib/one/remotes/etc/im/kvm-probes.d/pci.conf"
COPY = "/var/tmp/one/etc/im/kvm-probes.d/pci.conf"
AUTH = "/var/lib/one/.one/one_auth"
# The simulated devices of kvm1: an A100 for machines, one that the host keeps (02:00.0), T4s in two domains, and a network card.
A100, T4, CARD, T4_FAR = "01:00.0", "03:00.0", "04:00.0", "0009:01:00.0"
OFFERED = sorted([A100, T4, T4_FAR])


class Site(Cluster):
    def one(self, code: str, session: str = "") -> str:
        """What a program with OpenNebula's bindings prints on the front end, as the administrator by default."""
        who = repr(session) if session else f"open('{AUTH}').read().strip()"
        head = f"import json, pyone; one = pyone.OneServer('http://localhost:2633/RPC2', session={who})"
        return self.out("front", f"python3 - <<'E'\n{head}\n{code}\nE")

    def shown(self) -> list[str]:
        """Addresses of the devices that machines may get."""
        return self.one("print(*sorted(device.SHORT_ADDRESS for device in one.host.info(0).HOST_SHARE.PCI_DEVICES.PCI))").split()

    def given(self) -> dict[str, str]:
        """Addresses of the devices that machines have, each with its machine's number."""
        has = "{device.SHORT_ADDRESS: device.VMID for device in one.host.info(0).HOST_SHARE.PCI_DEVICES.PCI if device.VMID != -1}"
        return {address: str(machine) for address, machine in json.loads(self.one(f"print(json.dumps({has}))")).items()}

    def running(self) -> list[str]:
        """Numbers of the machines on the host."""
        return self.one("print(*(getattr(one.host.info(0).VMS, 'ID', None) or []))").split()

    def stand_in(self, call: str) -> None:
        """What the stand-in for oned does for tests, such as terminate(0): see tests/stand_ins/opennebula_api.py."""
        self.out("front", f"python3 -c 'import xmlrpc.client as x; x.ServerProxy(\"http://127.0.0.1:2633/RPC2\").stand_in.{call}'")

    def start(self, template: str, session: str, more: str = "") -> str:
        """Start a machine from a template; its error, or nothing."""
        return self.one(
            f"""
found = next(entry for entry in one.templatepool.info(-2, -1, -1).VMTEMPLATE if entry.NAME == {template!r})
try:
    one.template.instantiate(found.ID, 'machine', False, {more!r}, False)
except pyone.OneException as error:
    print(error)""",
            session,
        )

    def conf(self) -> str:
        return self.out("front", f"cat {CONF}")

    def write_conf(self, text: str) -> None:
        self.out("front", f"cat > {CONF} <<'E'\n{text}\nE")

    def roll_out(self, *arguments: str, **options: Any) -> str:
        return self.playbook(PLAYBOOK, *SKIP, *arguments, **options)

    def role(self, name: str, entry: str, hosts: str, succeeds: bool = True) -> str:
        """One entry point of a role by itself, as another role calls it."""
        task = {"ansible.builtin.import_role": {"name": f"deephdc.accelerators.{name}", "tasks_from": entry}}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump([{"hosts": hosts, "gather_facts": False, "tasks": [task]}], file)
            file.flush()
            return self.playbook(file.name, succeeds=succeeds)


def recap(output: str, host: str) -> str:
    """A host's line at the end of a run."""
    return next(line for line in output.split("PLAY RECAP")[1].splitlines() if line.startswith(host))
