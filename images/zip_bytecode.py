"""Keep the bytecode of what Python imports from zip archives.

Python would compile it again in every process.
Ansible sends each module, with the part of its library that it needs, as such an archive.
Compiling it is half of the processor time that a small module takes.
What runs is the same: bytecode is found by its source and by Python's release.
"""

import _imp
import marshal
import os
import zipimport
from _frozen_importlib_external import MAGIC_NUMBER

DIRECTORY = "/var/cache/zip_bytecode"
compile_source = zipimport._compile_source


def keep(file, code):
    new = f"{file}.{os.getpid()}"
    try:
        with open(new, "wb") as stream:
            marshal.dump(code, stream)
        os.rename(new, file)
    except OSError:
        return  # a full disk is for the module to find


def kept_or_compiled(path, source):
    file = f"{DIRECTORY}/{_imp.source_hash(1, MAGIC_NUMBER + source).hex()}-{len(source)}"
    try:
        with open(file, "rb") as stream:
            code = marshal.load(stream)
        # Tracebacks name the archive of now.
        _imp._fix_co_filename(code, path)
    except (OSError, EOFError, ValueError):
        code = compile_source(path, source)
        if os.geteuid() == 0:
            keep(file, code)
    return code


zipimport._compile_source = kept_or_compiled
