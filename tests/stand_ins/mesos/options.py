# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the flags of the daemons as stout (Mesos) and Scallop (Marathon, Chronos) do, and refuses with their words."""

from __future__ import annotations

from pathlib import Path

FLAGS = Path(__file__).resolve().parent / "flags"
TRUE, FALSE = {"true", "1"}, {"false", "0"}
# Flags of type Path keep their value; the program reads the file itself.
PATHS = {"credential", "credentials", "http_credentials", "jwt_secret_key", "firewall_rules"}
REQUIRED = {"mesos-agent": ["work_dir"], "marathon": ["master"]}
Values = dict[str, str]


class Refused(Exception):
    """Why a program does not start: its text goes to stderr, and code is how it ends."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def known(name: str) -> dict[str, str]:
    """Each flag with its kind: text, bool, or '= NAME' for an old name."""
    lines = (FLAGS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def fetched(name: str, value: str) -> str:
    """Read a value that is given as file://PATH, as stout does for all flags that are not paths themselves."""
    if not value.startswith("file://"):
        return value
    path = value[len("file://") :]
    if name in PATHS:
        return path
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Refused(
            f"Failed to load flag '{name}': Failed to load value '{value}': Error reading file '{path}': {error.strerror}"
        ) from error


def mesos(program: str, arguments: list[str], environment: dict[str, str]) -> Values:
    """Read MESOS_* and --flags. An unknown flag is refused; an unknown MESOS_* variable is ignored, as by the real ones."""
    kinds = known(program)
    try:
        return _mesos(program, kinds, arguments, environment)
    except Refused as error:
        raise Refused(f"{error}\n\nSee `{program} --help` for a list of supported flags.") from error


def _mesos(program: str, kinds: dict[str, str], arguments: list[str], environment: dict[str, str]) -> Values:
    given = {}
    for key, value in environment.items():
        name = key[len("MESOS_") :].lower()
        if key.startswith("MESOS_") and name in kinds:
            given[name] = value
    for argument in arguments:
        if not argument.startswith("--"):
            continue
        name, equals, text = argument[2:].partition("=")
        negated = name not in kinds and name.startswith("no-")
        plain = name[3:] if negated else name
        if plain not in kinds:
            raise Refused(f"Failed to load unknown flag '{plain}'" + (f" via '{name}'" if negated else ""))
        kind = kinds[plain]
        kind = kinds[kind[2:]] if kind.startswith("= ") else kind
        if kind != "bool" and negated:
            raise Refused(f"Failed to load non-boolean flag '{plain}' via '{name}'")
        if kind != "bool" and not equals:
            raise Refused(f"Failed to load non-boolean flag '{plain}': Missing value")
        given[plain] = text if equals else str(not negated).lower()
    values: Values = {}
    for name, text in given.items():
        kind = kinds[name]
        real = kind[2:] if kind.startswith("= ") else name
        value = fetched(real, text)
        if kinds[real] == "bool" and value not in TRUE | FALSE:
            raise Refused(f"Failed to load flag '{real}': Failed to load value '{value}': Expecting a boolean (e.g., true or false)")
        values[real] = value
    if "help" not in values and "version" not in values:
        for name in REQUIRED.get(program, []):
            if name not in values:
                raise Refused(f"Flag '{name}' is required, but it was not provided")
    return values


def is_set(values: Values, name: str, default: bool = False) -> bool:
    """Whether a boolean flag is true."""
    return values[name] in TRUE if name in values else default


def arguments_of(prefix: str, environment: dict[str, str]) -> list[str]:
    """What Marathon makes of MARATHON_*: an empty value is a flag without an argument. Chronos reads no such variables."""
    arguments = []
    for key, value in environment.items():
        if key.startswith(prefix) and not key.startswith(f"{prefix}APP_"):
            arguments += [f"--{key[len(prefix) :].lower()}", *([value] if value else [])]
    return arguments


def scallop(program: str, flags: str, arguments: list[str]) -> Values:
    """Read --name VALUE; a first argument @FILE stands for the words of that file (Scallop's ScallopArgListLoader)."""
    kinds = known(flags)
    if arguments and arguments[0].startswith("@"):
        try:
            arguments = Path(arguments[0][1:]).read_text(encoding="utf-8").split()
        except OSError as error:
            raise Refused(f"java.io.FileNotFoundException: {arguments[0][1:]} ({error.strerror})") from error
    values: Values = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise Refused(f"[scallop] Error: Excess arguments provided: '{word}'")
        name, equals, text = word[2:].partition("=")
        if name not in kinds:
            raise Refused(f"[scallop] Error: Unknown option '{name}'")
        if name == "help":
            print("".join(f"      --{flag}{'' if kind == 'bool' else '  <arg>'}\n" for flag, kind in sorted(kinds.items())))
            raise SystemExit(0)
        if kinds[name] == "bool":
            values[name] = "true"
        elif equals or (rest and not rest[0].startswith("--")):
            values[name] = text if equals else rest.pop(0)
        else:
            raise Refused(
                f"[scallop] Error: Bad arguments for option '{name}': '' - you should provide exactly one argument for this option"
            )
    for name in REQUIRED.get(program, []):
        if name not in values:
            raise Refused(f"[scallop] Error: Required option '{name}' not found")
    return values


def seconds(text: str) -> float:
    """A duration of stout, such as 10mins."""
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "secs": 1, "mins": 60, "hrs": 3600, "days": 86400, "weeks": 604800}
    for unit, factor in units.items():
        number = text[: -len(unit)]
        if text.endswith(unit) and number.replace(".", "", 1).isdigit():
            return float(number) * factor
    raise Refused(f"Failed to load value '{text}': Invalid duration '{text}'")
