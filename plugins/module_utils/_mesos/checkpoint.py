# Private to deephdc.accelerators: not part of its public interface.
# It may change or go away in any release; do not import it from elsewhere.
# Copyright (c) 2026 deephdc.accelerators contributors
# SPDX-License-Identifier: Apache-2.0
"""What an agent of Mesos has written down of itself: pure functions.

Source: SlaveInfo and Resource of mesos.proto 1.11.0, by protobuf's wire format. The file begins with the length of the message in
four bytes, as protobuf::write of stout puts it.
"""

from __future__ import annotations

import struct
from typing import Iterator, Tuple, Union

# Where the agent keeps it, below its work_dir.
SLAVE_INFO = "meta/slaves/latest/slave.info"
_RESOURCES, _NAME, _SCALAR, _VALUE = 3, 1, 3, 1
_VARINT, _EIGHT_BYTES, _TEXT, _FOUR_BYTES = 0, 1, 2, 5


def disk_mib(record: bytes) -> int:
    """Return the MiB of disk that an agent registered with, from its slave.info.

    :raises ValueError: it is no such file, or names no disk.
    """
    if len(record) < 4 or struct.unpack("<I", record[:4])[0] != len(record) - 4:
        raise ValueError("slave.info is not whole")
    for number, content in _fields(record[4:]):
        if number != _RESOURCES or not isinstance(content, bytes):
            continue
        resource = dict(_fields(content))
        scalar = resource.get(_SCALAR)
        if resource.get(_NAME) == b"disk" and isinstance(scalar, bytes):
            value = dict(_fields(scalar)).get(_VALUE)
            if isinstance(value, bytes) and len(value) == 8:
                return int(struct.unpack("<d", value)[0])
    raise ValueError("slave.info names no disk")


def _fields(message: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """The fields of a message: number, and a number or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _TEXT:
            length, at = _varint(message, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError("slave.info has a field of an unknown kind")
        if at + length > len(message):
            raise ValueError("slave.info ends too early")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while at < len(message):
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not message[at - 1] & 0x80:
            return value, at
    raise ValueError("slave.info ends too early")
