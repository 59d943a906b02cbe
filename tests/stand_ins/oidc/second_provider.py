"""A second identity provider, of other habits than the first: PyPI's oidc-provider-mock, by TLS. Only the set-up is ours.

usage: second_provider.py CONFIGURATION.json      the configuration of provider.mjs; of it port + 9000, certificate, key and users
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import uvicorn
from oidc_provider_mock import User, app

site = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
users = [
    User(sub=user["sub"], claims={"preferred_username": user["name"], "groups": user["groups"], "email": f"{user['name']}@site.test"})
    for user in site["users"]
]
# A user with a claim of the IAM's name for groups in another case.
users.append(
    User(
        sub="11111111-1111-4111-8111-000000000009",
        claims={"preferred_username": "mallory", "groups": ["gpu"], "GROUPS": ["gpu"], "email": "mallory@site.test"},
    )
)
# The metadata is made of the request's own address, so that a client sees https.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
uvicorn.run(
    app(user_claims=users),
    interface="wsgi",
    host="0.0.0.0",
    port=9000 + site["port"],
    ssl_certfile=site["certificate"],
    ssl_keyfile=site["key"],
)
