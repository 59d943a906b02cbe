# Made by deephdc.accelerators.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Start the program that writes HAProxy's configuration.

Its parts lie in the folder balancer, beside this file.
"""

import sys

from balancer.balancer_program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
