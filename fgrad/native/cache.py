"""Cache of native code in files, so that the next process need not compile it again.

    cache = code_cache(folder)
    cache.get(digest), cache.put(digest, code)

The name of a file is a digest of everything that determines its code: the LLVM IR, the processor, the version of LLVM
and its passes. The file starts with a checksum of the code. Code runs with the rights of the user, so a folder is used
only if other users cannot write into it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from fgrad import errors

_MOST_BYTES = 512 << 20
"""The maximal size of a folder in bytes."""
_PREFIX = "fgrad-"
"""The prefix of names of files; other files in the folder are the user's."""
_CHECKSUM = hashlib.sha256().digest_size


def cache_folder(cache: bool | str | os.PathLike[str] | None) -> str | None:
    """Return the folder for the argument `cache`; None: no cache.

    Args:
        cache: a folder; True: the user's cache folder; None: the value of the variable FGRAD_CACHE, where 1 means True.
            An empty string means no cache.

    Raises:
        ParameterError: a ValueError; it is not a folder.
        MissingExtraError: an ImportError; platformdirs, which finds the user's folder, is not installed.
    """
    if not isinstance(cache, (bool, str, bytes, os.PathLike, type(None))):
        raise errors.ParameterError(f"cache must be a folder, True or False, and is {cache!r:.100}.")
    if cache is None:
        setting = os.environ.get("FGRAD_CACHE", "")
        cache = {"0": False, "1": True}.get(setting, setting)
    if isinstance(cache, bool):
        return _users_folder() if cache else None
    folder = os.fsdecode(cache)
    return os.path.abspath(os.path.expanduser(folder)) if folder else None


def _users_folder() -> str:
    try:
        platformdirs: Any = importlib.import_module("platformdirs")
    except ImportError as error:
        raise errors.MissingExtraError(
            "compile(cache=True) needs platformdirs, which is not installed.\nInstall it, pip install "
            "'fgrad[compile]', or name a folder, cache='...'."
        ) from error
    return str(platformdirs.user_cache_path("fgrad") / "code")


@functools.cache
def code_cache(folder: str) -> CodeCache:
    """Return the cache in a folder, which is created if necessary."""
    return CodeCache(Path(folder))


class CodeCache:
    """Files of native code in a folder.

    Args:
        folder: the folder; if it does not exist, it is created with access for the user only.

    Raises:
        ParameterError: a ValueError; it is not a folder, or other users may write into it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise errors.ParameterError(f"the cache of compile cannot be made: {error}.") from error
        _check_owned(folder)

    def get(self, digest: str) -> bytes | None:
        """Return the code of a digest, or None if it is missing, corrupt or unreadable."""
        path = self._path(digest)
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            code = content[_CHECKSUM:]
            if hashlib.sha256(code).digest() == content[:_CHECKSUM]:
                with contextlib.suppress(OSError):  # another process has removed it, or it is read-only
                    os.utime(path)
                return code
            path.unlink(missing_ok=True)
        return None

    def put(self, digest: str, code: bytes) -> None:
        """Store code atomically; do nothing if it cannot be written, as on a full disk."""
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=f"{_PREFIX}new-")
            os.close(handle)
            try:
                Path(name).write_bytes(hashlib.sha256(code).digest() + code)
                os.replace(name, self._path(digest))
            except OSError:
                os.unlink(name)
                raise
            self._drop_oldest()

    def _path(self, digest: str) -> Path:
        return self._folder / f"{_PREFIX}{digest}.o"

    def _drop_oldest(self) -> None:
        """Remove the least recently used files, until the others do not exceed the maximal size.

        Among them are unfinished files of processes that were killed.
        """
        files = [(path.stat(), path) for path in self._folder.glob(f"{_PREFIX}*")]
        total = sum(each.st_size for each, _ in files)
        for each, path in sorted(files, key=lambda pair: pair[0].st_mtime):
            if total <= _MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= each.st_size


def _check_owned(folder: Path) -> None:
    if not hasattr(os, "getuid"):  # systems without mode bits, where a user's folders are private
        return
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise errors.ParameterError(
            f"others may write into {str(folder)!r}, so the code in it could be anyone's, and compile does not use it "
            "as a cache.\nTake a folder of your own, or: chmod go-w."
        )
