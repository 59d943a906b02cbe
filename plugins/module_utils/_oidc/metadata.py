# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What a provider's metadata say about the rules that its tokens must pass.

Pure functions.
"""

from __future__ import annotations

import re
import typing as t

Item = t.Dict[str, t.Any]

# An address that the configuration can hold as it is: what a provider says of itself must not become a directive.
HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/%-]*)?")
# The same with a query, where nothing is added to it: some providers name a policy so (https://iam.example.org/v2.0?p=users).
HTTPS_QUERY = re.compile(HTTPS.pattern + r"(\?[A-Za-z0-9._~/=&-]*)?")

# Where the module sends codes, tokens and secrets of browsers' logins; it reads these addresses itself.
LOGIN_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")

# What is read of the metadata; nothing else is kept.
KEYS = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "userinfo_endpoint",
    "jwks_uri",
    "introspection_endpoint",
    "claims_supported",
    "scopes_supported",
    "code_challenge_methods_supported",
    "backchannel_logout_supported",
)

# Claims of INDIGO IAM's access tokens with its defaults (profile "iam"); aud where the client asked for one.
INDIGO_TOKEN = {"sub", "iss", "exp", "iat", "jti", "client_id", "aud"}


def is_indigo(metadata: t.Mapping[str, t.Any]) -> bool:
    """INDIGO IAM is the one that offers the claim organisation_name."""
    return "organisation_name" in (metadata.get("claims_supported") or ())


def needed_claims(provider: t.Mapping[str, t.Any], backends: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return what an access token must carry for the provider's backends.

    The rules of the backends need it. The value is the first backend that needs it.
    """
    needed: dict[str, str] = {}
    for backend in backends:
        if backend["provider"] == provider["name"] and backend["access"] in ("bearer", "both"):
            claims = [provider["bearer_user_claim"], *map(str, backend["claims_headers"].values())]
            claims += [provider["groups_claim"]] if backend["groups"] else []
            claims += ["scope"] if backend["scopes"] else []
            for claim in claims:
                needed.setdefault(claim, backend["name"])
    return needed


def token_errors(
    provider: t.Mapping[str, t.Any], backends: t.Iterable[t.Mapping[str, t.Any]], metadata: t.Mapping[str, t.Any]
) -> list[str]:
    """Report claims that rules need and that locally validated tokens can't carry.

    It knows this only as far as the metadata say.
    """
    if provider["bearer"] != "local":
        return []
    declared, offered = set(provider["access_token_claims"]), metadata.get("claims_supported")
    standard = {"iss", "aud", "exp", "nbf", "iat", "jti", "sub", "client_id"}
    errors = []
    for claim, backend in needed_claims(provider, backends).items():
        if claim in declared:
            continue
        if is_indigo(metadata) and claim not in INDIGO_TOKEN:
            errors.append(
                f"oidc_proxy_backends: {backend} needs the claim {claim}, which access tokens of INDIGO IAM ({provider['name']}) do not "
                "carry by default: set bearer: introspection for this provider, or switch the claim on in IAM "
                "(IAM_ACCESS_TOKEN_INCLUDE_SCOPE, IAM_ACCESS_TOKEN_INCLUDE_AUTHN_INFO) and declare it in access_token_claims."
            )
        elif offered and claim not in offered and claim not in standard | {"scope"}:
            errors.append(
                f"oidc_proxy_backends: {backend} needs the claim {claim}, which the metadata of {provider['name']} do not offer "
                "(claims_supported): correct the rule, or declare the claim in access_token_claims if access tokens have it all the same."
            )
    return errors


def metadata_errors(
    provider: t.Mapping[str, t.Any], backends: t.Iterable[t.Mapping[str, t.Any]], found: t.Mapping[str, t.Any]
) -> list[str]:
    """What keeps a front from using a provider.

    found: the keys metadata and error of the module oidc_metadata_info.
    """
    about = f"oidc_proxy_providers: {provider['name']}"
    backends = [one for one in backends if one["provider"] == provider["name"]]
    if not backends:
        return []
    browser = any(one["access"] in ("browser", "both") for one in backends)
    if found.get("error"):
        return [
            f"{about}: its metadata at {provider['metadata_url']} can't be read from this host ({found['error']}): "
            "correct the address, or run again when the provider is back. A running front goes on as it is."
        ]
    metadata = found.get("metadata") or {}
    errors = []
    if metadata.get("issuer") != provider["issuer"]:
        errors.append(
            f"{about}: issuer is {provider['issuer']!r}, but the metadata say {metadata.get('issuer')!r}: write it exactly so, "
            "after you made sure that it is the right provider."
        )
    for bearer, key, form in (("local", "jwks_uri", HTTPS_QUERY), ("introspection", "introspection_endpoint", HTTPS)):
        if provider["bearer"] == bearer and not form.fullmatch(str(provider[key] or metadata.get(key) or "")):
            errors.append(
                f"{about}: bearer is {bearer}, but the metadata have no {key} that is a plain https address: choose another way or give it."
            )
    errors += [
        f"{about}: its metadata have the {key} {metadata[key]!r}: a login would send secrets there, so it must be https."
        for key in LOGIN_ENDPOINTS
        if browser and key in metadata and not str(metadata[key]).startswith("https://")
    ]
    if browser and provider["pkce"] and "S256" not in (metadata.get("code_challenge_methods_supported") or ()):
        errors.append(
            f"{about}: the metadata do not offer PKCE with S256 (code_challenge_methods_supported): have it switched on there, "
            "or set pkce: false and rely on state and nonce alone."
        )
    offered = metadata.get("scopes_supported")
    if browser and offered:
        errors += [
            f"{about}: scopes has {word}, which the metadata do not offer (scopes_supported)."
            for word in provider["scopes"]
            if word not in offered
        ]
    return errors + token_errors(provider, backends, metadata)


def endpoint(provider: t.Mapping[str, t.Any], key: str, found: t.Mapping[str, t.Any]) -> str:
    """An address from the operator, else from the metadata."""
    return str(provider[key] or (found.get("metadata") or {}).get(key) or "")
