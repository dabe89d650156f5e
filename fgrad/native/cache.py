"""Native code that is kept in files, so that the next process does not compile it again.

    cache = code_cache(folder)      None if nothing is to be kept
    cache.get(digest), cache.put(digest, code)

A file is named for all that its code depends on: the program in LLVM's language, the processor, LLVM's version and the
passes that run. It begins with a checksum of the code. Code runs with the rights of the user, so a folder is used only
where other users cannot write.
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
"""Bytes that a folder may hold."""
_PREFIX = "fgrad-"
"""What names of files begin with: others in the folder are the user's."""
_CHECKSUM = hashlib.sha256().digest_size


def cache_folder(cache: bool | str | os.PathLike[str] | None) -> str | None:
    """Return the folder for the argument `cache`; None: nothing is kept.

    Args:
        cache: a folder; True: that of the user's caches; None: what the variable FGRAD_CACHE says, 1 for True. An empty
            text is no folder.

    Raises:
        MissingExtraError: an ImportError; platformdirs, which knows the folder, is not installed.
    """
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
    """Return the cache in a folder, which is made if it is not there."""
    return CodeCache(Path(folder))


class CodeCache:
    """Files of native code in a folder.

    Args:
        folder: made with access for the user alone, if it is not there.

    Raises:
        ParameterError: a ValueError; it is no folder, or others may write into it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise errors.ParameterError(f"the cache of compile cannot be made: {error}.") from error
        _check_owned(folder)

    def get(self, digest: str) -> bytes | None:
        """Return code, or None if there is none, or none that is whole and can be read."""
        path = self._path(digest)
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            code = content[_CHECKSUM:]
            if hashlib.sha256(code).digest() == content[:_CHECKSUM]:
                with contextlib.suppress(OSError):  # another process has dropped it, or it can only be read
                    os.utime(path)
                return code
            path.unlink(missing_ok=True)
        return None

    def put(self, digest: str, code: bytes) -> None:
        """Keep code; a reader sees all of it, or nothing. A full disk keeps nothing."""
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
        """Remove the files that were not used for longest, until the others are no more than a folder may hold.

        Among them are those that a process has begun to write, and was ended.
        """
        files = [(path.stat(), path) for path in self._folder.glob(f"{_PREFIX}*")]
        total = sum(each.st_size for each, _ in files)
        for each, path in sorted(files, key=lambda pair: pair[0].st_mtime):
            if total <= _MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= each.st_size


def _check_owned(folder: Path) -> None:
    if not hasattr(os, "getuid"):  # where access is not said by bits, a user's folders are the user's
        return
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise errors.ParameterError(
            f"others may write into {str(folder)!r}, so the code in it could be anyone's, and compile does not use it "
            "as a cache.\nTake a folder of your own, or: chmod go-w."
        )
