"""Keep the archives that Ansible makes of modules from one run to the next.

They are in the directory that KEPT_MODULES names.
A scenario is dozens of runs of Ansible, and each would look through the imports of some thirty modules again.
That is a third of the control node's processor time. A changed plugin or another ansible-core begins with an empty directory.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

PLUGINS = Path(__file__).resolve().parents[4] / "plugins"


def state_of_plugins() -> str:
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(PLUGINS.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


class CallbackModule(CallbackBase):
    """A link that leads out of Ansible's temporary directory.

    Ansible looks for archives below that directory, which ends with the run.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kept_modules"
    CALLBACK_NEEDS_ENABLED = False

    def v2_playbook_on_start(self, playbook: object) -> None:
        kept = Path(os.environ["KEPT_MODULES"]) / state_of_plugins()
        kept.mkdir(parents=True, exist_ok=True)
        Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache").symlink_to(kept)
