"""Make today's libraries serve a program of 2020: small libraries with the old names and versions that jump to what is installed.

usage: shims.py LIBRARY FOLDER   makes libssl.so.1.0.0, libcrypto.so.1.0.0 and libcurl.so.4 in FOLDER for what LIBRARY wants

Needs nm, readelf and gcc. A function that is in no installed library ends the program when it is called, with its name. TLS does not work:
the layouts of OpenSSL's structures have changed since.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Old library -> its version nodes, and the installed ones in which to look.
SHIMS = {
    "libssl.so.1.0.0": ("OPENSSL_1", ("libssl.so.3", "libcrypto.so.3")),
    "libcrypto.so.1.0.0": ("OPENSSL_1", ("libcrypto.so.3",)),
    "libcurl.so.4": ("CURL_OPENSSL_3", ("libcurl-gnutls.so.4",)),
}
RENAMED = {"SSLv23_method": "TLS_method", "SSL_state": "SSL_get_state"}
# Callbacks for threads and an initialization that OpenSSL does by itself today.
NEEDLESS = {"CRYPTO_num_locks", "SSL_library_init", "SSL_load_error_strings", "OPENSSL_add_all_algorithms_noconf"}
HEAD = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static long zero(void) { return 0; }
"""
FUNCTION = """static void *to_{name};
__attribute__((naked)) void {name}(void) {{ __asm__("jmp *to_{name}(%rip)"); }}
static void no_{name}(void) {{ fprintf(stderr, "shims: {name} is in no library here\\n"); abort(); }}
"""


def printed(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def versions(library: str) -> dict[str, list[str]]:
    """Version nodes that the library wants, by the file that has them."""
    found: dict[str, list[str]] = {}
    file = ""
    for line in printed("readelf", "-V", library).splitlines():
        if match := re.search(r"File: (\S+)", line):
            file = match[1]
            found[file] = []
        elif file and (match := re.search(r"Name: (\S+)", line)):
            found[file].append(match[1])
    return found


def functions(library: str) -> dict[str, list[str]]:
    """Functions that the library wants, by version node."""
    found: dict[str, list[str]] = {}
    for line in printed("nm", "-D", "--undefined-only", library).splitlines():
        if match := re.match(r"\s*[Uw] (\S+?)@+(\S+)$", line):
            found.setdefault(match[2], []).append(match[1])
    return found


def resolved(name: str, installed: tuple[str, ...]) -> str:
    """Return the line of C that finds a function."""
    if name in NEEDLESS or name.startswith("CRYPTO_set_"):
        return f"  to_{name} = (void *)zero;\n"
    today = "OPENSSL_" + name if name.startswith("sk_") else RENAMED.get(name, name)
    tries = "".join(f'  if (!to_{name}) to_{name} = dlsym(library[{index}], "{today}");\n' for index in range(len(installed)))
    return f"{tries}  if (!to_{name}) to_{name} = (void *)no_{name};\n"


def make(file: str, folder: Path, wanted: dict[str, list[str]], installed: tuple[str, ...]) -> None:
    names = [name for group in wanted.values() for name in group]
    opened = "".join(f'  library[{index}] = dlopen("{one}", RTLD_NOW | RTLD_LOCAL);\n' for index, one in enumerate(installed))
    (folder / f"{file}.c").write_text(
        HEAD
        + "".join(FUNCTION.format(name=name) for name in names)
        + f"__attribute__((constructor)) static void begin(void) {{\n  void *library[{len(installed)}];\n{opened}"
        + "".join(resolved(name, installed) for name in names)
        + "}\n"
    )
    (folder / f"{file}.map").write_text(
        "".join(f"{version} {{ {'global: ' + '; '.join(group) + ';' if group else ''} }};\n" for version, group in wanted.items())
    )
    subprocess.run(
        [
            *("gcc", "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-Wl,-soname,{file}", f"-Wl,--version-script={folder / file}.map"),
            *("-o", str(folder / file), str(folder / f"{file}.c"), "-ldl"),
        ],
        check=True,
    )


def main() -> None:
    library, folder = sys.argv[1], Path(sys.argv[2])
    needed, known = versions(library), functions(library)
    for file, (prefix, installed) in SHIMS.items():
        make(file, folder, {one: known.get(one, []) for one in needed[file] if one.startswith(prefix)}, installed)


if __name__ == "__main__":
    main()
