"""Which file systems tell nothing of what other machines write."""

from __future__ import annotations

import os
import re

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|drvfs|vboxsf|ceph|lustre|gpfs|afs|beegfs|glusterfs"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|rclone)"
)
_TABLE = "/proc/self/mountinfo"


def network_type(folder: str, table: str = _TABLE) -> str:
    """The type of the network file system that a folder is on, else ''.

    Args:
        folder: An absolute path.
        table: Where the system lists its mounts; without one, nothing is known.
    """
    try:
        with open(table, encoding="utf-8", errors="replace") as file:
            mounts = [_mount(line) for line in file]
    except OSError:
        return ""
    place = os.path.realpath(folder) + os.sep
    over = [mount for mount in mounts if place.startswith(mount[0].rstrip("/") + "/")]
    kind = max(over, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return kind if _NETWORK.fullmatch(kind) else ""


def _mount(line: str) -> tuple[str, str]:
    """Where, and of what type; blanks in a path are octal numbers."""
    before, _, after = line.partition(" - ")
    fields = before.split()
    where = fields[4] if len(fields) > 4 else ""
    return re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), where), after.split(" ")[0]
