"""Where the archive is: a SQLAlchemy URL, by argument, by environment variable, or in the user's data directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from ...errors import ArchiveError
from .place import text_of

Url = str | os.PathLike[str]
"""A SQLAlchemy URL or a path."""


@dataclass(frozen=True)
class Address:
    """A database: its URL and, where it is one SQLite file, that file."""

    url: URL
    file: Path | None

    def __str__(self) -> str:
        return str(self.file) if self.file else self.url.render_as_string(hide_password=True)


def locate(url: Url | None = None) -> Address:
    """The database that is meant: ``url`` (a SQLAlchemy URL or a path), else ``$FEINSUM_FUSE_DATABASE``, else the default file.

    Raises :class:`ArchiveError` for text that is neither a path nor a URL of a known kind.
    """
    text = text_of(url)
    if "://" in text:
        return _from_url(text)
    file = Path(text).expanduser()
    return Address(URL.create("sqlite", database=str(file.absolute())), file.absolute())


def _from_url(text: str) -> Address:
    try:
        url = make_url(text)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        url.get_dialect()
    except (ArgumentError, ImportError) as error:
        raise ArchiveError(
            f"{text!r} is not a database URL: {error}", hint="write a path, or a SQLAlchemy URL such as sqlite:////home/me/facts.sqlite3"
        ) from error
    try:
        url.get_dialect().import_dbapi()
    except ImportError as error:
        raise ArchiveError(f"the driver of {url.drivername} is not installed: {error}", hint=_install(url)) from error
    if url.get_backend_name() != "sqlite":
        return Address(url, None)
    if not url.database or url.database == ":memory:" or url.query:
        raise ArchiveError(
            f"{text!r} names no plain SQLite file", hint="an archive has to outlive its process: write sqlite:////absolute/path/to/file"
        )
    file = Path(url.database).absolute()
    return Address(url.set(database=str(file)), file)


def _install(url: URL) -> str:
    return "pip install 'feinsum_fuse[postgresql]'" if url.drivername == "postgresql+psycopg" else "install it with pip"
