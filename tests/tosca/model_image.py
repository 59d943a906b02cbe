# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Make an image of this host's DEEPaaS and model. usage: model_image.py FOLDER NAME

FOLDER has publish.py of tests/kubernetes and gets images/model.tar.
"""

import sys
from pathlib import Path

folder, name = Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(folder))
import publish  # noqa: E402 - because it lies in FOLDER

PYTHON = Path("/usr/bin/python3").resolve()
LIBRARY = Path("/usr/lib") / PYTHON.name

layer = publish.Layer()
layer.program(PYTHON, str(PYTHON))
layer.link("/usr/bin/python3", PYTHON.name)
layer.add(LIBRARY, str(LIBRARY))
# With the libraries that the modules are linked with.
for module in sorted((LIBRARY / "lib-dynload").glob("*.so")):
    layer.program(module, str(module))
layer.add(Path("/opt/deepaas"), "/opt/deepaas")
layer.link("/usr/bin/deepaas-run", "/opt/deepaas/bin/deepaas-run")
(folder / "images").mkdir(exist_ok=True)
publish.image(folder / "images/model.tar", [name], layer)
