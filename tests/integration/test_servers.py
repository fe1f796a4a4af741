"""The servers that other tests use."""

import sys
from pathlib import Path

import pyarrow.fs
import pytest

from tests.integration.servers import S3Server, free_port, served


def test_an_s3_server_keeps_what_pyarrow_writes(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.credentials.items():
        monkeypatch.setenv(name, value)
    stated, path = pyarrow.fs.FileSystem.from_uri(s3.full_uri("servers/a.txt"))
    with stated.open_output_stream(path) as stream:
        stream.write(b"kept")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    found, path = pyarrow.fs.FileSystem.from_uri(s3.uri("servers/a.txt"))
    with found.open_input_stream(path) as stream:
        assert stream.read() == b"kept"


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such folder')"]
    answers = f"http://127.0.0.1:{free_port()}/"
    with pytest.raises(RuntimeError, match="no such folder"), served(command, answers, tmp_path / "log"):
        pass
