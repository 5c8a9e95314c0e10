"""Archives in cpio's format "newc", of which an initramfs is made. The kernel unpacks several, one after another."""

import os
import posixpath
import stat

# As in Debian's file system. A file's folder is written with its real name, as a link cannot be replaced by a folder.
MERGED = {"/bin": "/usr/bin", "/sbin": "/usr/sbin", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}
TRAILER = "TRAILER!!!"


def real(path):
    """An absolute path without links at its root: /lib/x.so is /usr/lib/x.so."""
    path = posixpath.normpath("/" + path.lstrip("/"))
    first = "/" + path.split("/")[1]
    return MERGED[first] + path[len(first):] if first in MERGED and path != first else path


class Archive:
    """Writes to a binary file. Folders are made as they are needed; a path is only written once."""

    def __init__(self, file):
        self._file, self._written, self._entries = file, set(), 0

    def folder(self, path):
        path = real(path)
        if path != "/" and path not in self._written:
            self.folder(posixpath.dirname(path))
            self._entry(path, stat.S_IFDIR | 0o755, b"")

    def link(self, path, target):
        self._place(path, stat.S_IFLNK | 0o777, target.encode())

    def text(self, path, content, mode=0o644):
        self._place(path, stat.S_IFREG | mode, content if isinstance(content, bytes) else content.encode())

    def copy(self, path, source, mode=None):
        """The host's file `source`."""
        with open(source, "rb") as file:
            self.text(path, file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) if mode is None else mode)

    def close(self):
        self._entry(TRAILER, 0, b"")

    def _place(self, path, mode, content):
        path = real(path)
        if path not in self._written:
            self.folder(posixpath.dirname(path))
            self._entry(path, mode, content)

    def _entry(self, path, mode, content):
        self._written.add(path)
        self._entries += 1
        name = path.lstrip("/").encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = (self._entries, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._file.write(head + bytes(-len(head) % 4))
        self._file.write(content)
        self._file.write(bytes(-len(content) % 4))




def entries(data):
    """(path, mode, content) of all archives that follow one another in `data`."""
    place = 0
    while place < len(data):
        if data[place] == 0:  # what fills up to the next archive
            place += 1
            continue
        if data[place:place + 6] != b"070701":
            raise ValueError("no cpio entry at byte %d" % place)
        fields = [int(data[place + 6 + 8 * i:place + 14 + 8 * i], 16) for i in range(13)]
        name = data[place + 110:place + 110 + fields[11] - 1].decode()
        place += 110 + fields[11]
        place += -place % 4
        content = data[place:place + fields[6]]
        place += fields[6]
        place += -place % 4
        if name != TRAILER:
            yield "/" + name, fields[1], content
