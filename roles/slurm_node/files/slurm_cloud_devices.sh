#!/bin/sh
# Made by deephdc.accelerators. Tells a cloud node, whose image knows nothing of it, which devices SLURM schedules here: it makes
# gpu_devices of the gres.conf that slurmd was given. The health check runs it, the first time before the node registers.
given=/var/lib/slurm/slurmd/conf-cache
devices=/etc/slurm/gpu_devices
# slurmd runs now, so its next start is not the first since boot (see its unit). With an argument it is systemd that runs this.
[ $# -gt 0 ] || touch /run/deephdc_slurmd_ran
[ -e "$given/gres.conf" ] || exit 0
# The files of a running slurmd; before it runs, those of its last run.
[ -e /etc/slurm/slurm.conf ] || [ -e /run/slurm/conf/slurm.conf ] || export SLURM_CONF="$given/slurm.conf"
node=$(hostname -s)

# PCI address of /dev/nvidiaN, which the driver tells; the node's name where no driver is.
address_of() {
    minor=${1##*[!0-9]}
    information=$(grep -lE "^Device Minor:[[:space:]]*$minor\$" /proc/driver/nvidia/gpus/*/information 2>/dev/null | head -n 1)
    [ -n "$information" ] && basename "$(dirname "$information")" || echo "$node"
}

# Type and file of each gres of this node, in the order of the lines, which is SLURM's.
ours() {
    while read -r line; do
        nodes="" name="" type="" files=""
        for word in $line; do
            case "$word" in
            NodeName=*) nodes=${word#*=} ;;
            Name=*) name=${word#*=} ;;
            Type=*) type=${word#*=} ;;
            File=*) files=${word#*=} ;;
            esac
        done
        if [ "$name" != gpu ] || [ -z "$nodes" ] || [ -z "$type" ] || [ -z "$files" ]; then continue; fi
        scontrol show hostnames "$nodes" | grep -qx "$node" || continue
        scontrol show hostnames "$files" | sed "s|^|$type |"
    done <"$given/gres.conf"
}

{
    echo "# Made by deephdc.accelerators: devices that SLURM schedules on this host, read by the programs that slurmd runs."
    echo "# type PCI-address file number"
    number=0
    ours | while read -r type file; do
        echo "$type $(address_of "$file") $file $number"
        number=$((number + 1))
    done
} >"$devices.new"
if cmp -s "$devices.new" "$devices"; then rm "$devices.new"; else mv "$devices.new" "$devices"; fi
