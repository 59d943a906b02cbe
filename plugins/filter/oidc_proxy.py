# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that check and make the configuration of an OpenID Connect front."""

from __future__ import annotations

import base64
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._filter import as_filter
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import conf as oidc_conf
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import plan as oidc_plan
from ansible_collections.deephdc.accelerators.plugins.plugin_utils._oidc import settings as oidc_settings


def typed(settings: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings with own_ca as true or false.

    Options given on the command line (-e name=value), and templates of older cores, are text.
    """
    return {**settings, "own_ca": boolean(settings.get("own_ca") or False)}


def oidc_proxy_errors(settings: dict[str, t.Any]) -> list[str]:
    return oidc_settings.errors(typed(settings))


def oidc_proxy_control_files(settings: dict[str, t.Any]) -> dict[str, list[str]]:
    authorities = [provider["ca_file"] for provider in oidc_settings.providers(settings) if provider["ca_file"]]
    return {"secrets": oidc_settings.secret_paths(settings), "authorities": list(dict.fromkeys(authorities))}


def oidc_proxy_secret_errors(settings: dict[str, t.Any], texts: dict[str, str]) -> list[str]:
    return oidc_settings.secret_errors(settings, texts)


def oidc_proxy_metadata_sources(settings: dict[str, t.Any], authorities: dict[str, str]) -> list[dict[str, str]]:
    used = {backend["provider"] for backend in oidc_settings.backends(settings)}
    return [
        {"name": provider["name"], "url": provider["metadata_url"], "ca": authorities.get(provider["ca_file"], "")}
        for provider in oidc_settings.providers(settings)
        if provider["name"] in used
    ]


def oidc_proxy_plan(
    settings: dict[str, t.Any], read: dict[str, t.Any], authorities: dict[str, str], present: list[str] | None = None
) -> dict[str, t.Any]:
    return oidc_plan.plan(typed(settings), read, authorities, present or [])


def oidc_proxy_secret_files(
    settings: dict[str, t.Any], master: str, texts: dict[str, str], predict: bool = False
) -> list[dict[str, t.Any]]:
    secret = base64.b64decode(master)
    if len(secret) < 32 and not predict:
        raise ValueError(
            f"The front's own secret {oidc_plan.STATE}/master.key is too short: remove it, then run again; users log in again."
        )
    return oidc_plan.secret_files(typed(settings), secret, texts)


def oidc_proxy_explain(complaint: str, candidate: str) -> str:
    return oidc_conf.guilty(complaint, candidate)


class FilterModule:
    """Checks and files of an OpenID Connect front."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "oidc_proxy_errors": as_filter(oidc_proxy_errors),
            "oidc_proxy_control_files": as_filter(oidc_proxy_control_files),
            "oidc_proxy_secret_errors": as_filter(oidc_proxy_secret_errors),
            "oidc_proxy_metadata_sources": as_filter(oidc_proxy_metadata_sources),
            "oidc_proxy_plan": as_filter(oidc_proxy_plan),
            "oidc_proxy_secret_files": as_filter(oidc_proxy_secret_files),
            "oidc_proxy_explain": as_filter(oidc_proxy_explain),
        }
