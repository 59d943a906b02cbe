#!/bin/sh
# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
#
# Makes the links in /dev/char that udev makes of other devices, before kubelet starts and then every minute.
# NVIDIA's driver makes its files itself, so they have none. With control groups of systemd, runc 1.1 gives systemd a container's devices by
# these links. A device without one is lost to a running container when its limits are updated, or systemd reads its units again.
set -eu
mkdir -p /dev/char
for file in /dev/nvidia* /dev/nvidia-caps/*; do
    [ -c "$file" ] || continue
    link=/dev/char/$(stat -c '%Hr:%Lr' "$file")
    [ "$(readlink "$link")" = "$file" ] || ln -sfn "$file" "$link"
done
