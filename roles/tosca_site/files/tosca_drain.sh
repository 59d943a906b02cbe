#!/bin/sh
# Made by deephdc.accelerators. SPDX-License-Identifier: Apache-2.0
# Drain a worker of a SLURM cluster before an orchestrator removes its machine: it gets no new jobs, and those that run there end first.
#
#   tosca_drain NAME [SECONDS]     SECONDS to wait at most, 3600 by default
#
# Whoever runs it again waits on. A reconfiguration of the deployment gives a worker that is still there jobs again, unless an administrator
# drained it before for another reason.
set -eu

fail() {
    echo "$1" >&2
    exit 1
}

case $# in
    1 | 2) ;;
    *) fail "usage: tosca_drain NAME [SECONDS]" ;;
esac
name=$1 seconds=${2:-3600}
case $name in
    '' | *[!a-zA-Z0-9_-]*) fail "'$name' is no name of a worker: write one, as sinfo shows it" ;;
esac
case $seconds in
    '' | *[!0-9]*) fail "'$seconds' is no number of seconds" ;;
esac
state=$(scontrol show node "$name" 2>/dev/null) || fail "SLURM knows no worker $name, or its controller does not answer: sinfo shows all of them"
case $state in
    *State=*DRAIN*) ;;
    *) scontrol update "nodename=$name" state=drain reason="leaves the deployment" || fail "SLURM does not drain $name: run this as root" ;;
esac
deadline=$(($(date +%s) + seconds))
while :; do
    jobs=$(squeue --noheader --nodelist="$name" --format=%i) || fail "SLURM does not say which jobs run on $name: run this again"
    [ -n "$jobs" ] || break
    [ "$(date +%s)" -lt "$deadline" ] \
        || fail "After $seconds s $name still runs the jobs $(echo "$jobs" | paste -s -d ' ' -): it gets no new ones. Run this again to wait on."
    sleep 2
done
echo "$name has no jobs and gets none: its machine can be removed"
