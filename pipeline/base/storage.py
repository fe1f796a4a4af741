"""Where results are: a folder of this machine, or a URI of any file system that pyarrow opens.

The only module that calls a file system behind a URI. Credentials never stand in a URI: each machine has its
own, in its environment or by its role. A file that is written is there whole or not at all.
"""

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from pipeline.base.errors import PipelineError
from pipeline.base.uris import holds_secret, is_mistyped, without_password

STAGED = ".new-"
"""How the name of what is being written in a local folder begins; a process that is killed leaves it."""
_BLOCK_BYTES = 8 << 20
_OBJECT_STORES = ("s3", "gcs", "abfs")
"""Types of file system whose files appear under their name when the stream that writes them is closed."""
_MAX_COPY = 5 << 30
"""Bytes that S3 copies in one request: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html."""
_MAX_REASON = 300
"""Characters of pyarrow's own message that are shown."""
_GCS_RETRY_S = 30
"""Its own limit, a quarter of an hour, is long for one who has mistyped a name."""

_REASONS = (
    (
        r"Unrecognized filesystem|Cannot parse URI|Unexpected query|Missing bucket name|Unsupported host",
        "expected a URI that pyarrow opens",
        "for instance s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, file:///FOLDER, or a local folder",
    ),
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist",
        "there is no such bucket",
        "create the bucket first",
    ),
    (
        r"Unable to load lib",
        "its library is not installed on this machine",
        "install Java and Hadoop, which hdfs:// needs",
    ),
    (r"Path does not exist|No such file", "there is no such file", None),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_DOES_NOT_MATCH|"
        r"HTTP status 40[13]|PERMISSION_DENIED|UNAUTHENTICATED|[Nn]o credentials|Permission denied|Read-only",
        "access is refused",
        "give this machine credentials with permission to list, read, write and delete at this address",
    ),
    (
        r"NETWORK_CONNECTION|UNAVAILABLE|Could ?n[o']t (connect|resolve)|timed? ?out",
        "it cannot be reached",
        "check the name, the network and, for S3, AWS_ENDPOINT_URL or `?endpoint_override=`",
    ),
)
"""What pyarrow's message holds -> what that means, and what to do."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder of a file system, whether it is there or not."""

    filesystem: Any
    """A `pyarrow.fs.FileSystem`."""
    path: str
    """In that file system, absolute."""
    uri: str
    """How it is called; a path where it was named by one."""

    @classmethod
    def of(cls, place: Any) -> "Location":
        """Where a checkpoint of Ray's lies."""
        return cls(place.filesystem, place.path, f"{place.filesystem.type_name}:{place.path}")

    def __truediv__(self, name: str) -> "Location":
        # a path may have a `?` in the name of a folder
        address, question, query = self.uri.partition("?") if "://" in self.uri else (self.uri, "", "")
        uri = f"{address.rstrip('/')}/{name}{question}{query}"
        return Location(self.filesystem, f"{self.path.rstrip('/')}/{name}", uri)

    def __str__(self) -> str:
        return self.uri

    @property
    def portable(self) -> str:
        """The URI, with the endpoint that this machine's environment names: it means the same elsewhere."""
        parts = urlsplit(self.uri)
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if parts.scheme != "s3" or not endpoint or "endpoint_override=" in parts.query:
            return self.uri
        override = f"endpoint_override={quote(endpoint, safe=':/')}"
        return urlunsplit(parts._replace(query=f"{parts.query}&{override}" if parts.query else override))

    @property
    def is_local(self) -> bool:
        """Whether it is of this machine's own file system."""
        return bool(self.filesystem.type_name == "local")

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return self._info() is not None

    def modified(self) -> float:
        """When a file was written, in seconds since 1970 by the clock of the file system; 0: not there."""
        info = self._info()
        return 0.0 if info is None else info.mtime_ns / 1e9

    def names(self) -> list[str]:
        """Names of what lies in a folder, hidden ones left out; empty where there is no folder."""
        from pyarrow.fs import FileSelector

        with translated(self):
            found = self.filesystem.get_file_info(FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def read(self) -> bytes:
        """A small file."""
        return b"".join(self._blocks())

    def write(self, content: bytes) -> None:
        """Write a small file; replaces an older one."""
        with translated(self), self._replacing() as stream:
            stream.write(content)

    def download(self, target: Path) -> str:
        """Copy a file to this machine; returns its SHA-256."""
        digest = hashlib.sha256()
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for block in self._blocks():
                digest.update(block)
                file.write(block)
        return digest.hexdigest()

    def upload(self, source: Path) -> str:
        """Copy a file of this machine here, replacing an older one; returns its SHA-256."""
        digest = hashlib.sha256()
        size = source.stat().st_size
        with source.open("rb") as file, translated(self), self._replacing(size) as stream:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                stream.write(block)
        return digest.hexdigest()

    def remove(self) -> None:
        """Remove a file, or a folder with everything in it; nothing where there is none."""
        info = self._info()
        if info is None:
            return
        with translated(self), contextlib.suppress(FileNotFoundError):  # another process was faster
            if info.is_file:
                self.filesystem.delete_file(self.path)
            else:
                self.filesystem.delete_dir(self.path)

    @contextlib.contextmanager
    def localised(self, *names: str) -> Iterator[Path]:
        """A folder of this machine with those files and folders of this one; removed at the end if a copy.

        Args:
            names: what is needed; what is not there is left out.
        """
        if self.is_local:
            yield Path(self.path)
            return
        with tempfile.TemporaryDirectory(prefix="infocal-") as folder:
            for name in names:
                (self / name)._copy_to(Path(folder) / name)
            yield Path(folder)

    def check(self) -> None:
        """See whether results can be written here and removed again.

        Raises:
            PipelineError: if not, or if there is no such bucket.
        """
        bucket = self.path.partition("/")[0]
        if self.filesystem.type_name in _OBJECT_STORES:
            with translated(self):
                missing = _is_missing(self.filesystem.get_file_info(bucket))
            if missing:
                raise PipelineError(
                    f"there is no bucket `{bucket}`",
                    where=f"--storage {self.uri}",
                    hint="create the bucket first",
                )
        probe = self / f".check-{secrets.token_hex(4)}"
        probe.write(b"")
        probe.remove()

    def _info(self) -> Any:
        with translated(self):
            info = self.filesystem.get_file_info(self.path)
        return None if _is_missing(info) else info

    def _blocks(self) -> Iterator[bytes]:
        with translated(self), self.filesystem.open_input_stream(self.path) as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block

    def _copy_to(self, target: Path) -> None:
        info = self._info()
        if info is not None and info.is_file:
            self.download(target)
            return
        for name in self.names():
            (self / name)._copy_to(target / name)

    @contextlib.contextmanager
    def _replacing(self, size: int = 0) -> Iterator[Any]:
        """A stream whose content is found under the name when it is whole.

        An object store takes what was written as the object when the stream is closed, after an interrupt or
        an error too, and knows no renaming. So the object is written under another name, which the store then
        copies.

        Args:
            size: of the content, in bytes. What is larger than a store copies in one piece is written under
                its own name; what is cut off is removed.
        """
        is_store = self.filesystem.type_name in _OBJECT_STORES
        parent, _, name = self.path.rpartition("/")
        if not is_store:
            self.filesystem.create_dir(parent or "/", recursive=True)
        is_direct = is_store and size > _MAX_COPY
        staged = self.path if is_direct else f"{parent}/.{name}.{secrets.token_hex(4)}"
        try:
            with self.filesystem.open_output_stream(staged) as stream:
                yield stream
            if is_direct:
                return
            if is_store:
                self.filesystem.copy_file(staged, self.path)
                self.filesystem.delete_file(staged)
            else:
                self.filesystem.move(staged, self.path)
        except BaseException:
            with contextlib.suppress(OSError):  # what went wrong before is what has to be told
                self.filesystem.delete_file(staged)
            raise


_WITH_BUCKET = ("s3", "gs", "gcs")


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a command's results are, as `--storage` names it."""

    given: str

    def __str__(self) -> str:
        return without_password(self.given)

    @property
    def is_remote(self) -> bool:
        """Whether it is a URI; then nothing is expected on a disk that machines share."""
        return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", self.given) is not None

    @property
    def folder(self) -> Path:
        """The local folder.

        Raises:
            PipelineError: if it is a URI.
        """
        if self.is_remote:
            raise PipelineError(
                f"expected a folder on this machine, but got `{without_password(self.given)}`",
                where="--storage",
                hint="give a folder; for a model of `pipeline.train`, name it with `--output DIR`",
            )
        return Path(self.given)

    def opened(self) -> Location:
        """The place itself; of a URI, its file system.

        Raises:
            PipelineError: if it holds a secret, or pyarrow cannot open it.
        """
        from pyarrow.fs import FileSystem, LocalFileSystem

        if not self.is_remote and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", self.given):
            local = self.given.lower().startswith("file:")
            raise PipelineError(
                f"expected a folder or a URI, but got `{self}`",
                where="--storage",
                hint=f"did you mean `{self.given.replace(':/', ':///' if local else '://', 1)}`?",
            )
        if not self.is_remote and is_mistyped(self.given):
            raise PipelineError(
                f"expected a folder or a URI, but got a user and a password in `{self}`",
                where="--storage",
                hint="give a URI such as s3://BUCKET/PREFIX; if you mean a folder with `@` in its name, "
                "write `./FOLDER`",
            )
        if not self.is_remote:
            return Location(LocalFileSystem(), str(Path(self.given).resolve()), self.given)
        self._refuse_secrets()
        parts = urlsplit(self.given)
        if parts.scheme in _WITH_BUCKET and not parts.netloc:
            raise PipelineError(
                f"expected a URI with a bucket, but got `{self.given}`",
                where="--storage",
                hint=f"for instance {parts.scheme}://BUCKET/PREFIX",
            )
        address, question, query = self.given.partition("?")
        given = address.rstrip("/") + question + query
        place = Location(None, "", given)
        with translated(place):
            filesystem, path = FileSystem.from_uri(_patient(given))
        return Location(filesystem, path, given)

    def _refuse_secrets(self) -> None:
        if holds_secret(self.given):
            raise PipelineError(
                "expected a URI without a password or key, because the URI is stored with the results, but "
                f"got one in `{without_password(self.given).partition('?')[0]}`",
                where="--storage",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS or the "
                "like on every machine",
            )


@contextlib.contextmanager
def translated(place: Location) -> Iterator[None]:
    """Turn what pyarrow raises about a place into one clear line.

    Raises:
        PipelineError: in place of OSError and ArrowException.
    """
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ArrowException, NotImplementedError) as error:
        text = " ".join(str(error).split())[:_MAX_REASON]
        meaning, hint = next(
            ((meaning, hint) for pattern, meaning, hint in _REASONS if re.search(pattern, text)),
            ("the file system refuses it", None),
        )
        raise PipelineError(f"{meaning} ({text})", where=f"--storage {place.uri}", hint=hint) from error


def _is_missing(info: Any) -> bool:
    from pyarrow.fs import FileType

    return bool(info.type == FileType.NotFound)


def _patient(uri: str) -> str:
    """The URI with a limit on how long is tried, where that would be too long for somebody who waits."""
    if not uri.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={_GCS_RETRY_S}"
