#!/bin/sh
# Made by deephdc.accelerators. Hook for test hosts that are containers of one machine: they can't reach its container
# engine, so this leaves requests which scripts/local-cloud, on that machine, fetches and answers.
set -u
requests=/var/lib/deephdc/slurm_elastic/requests
patience=60
action=$1
shift
for name; do
    rm -f "$requests/failed.$name"
    : >"$requests/$action.$name"
done
code=0
for name; do
    while [ -e "$requests/$action.$name" ] && [ "$patience" -gt 0 ]; do
        sleep 1
        patience=$((patience - 1))
    done
    if [ -e "$requests/$action.$name" ]; then
        rm -f "$requests/$action.$name"
        echo "failed $name: nobody answered the request: does scripts/local-cloud run?"
        code=1
    elif [ -e "$requests/failed.$name" ]; then
        echo "failed $name: $(cat "$requests/failed.$name")"
        rm -f "$requests/failed.$name"
        code=1
    fi
done
exit "$code"
