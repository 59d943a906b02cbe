#!/usr/bin/python
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the metadata of OpenID Connect providers from the host that will use them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: oidc_metadata_info
version_added: 0.1.0
short_description: Read the metadata of OpenID Connect providers
author: deephdc.accelerators contributors (@deephdc)
description:
  - Fetches the discovery document of each provider over verified TLS, from the host that will use it.
  - The module does not fail if a provider can't be read. C(error) in RV(providers) says why.
extends_documentation_fragment: deephdc.accelerators.reads
options:
  providers:
    description: The providers to ask.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the provider in the result.
        type: str
        required: true
      url:
        description: Address of its discovery document, https.
        type: str
        required: true
      ca:
        description: PEM text of the authorities that may have signed the provider's certificate, instead of those that the host trusts.
        type: str
        default: ""
  timeout:
    description: Seconds to wait for each provider.
    type: float
    default: 10.0
"""

EXAMPLES = r"""
- name: Read what a provider says about itself
  deephdc.accelerators.oidc_metadata_info:
    providers:
      - name: iam
        url: https://iam.example.org/.well-known/openid-configuration
  register: iam
"""

RETURN = r"""
providers:
  description: For each name, the C(metadata) that an OIDC front needs, and C(error), which is empty if they were read.
  type: dict
  returned: always
  sample:
    iam:
      error: ""
      metadata:
        issuer: https://iam.example.org/
        jwks_uri: https://iam.example.org/jwk
"""

import json
import ssl
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deephdc.accelerators.plugins.module_utils._oidc import metadata as oidc_metadata

LARGEST = 1024 * 1024


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Metadata from the given address only.

    To take them from another one would be the site's decision.
    """

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


def read(url: str, ca: str, timeout: float) -> dict:
    if not url.startswith("https://"):
        raise ValueError("it is no https address")
    context = ssl.create_default_context(cadata=ca or None)
    # Newer Pythons refuse authorities of sites that curl takes, and curl is what the front itself asks with.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), NoRedirect())
    with opener.open(urllib.request.Request(url, headers={"Accept": "application/json"}), timeout=timeout) as answer:
        document = json.loads(answer.read(LARGEST))
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return {key: document[key] for key in oidc_metadata.KEYS if key in document}


def main() -> None:
    item = {"name": {"type": "str", "required": True}, "url": {"type": "str", "required": True}, "ca": {"type": "str", "default": ""}}
    module = AnsibleModule(
        argument_spec={
            "providers": {"type": "list", "elements": "dict", "required": True, "options": item},
            "timeout": {"type": "float", "default": 10.0},
        },
        supports_check_mode=True,
    )
    found = {}
    for provider in module.params["providers"]:
        try:
            found[provider["name"]] = {"metadata": read(provider["url"], provider["ca"], module.params["timeout"]), "error": ""}
        except urllib.error.HTTPError as error:
            found[provider["name"]] = {"metadata": {}, "error": f"HTTP {error.code}"}
        except (OSError, ValueError) as error:  # URLError and ssl.SSLError are OSErrors, broken JSON and broken PEM are ValueErrors
            reason = getattr(error, "reason", None) or error
            found[provider["name"]] = {"metadata": {}, "error": " ".join(str(reason).split())[:200]}
    module.exit_json(changed=False, providers=found)


if __name__ == "__main__":
    main()
