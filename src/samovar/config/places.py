"""What a user names: a local path or the URL of an object store. Only names: whether anything is there, a store knows
(`samovar.store.open_store`).
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal, Self, TypeAlias

from samovar.config.values import did_you_mean, nearest
from samovar.errors import BadInput

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_TAKEN = re.compile(r"(s3a?|gs|az|abfss?):/[^/]")  # what Path makes of s3://bucket
SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "abfs", "abfss": "abfss"}
"""The schemes that object stores have, and the one that each is written with."""


@dataclass(frozen=True, order=True)
class Url:
    """A directory or file in an object store: `s3://bucket/models/click`. It has the names of a path's methods.

    Example:
        >>> place = Url.parse("s3://bucket/models/click/")
        >>> str(place / "best"), place.name, str(place.parent)
        ('s3://bucket/models/click/best', 'click', 's3://bucket/models')
    """

    scheme: str
    bucket: str
    key: str
    """Names joined by '/', without one at either end; empty for the whole bucket."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The URL in a text.

        Raises:
            BadInput: It is no URL of an object store, or has a password in it.
        """
        found = _URL.fullmatch(text)
        scheme = found[1].lower() if found else ""
        if found is None or scheme not in SCHEMES:
            best = nearest(scheme, [*SCHEMES, "file"])
            hint = did_you_mean(best and f"{best}://")
            raise BadInput(f"{_without_password(text)}: URLs must start with s3://, gs:// or az://{hint}")
        bucket, _, key = found[2].partition("/")
        if "@" in bucket and not scheme.startswith("abfs"):  # abfss://container@account.dfs.core.windows.net/key
            raise BadInput(
                f"{_without_password(text)}: a URL must not have credentials in it. Set the environment variables of "
                "the object store instead"
            )
        names = [name for name in key.split("/") if name != ""]
        if not bucket or any(name in (".", "..") for name in names):
            raise BadInput(f"{text}: expected a URL such as {SCHEMES[scheme]}://bucket/folder")
        return cls(SCHEMES[scheme], bucket, "/".join(names))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str | PurePath) -> "Url":
        names = self.key.split("/") if self.key else []
        for part in str(name).split("/"):
            if part == "..":
                names = names[:-1]
            elif part not in ("", "."):
                names.append(part)
        return Url(self.scheme, self.bucket, "/".join(names))

    @property
    def name(self) -> str:
        """The last name; that of the bucket at the top."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def stem(self) -> str:
        """The last name without its suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The suffix of the last name."""
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the last name."""
        return PurePosixPath(self.name).suffixes

    @property
    def parent(self) -> "Url":
        """The directory that this is in; the bucket is its own parent."""
        return Url(self.scheme, self.bucket, self.key.rpartition("/")[0])

    @property
    def parents(self) -> "Sequence[Url]":
        """All directories that this is in, the nearest first."""
        found = [self]
        while found[-1].key:
            found.append(found[-1].parent)
        return found[1:]

    def with_name(self, name: str) -> "Url":
        """The same place with another last name."""
        return self.parent / name

    def as_posix(self) -> str:
        """The text of the URL."""
        return str(self)

    def expanduser(self) -> "Url":
        """The URL itself: it has no home folder."""
        return self

    def resolve(self) -> "Url":
        """The URL itself: it is absolute and has no links."""
        return self

    absolute = resolve


Place: TypeAlias = Path | Url
"""A directory or file that a user names."""
PathLike: TypeAlias = str | os.PathLike[str] | Url
"""What a caller may give for a place."""


def is_url(text: str) -> bool:
    """Whether a text is meant as a URL, of whatever scheme."""
    return _URL.fullmatch(text) is not None


def as_place(value: Any, what: str = "the directory") -> Place:
    """The path or URL that a caller gave. `file://` URLs are paths.

    Args:
        value: What was given.
        what: Its name in errors.

    Raises:
        BadInput: It is something else, such as a DataFrame, or a URL that no object store has.
    """
    if isinstance(value, Url):
        return value
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if isinstance(text, str) and (found := _URL.fullmatch(text)) is not None:
            return Path(found[2]) if found[1].lower() == "file" else Url.parse(text)
        if isinstance(text, str) and _TAKEN.match(text):
            url = text.replace(":/", "://", 1)
            raise BadInput(f"{what}: a Path cannot hold a URL, got {text!r}. Give the text {url!r}")
        return Path(value)
    is_frame = hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns")
    hint = ". samovar.brew makes a table of rows, samovar.load(model).predict scores them" if is_frame else ""
    raise BadInput(f"{what} must be a path or a URL, got {type(value).__name__}{hint}")


def as_path(value: Any, what: str) -> Path:
    """A local path that a caller gave, for files that must be local.

    Raises:
        BadInput: It is something else.
    """
    place = as_place(value, what)
    if isinstance(place, Url):
        raise BadInput(f"{what} must be a local path, got {place}")
    return place


def resolve_path(path: str, folder: Place, symlinks: Literal["keep", "follow"] | None = None) -> Place:
    """The place that a config names: `~` is the home folder, a relative path starts at the config's folder.

    Args:
        path: The path or URL as the config has it.
        folder: The folder of the config file.
        symlinks: "keep" and "follow" make the path absolute; "follow" also replaces symbolic links by their targets.
            None only joins: the path stays relative if `folder` is.

    Example:
        >>> print(resolve_path("clicks", Path("configs")), resolve_path("s3://logs/clicks", Path("configs")))
        configs/clicks s3://logs/clicks
    """
    given = as_place(path)
    if isinstance(given, Url):
        return given
    given = given.expanduser()
    if isinstance(folder, Url):
        return given if given.is_absolute() else folder / given
    joined = folder / given
    if symlinks is None:
        return joined
    return joined.resolve() if symlinks == "follow" else Path(os.path.abspath(joined))


def suggest_path(missing: Place, pattern: str = "*", is_folder: bool | None = False) -> str:
    """The end of an error about a missing file or folder: the one beside it whose name is most like its own.

    Args:
        missing: What the user named.
        pattern: Only names that match it are suggested.
        is_folder: Whether a folder is meant; None if either will do.
    """
    if isinstance(missing, Url):
        return ""
    try:
        names = [each.name for each in missing.parent.glob(pattern) if is_folder in (None, each.is_dir())]
    except OSError:  # the folder cannot be read
        return ""
    best = nearest(missing.name, names)
    return did_you_mean(best and str(missing.with_name(best)))


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", text)
