#!/usr/bin/env bash
# Run playbooks with an inventory and variables that no other user can read.
#
#   tosca_run.sh ANSIBLE-PLAYBOOK PLAYBOOK...   the inventory and the variables come from standard input, a line of YAML each
#   tosca_run.sh                                only remove what runs left that have ended, killed ones too: it has secrets
set -euo pipefail

# A run holds the lock of its folder as long as it lives.
for left in "${TMPDIR:-/tmp}"/deephdc-tosca-*; do
    if [ -d "$left" ] && [ ! -L "$left" ] && [ -O "$left" ]; then
        flock --nonblock "$left" rm -rf -- "$left" || true
    fi
done
[ $# -gt 0 ] || exit 0

# Another run may have removed the folder before it was locked.
until [ -n "${folder-}" ] && [ -d "$folder" ]; do
    folder=$(mktemp --directory "${TMPDIR:-/tmp}/deephdc-tosca-XXXXXXXX")
    exec 9<"$folder" || continue
    flock 9
done
for name in hosts variables; do
    IFS= read -r line
    # The umask of the playbooks stays that of whoever runs them: it is that of what they make on this machine.
    (umask 077 && printf '%s\n' "$line" >"$folder/$name.yml")
done
# In its place: who ends this process ends the playbooks.
exec "$1" --inventory "$folder/hosts.yml" --extra-vars "@$folder/variables.yml" "${@:2}" </dev/null
