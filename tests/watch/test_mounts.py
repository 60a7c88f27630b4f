from __future__ import annotations

import pytest

from nitro_repl._watch.mounts import network_type

TABLE = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:9 - nfs4 server:/home rw
31 30 8:2 / /home/me/local rw,relatime - xfs /dev/sdb rw
32 22 0:41 / /my\040share rw,relatime - cifs //server/share rw
33 22 0:42 / /homely rw - fuse.sshfs me@there:/ rw
34 22 0:43 / /tmp rw - tmpfs tmpfs rw
""".lstrip()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me", "nfs4"),
        ("/home/me/local/src", ""),
        ("/my share/src", "cifs"),
        ("/homely", "fuse.sshfs"),
        ("/tmp/x", ""),
        ("/usr", ""),
    ],
)
def test_the_innermost_mount_counts(tmp_path, folder, kind):
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert network_type(folder, str(table)) == kind


def test_where_mounts_are_not_listed_nothing_is_known(tmp_path):
    assert network_type("/home/me", str(tmp_path / "none")) == ""
