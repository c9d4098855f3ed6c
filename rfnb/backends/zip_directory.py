"""Checks the directory of a zip file against the length of the file before anything in it is unpacked."""

from __future__ import annotations

import zipfile

# A file of zeros packs a thousandfold. What is packed may unpack to this much, or to this many times its size.
_MOST, _TIMES = 1 << 26, 50
_LOCAL = 30  # bytes before the name of a member, where it lies


def members_of(file: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """The members in the order in which they are stored. Their names are not paths.

    Args:
        size: Size of the file in bytes.

    Raises:
        ValueError: If a member occurs twice, overlaps another one, or is packed without a size limit; or if they unpack to more than
            64 MiB and 50 times the size of the file.
    """
    members = sorted(file.infolist(), key=lambda member: member.header_offset)
    ends = [*(member.header_offset for member in members[1:]), file.start_dir]
    unpacked, names = sum(member.file_size for member in members), set()
    if unpacked > max(_MOST, _TIMES * size):
        raise ValueError(f"it unpacks to {unpacked:,} bytes, {unpacked // max(size, 1):,} times its size")
    for member, end in zip(members, ends, strict=True):
        name = member.orig_filename
        if name in names:
            raise ValueError(f"{name.removesuffix('.npy')!r:.100} is there twice")
        names.add(name)
        if member.header_offset < 0 or member.header_offset + _LOCAL + len(name) + member.compress_size > end:
            raise ValueError(f"{name!r:.100} lies over what follows it")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name!r:.100} is neither stored nor deflated")
        if member.compress_type == zipfile.ZIP_STORED and member.compress_size != member.file_size:
            raise ValueError(f"{name!r:.100} has {member.compress_size:,} bytes, and says {member.file_size:,}")
    return members
