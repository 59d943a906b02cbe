#!/bin/sh
# Made by deephdc.accelerators
# Succeeds where Apache takes the candidate configuration; the running one is not touched.
# Reading it is not all: some mistakes show only at the start, and a reload with one of those would end the front.
set -e
. /etc/apache2/envvars
set -u
said=$(mktemp)
trap 'rm -f "$said"' EXIT

refuse() {
    grep -Ev ':(notice|warn|info)\]|AH00558|^Syntax OK' "$said" | tail -n 5 >&2
    exit 1
}

/usr/sbin/apache2ctl -t -D DEEPHDC_NEXT >"$said" 2>&1 || refuse
mkdir -p "$APACHE_RUN_DIR" "$APACHE_LOCK_DIR"
code=0
# A trial start among ports, logs and process ids of its own; 124: it still ran when time was up.
# shellcheck disable=SC2016 # the inner shell expands them
unshare --net --mount sh -ec '
    ip link set lo up
    mount -t tmpfs none "$APACHE_RUN_DIR"
    mount -t tmpfs none "$APACHE_LOG_DIR"
    code=0
    timeout 2 /usr/sbin/apache2 -D FOREGROUND -D DEEPHDC_NEXT 2>&1 || code=$?
    cat "$APACHE_LOG_DIR"/*error.log 2>/dev/null || true
    exit $code' >"$said" 2>&1 || code=$?
[ "$code" = 124 ] || refuse
