#!/bin/sh
# Made by deephdc.accelerators: udocker's mode R1. A container in a cgroup of its own would outlive its job, so it gets none.
# The configuration that crun of Debian 12 proposes lacks the user namespace: that of runc has it.
case "$1" in
spec) exec /usr/sbin/runc "$@" ;;
*) exec /usr/bin/crun --cgroup-manager=disabled "$@" ;;
esac
