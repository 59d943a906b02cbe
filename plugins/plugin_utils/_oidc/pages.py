# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
# This file is private to the collection: its content may change in any release.
"""What the front answers by itself: a page for people and JSON for programs.

Pure functions.
"""

from __future__ import annotations

import html
import json
import typing as t

# Status, what it is called, what it means.
GENERAL = {
    400: ("Bad Request", "The request is not valid HTTP, or its header or cookies are too large."),
    401: ("Unauthorized", "Log in, or send a valid access token: Authorization: Bearer TOKEN."),
    403: ("Forbidden", "There is nothing here for you."),
    404: ("Not Found", "There is nothing here."),
    408: ("Request Timeout", "The request came too slowly."),
    413: ("Content Too Large", "The body is larger than this service takes."),
    414: ("URI Too Long", "The address is too long."),
    429: ("Too Many Requests", "Too many tokens from your address were refused. Wait a minute, then send a valid one."),
    500: ("Internal Server Error", "The front could not handle the request; its operators find the reason in its log."),
    502: ("Bad Gateway", "The service behind this front answered nonsense."),
    503: ("Service Unavailable", "The service behind this front does not answer."),
    504: ("Gateway Timeout", "The service behind this front did not answer in time."),
}

Item = t.Dict[str, t.Any]


def listed(words: t.Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def requirements(backend: t.Mapping[str, t.Any]) -> list[str]:
    """What a backend wants of those who come in, one sentence each."""
    needs = []
    groups, scopes, audience = backend["groups"], backend["scopes"], backend["audience"]
    if groups:
        needs.append(
            f"Your account needs to be in the group {listed(groups, 'or')}."
            if len(groups) == 1
            else f"Your account needs to be in one of the groups {listed(groups, 'or')}."
        )
    if scopes and backend["access"] != "browser":
        needs.append(f"A token needs the scope{'s' if len(scopes) > 1 else ''} {listed(scopes, 'and')}.")
    if audience and backend["access"] != "browser":
        needs.append(f"A token needs the audience {listed(audience, 'or')}.")
    needs.append(f"Allowed methods: {', '.join(backend['methods'])}.")
    return needs


def as_json(status: int, detail: str, more: t.Mapping[str, t.Any]) -> str:
    return (
        json.dumps(
            {"generator": "Made by deephdc.accelerators", "status": status, "error": GENERAL[status][0], "detail": detail, **more}, indent=1
        )
        + "\n"
    )


def as_html(title: str, sentences: t.Sequence[str]) -> str:
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in sentences)
    return (
        "<!DOCTYPE html>\n<!-- Made by deephdc.accelerators -->\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>\n'
        f"<body><h1>{html.escape(title)}</h1>\n{paragraphs}</body></html>\n"
    )


def pages(backends: t.Iterable[t.Mapping[str, t.Any]], logged_out: bool) -> dict[str, str]:
    """All pages by the name of their file."""
    made = {}
    for status, (title, detail) in GENERAL.items():
        made[f"{status}.json"] = as_json(status, detail, {})
        made[f"{status}.html"] = as_html(f"{status} {title}", [detail])
    if logged_out:
        made["loggedout.html"] = as_html("Logged out", ["You are logged out of this front."])
    for backend in backends:
        needs = requirements(backend)
        more = {"backend": backend["name"], "required_groups": backend["groups"], "required_scopes": backend["scopes"]}
        detail = " ".join(["You may not do this.", *needs])
        made[f"403_{backend['name']}.json"] = as_json(403, detail, more)
        made[f"403_{backend['name']}.html"] = as_html("403 Forbidden", [f"You are not allowed to use {backend['name']} so.", *needs])
    return made
