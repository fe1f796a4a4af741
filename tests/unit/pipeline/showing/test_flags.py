"""What the flags of `pipeline.demo` refuse, before a model is loaded."""

import socket
from pathlib import Path
from typing import Any

import pytest

from pipeline import demo, judge
from pipeline.base.errors import PipelineError, run_command
from pipeline.showing import flags
from pipeline.web import flags as web_flags
from pipeline.web import host


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "expected one model or two, but got none", "--package DIR"),
        (["--model", "a", "--model", "b", "--package", "c"], "expected one model or two, but got 3", ""),
        (["--model", "a", "--model", "a"], "`a` is named twice", ""),
        (["--model", "a", "--examples", "f", "--no-examples"], "but got both", ""),
        (
            ["--model", "a", "--host", "0.0.0.0"],
            "this address lets other machines open the page",
            "add `--share`",
        ),
        (["--model", "a", "--url", "https://x"], "this flag needs `--share`", "add `--share`"),
        (["--model", "a", "--url", ""], "this flag needs `--share`", "add `--share`"),
        (["--model", "a", "--port", "65536"], "expected a port from 0 to 65535, but got 65536", ""),
    ],
)
def test_flags_that_do_not_go_together(arguments: list[str], message: str, hint: str):
    with pytest.raises(PipelineError, match=message) as caught:
        demo.main(arguments)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("arguments", "host"),
    [
        ([], "127.0.0.1"),
        (["--host", "localhost"], "localhost"),
        (["--share"], "0.0.0.0"),
        (["--share", "--host", "127.0.0.1", "--url", "https://demo.example"], "127.0.0.1"),
    ],
)
def test_nobody_else_gets_in_unless_it_is_shared(arguments: list[str], host: str):
    given = demo.build_parser().parse_args(["--model", "a", *arguments])
    flags.check(given)
    assert given.host == host


def test_a_port_in_use_is_said_before_a_model_is_loaded(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run_command(demo.main, ["--package", str(tmp_path / "none"), "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"--host 127.0.0.1 --port {port}: cannot listen on this address: Address already in use" in said
    assert "hint: use `--port 0` for a free port" in said


@pytest.mark.parametrize(
    ("name", "url", "expected"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:"),
        ("127.0.0.1", "https://demo.example/models/", "https://demo.example/models"),
        ("0.0.0.0", None, f"http://{socket.gethostname()}:"),
    ],
)
def test_the_address_that_is_told(name: str, url: str | None, expected: str):
    with host.listening(name, 0) as listener:
        assert host.address(listener, name, url).startswith(expected)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost")),
        *(
            (host, False)
            for host in ("0.0.0.0", "::", "127.example.com", "10.0.0.1", "localhost.example.com")
        ),
    ],
)
def test_addresses_that_only_this_machine_reaches(host: str, expected: bool):
    assert web_flags.is_local(host) is expected


WRONG_ADDRESSES = [
    "",
    "notaurl",
    "//demo.example",
    "ftp://x",
    "javascript:alert(1)",
    "https://",
    "https://:8000",
    "https://a b",
    "https://a\n",
    "?x=1",
    "https://a/?x=1",
    "https://a/#x",
    "https://a:b@c",
    "https://a:99999",
    "https://[::1",
    'https://a"><b>',
]


@pytest.mark.parametrize("url", WRONG_ADDRESSES)
@pytest.mark.parametrize("command", [[demo, "--model", "a", "--share"], [judge, "--sheet", "s"]])
def test_an_address_that_no_link_can_begin_with_is_refused(command: list[Any], url: str):
    with pytest.raises(PipelineError, match="expected an address such as https://") as caught:
        command[0].main([*command[1:], "--url", url])
    assert caught.value.where == "--url"


@pytest.mark.parametrize(
    "url",
    ["https://demo.example", "HTTP://localhost:80/a/b/", "https://[::1]:8000", "https://例子.example/~x"],
)
def test_an_address_that_links_can_begin_with_is_taken(url: str):
    flags.check(demo.build_parser().parse_args(["--model", "a", "--share", "--url", url]))


@pytest.mark.parametrize(
    ("address", "url", "expected"),
    [
        ("127.0.0.1", None, False),
        ("::1", None, False),
        ("localhost", None, False),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("0.0.0.0", "https://demo.example", False),
        ("127.0.0.1", "HTTPS://demo.example", False),
        ("127.0.0.1", "http://demo.example", True),
        ("127.0.0.1", "http://[::1]:8000", False),
    ],
)
def test_links_are_unencrypted_where_they_leave_this_machine_without_https(
    address: str, url: str | None, expected: bool
):
    assert host.is_unencrypted(address, url) is expected
