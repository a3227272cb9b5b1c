"""numba's decorators with the types of what they decorate, and where compiled code is kept.

numba keeps compiled code as pickles, and to read a pickle is to run it: a folder that others can
write is a way into every later release. Code is therefore read and kept only in

1. the folder that `NUMBA_CACHE_DIR` names, where the user named one; else
2. the package's own `__pycache__`, which is as trusted as the sources beside it. Where the package
   cannot be written, what an image's build left there (`sfumato doctor --warm`) is still read;
3. where neither can be written, a folder of the user's own that nobody else may enter (0700):
   `sfumato-compiled` in the user's cache folder, or `sfumato-compiled-UID` in the temporary one.

Where none of these can be had, everything is compiled in every run: slower, never an error. Nor
is a file an error that cannot be read, is cut short, or comes from another version.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from functools import lru_cache
from inspect import getfile
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import platformdirs
from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime.nrt import rtsys

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile at the first call, keep the result on disk, let go of the lock while it runs."""
    return _kept(njit(nogil=True)(function), function)


def inlined(function: _Function) -> _Function:
    """The same, written into its callers: for a step that inner loops take."""
    return _kept(njit(nogil=True, inline="always")(function), function)


def _kept(dispatcher: Any, function: _Function) -> _Function:
    folders = compiled_folders(Path(getfile(function)).parent)
    if folders:
        dispatcher._cache = _Layers(function, folders)
    return cast(_Function, dispatcher)


@lru_cache
def compiled_folders(sources: Path) -> tuple[tuple[Path, bool], ...]:
    """Where compiled code of a folder of sources is looked for, in turn, and which may be written.

    At most the last of them is written, and it is the only one if the first can be.

    Args:
        sources: A folder of the package.

    Returns:
        Folders that are there, and whether files can be made in each. Empty where there is none.

    Example:
        >>> from pathlib import Path
        >>> import sfumato
        >>> from sfumato.model.compiled import compiled_folders
        >>> len(compiled_folders(Path(sfumato.__file__).parent)) <= 2
        True
    """
    # As numba names them: the last folder's name, for people, and a digest of all of it.
    mark = hashlib.sha256(str(sources.absolute()).encode()).hexdigest()[:16]
    apart = f"{sources.name}-{mark}"
    named = str(getattr(config, "CACHE_DIR", ""))  # NUMBA_CACHE_DIR, or numba's own file
    first = Path(named) / apart if named else sources / "__pycache__"
    if _writable(first):
        return ((first, True),)
    own = _own_folder()
    kept = [(first, False)] if first.is_dir() else []
    if own is not None and _writable(own / apart):
        kept.append((own / apart, True))
    return tuple(kept)


@lru_cache
def _own_folder() -> Path | None:
    """A folder that only this user may enter, made if it can be."""
    users = platformdirs.user_cache_path() / "sfumato-compiled"
    if _only_mine(users):
        return users
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    try:
        passing = Path(tempfile.gettempdir()) / f"sfumato-compiled-{user}"
    except FileNotFoundError:  # there is no temporary folder, either
        return None
    return passing if _only_mine(passing) else None


def _only_mine(folder: Path) -> bool:
    """Make a folder that only its owner may enter; whether it is one, and is this user's.

    A link, a folder of somebody else's and one that others may enter are refused, and so is a
    place where anybody could put another folder in its stead.
    """
    if not folder.is_absolute():  # no home: the name of one was left as it is
        return False
    try:
        for above in reversed(folder.parents):
            above.mkdir(mode=0o700, exist_ok=True)
            mode = above.stat().st_mode
            if os.name != "nt" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return False
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            return False
        return stat.S_ISDIR(found.st_mode) and _writable(folder)
    except OSError:
        return False


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if it is not there."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


class _Layers:
    """What numba asks for compiled code: several folders to read, one to keep things in."""

    def __init__(self, function: Callable[..., Any], folders: tuple[tuple[Path, bool], ...]):
        self._read = [_kept_in(folder)(function) for folder, _ in folders]
        self._write = self._read[-1] if folders[-1][1] else None
        self.cache_path = str(folders[-1][0])

    def load_overload(self, signature: Any, target: Any) -> Any:
        for layer in self._read:
            try:
                found = layer.load_overload(signature, target)
            except Exception:  # a damaged pickle can raise anything
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        if self._write is None:
            return
        try:
            try:
                self._write.save_overload(signature, result)
            except Exception:  # a damaged index can raise anything: begin a new one
                self._write.flush()
                self._write.save_overload(signature, result)
        except OSError:  # a full disk
            self._write.disable()

    def flush(self) -> None:
        if self._write is not None:
            self._write.flush()


@lru_cache
def _kept_in(folder: Path) -> Any:
    """numba's class of one function's compiled code, for code kept in `folder`."""

    class Locator:
        """What numba asks for where a function's code is and whether it is still of use."""

        def __init__(self, function: Callable[..., Any], file: str) -> None:
            self._py_file = file
            self._function = function

        @classmethod
        def from_function(cls, function: Callable[..., Any], file: str) -> Locator:
            return cls(function, file)

        def ensure_cache_path(self) -> None:
            folder.mkdir(mode=0o700, exist_ok=True)

        def get_cache_path(self) -> str:
            return str(folder)

        def get_disambiguator(self) -> str:
            return str(self._function.__code__.co_firstlineno)

        def get_source_stamp(self) -> tuple[str, ...]:
            return tuple(sorted(_made_of(self._function)))

    class Impl(CompileResultCacheImpl):
        def __init__(self, function: Callable[..., Any]) -> None:
            self._locator_classes = [Locator]
            super().__init__(function)  # type: ignore[no-untyped-call]

        def check_cachable(self, result: Any) -> bool:
            """Not code that hashes texts: its secrets are among what `Kept` does not load."""
            return "_numba_hashsecret" not in result.library.get_llvm_str() and bool(
                super().check_cachable(result)  # type: ignore[no-untyped-call]
            )

    class Kept(FunctionCache):
        _impl_class = Impl

        def load_overload(self, signature: Any, target: Any) -> Any:
            """numba's own first loads the declarations of all that it can compile: a tenth of a
            CPU-second. Compiled code needs the runtime alone, and whoever compiles loads them."""
            rtsys.initialize(target)
            return self._load_overload(signature, target)  # type: ignore[no-untyped-call]

    return Kept


def _made_of(function: Callable[..., Any]) -> set[str]:
    """What a compiled function's code follows from: sources and constants.

    Those of the functions that it calls are among them, though they may stand in other files:
    they are compiled into it, and numba itself looks at the function's own file alone.
    """
    found = {_digest(getfile(function))}
    for name in function.__code__.co_names:
        used = function.__globals__.get(name)
        if callee := getattr(used, "py_func", None):
            if callee is not function:
                found |= _made_of(callee)
        elif isinstance(used, int | float | np.generic):
            found.add(f"{name}={used!r}")
    return found


@lru_cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
