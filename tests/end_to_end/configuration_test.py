"""Flags from a file, the environment and the command line, in this order."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    return subprocess.run(
        [os.environ["PACKHOUSED"], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def printed(*arguments: str, **environment: str) -> dict[str, str]:
    done = run(*arguments, "--print-config", **environment)
    assert done.returncode == 0, done.stderr
    lines = (line.split(" = ", 1) for line in done.stdout.splitlines())
    return {name: value for name, value in lines}


def test_the_command_line_goes_before_variables_and_these_before_the_file(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "packhoused.toml"
    file.write_text(
        "# ours\nmax-streams = 7\nmax-calls = 8\nlame-duck = '3s'\nreflection = false\n"
        "http-listen = ''\n",
        encoding="ascii",
    )
    config = printed(
        *("--config", str(file), "--max-streams", "9"),
        PACKHOUSED_MAX_STREAMS="10",
        PACKHOUSED_MAX_CALLS="11",
    )
    assert config["max-streams"] == "9"
    assert config["max-calls"] == "11"
    assert config["lame-duck"] == '"3s"'
    assert config["reflection"] == "false"
    assert config["http-listen"] == '""'
    assert config["insecure"] == "false"
    assert "config" not in config
    assert printed(PACKHOUSED_CONFIG=str(file))["max-streams"] == "7"
    assert printed(PACKHOUSED_INSECURE="true")["insecure"] == "true"


def test_what_is_printed_can_be_read(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "packhoused.toml"
    first = run("--max-streams", "5", "--insecure", "--data-dir", '/a "b"', "--print-config")
    file.write_text(first.stdout, encoding="ascii")
    assert "max-streams = 5" in first.stdout
    assert run("--config", str(file), "--print-config").stdout == first.stdout


def test_an_empty_value_takes_nothing_from_the_flag_behind_it() -> None:
    flags = printed()
    for name, value in flags.items():
        for words in ((f"--{name}=", "--channelz"), ("--channelz", f"--{name}=")):
            if name == "channelz":
                continue
            done = run(*words, "--print-config")
            if done.returncode != 0:
                # A number, for example, that is not given.
                assert f"--{name}" in done.stderr, (words, done.stderr)
                continue
            lines = dict(line.split(" = ", 1) for line in done.stdout.splitlines())
            assert lines["channelz"] == "true", words
            assert lines.get(name, '""') == ("false" if value in ("true", "false") else '""'), words
    assert printed("--channelz=")["channelz"] == "false"


def test_a_secret_in_an_address_is_refused_and_not_shown() -> None:
    for flag in ("listen", "http-listen", "admin-listen", "lane", "advertise", "s3-endpoint"):
        with_store = (
            ("--store=s3://bucket", "--ledger=etcd://127.0.0.1:1", "--cache-dir=/nowhere")
            if flag == "s3-endpoint"
            else ()
        )
        done = run(f"--{flag}=https://user:pa55word@host:50051", "--signing-key=/k", *with_store)
        assert done.returncode == 2
        assert f"--{flag}" in done.stderr and "'@'" in done.stderr
        assert "pa55word" not in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max_streams = 3", "line 1: 'max_streams' is no flag"),
        ("\nno-such = 3", "line 2: 'no-such' is no flag"),
        ("config = 'x'", "'config' is no flag"),
        ("max-streams = [3]", "'max-streams' is neither a text nor a number"),
        ("max-streams = 3\nmax-streams = 4", "line 2"),
        ("max-streams = ", "line 1"),
        ("max-streams = 0", "--max-streams"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    tmp_path: pathlib.Path, text: str, why: str
) -> None:
    file = tmp_path / "packhoused.toml"
    file.write_text(text, encoding="ascii")
    done = run("--config", str(file))
    assert done.returncode == 2
    assert why in done.stderr


def test_unknown_variables_and_missing_files_are_refused(tmp_path: pathlib.Path) -> None:
    done = run(PACKHOUSED_MAX_STREAM="3")
    assert done.returncode == 2
    assert "PACKHOUSED_MAX_STREAM: there is no flag --max-stream " in done.stderr
    assert run("--config", str(tmp_path / "nothing")).returncode == 2


# What kubelet sets for Services called `packhoused` and `packhoused-other`.
KUBERNETES = {
    "PACKHOUSED_SERVICE_HOST": "10.0.0.7",
    "PACKHOUSED_SERVICE_PORT": "50051",
    "PACKHOUSED_SERVICE_PORT_GRPC": "50051",
    "PACKHOUSED_PORT": "tcp://10.0.0.7:50051",
    "PACKHOUSED_PORT_50051_TCP": "tcp://10.0.0.7:50051",
    "PACKHOUSED_PORT_50051_TCP_PROTO": "tcp",
    "PACKHOUSED_PORT_50051_TCP_PORT": "50051",
    "PACKHOUSED_PORT_50051_TCP_ADDR": "10.0.0.7",
    "PACKHOUSED_OTHER_SERVICE_HOST": "10.0.0.8",
    "PACKHOUSED_OTHER_PORT_9464_TCP_ADDR": "10.0.0.8",
}


def test_what_kubernetes_sets_is_no_setting() -> None:
    assert printed(**KUBERNETES) == printed()
    # A flag is one, whatever its name.
    assert printed(**KUBERNETES, PACKHOUSED_MAX_STREAMS="3")["max-streams"] == "3"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("--max-stream=3", "--max-streams"), ("--maxstreams=3", "--max-streams"),
     ("--htpp-listen=", "--http-listen"), ("--no-reflections", "")],
)
def test_an_unknown_flag_has_a_suggestion(wrong: str, right: str, tmp_path: pathlib.Path) -> None:
    name = wrong.split("=", 1)[0]
    done = run(wrong)
    assert done.returncode == 2
    assert f"there is no flag {wrong}" in done.stderr
    assert f"(did you mean {right}?)" in done.stderr if right else True
    if not right:
        return
    file = tmp_path / "packhoused.toml"
    file.write_text(f"{name[2:]} = ''\n")
    assert f"(did you mean {right}?)" in run("--config", str(file)).stderr
    variable = "PACKHOUSED_" + name[2:].upper().replace("-", "_")
    assert f"(did you mean {right}?)" in run(**{variable: ""}).stderr


BYTE_FLAGS = ("memory-budget", "max-store-bytes", "max-source-graph-bytes", "max-partition-bytes",
              "max-message-bytes", "max-pending-bytes", "max-total-pending-bytes", "cache-bytes")


@pytest.mark.parametrize("flag", BYTE_FLAGS)
def test_bytes_have_units(flag: str, tmp_path: pathlib.Path) -> None:
    for text, value in (("1GiB", 1 << 30), ("1 Gi", 1 << 30), ("1gib", 1 << 30), ("512MiB", 1 << 29),
                        ("0.5GiB", 1 << 29), ("600MB", 600_000_000), ("600000000", 600_000_000)):
        assert printed(f"--{flag}={text}")[flag] == str(value), text
    file = tmp_path / "packhoused.toml"
    file.write_text(f"{flag} = '1GiB'\n")
    assert printed("--config", str(file))[flag] == str(1 << 30)
    for text in ("", "GiB", "1G", "1.3", "1e9", "1GiBB", "1 GiB 1", "99999999999999TiB", "1",
                 "0.3KiB"):
        done = run("--print-config", f"--{flag}", text)
        assert done.returncode == 2, text
        assert f"--{flag}" in done.stderr and f"'{text}'" in done.stderr, done.stderr


def test_every_flag_of_bytes_has_units() -> None:
    assert {name for name in printed() if name.endswith("-bytes")} <= {*BYTE_FLAGS}


def test_commands_of_the_disk_take_no_flags_of_the_server(tmp_path: pathlib.Path) -> None:
    help_text = run("--help").stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n")
    for command, words in {"store": ("check", str(tmp_path / "none")),
                           "policy": ("check", str(policy))}.items():
        assert f"\n  {command} " in help_text
        alone = run(command, *words)
        assert alone.returncode == (1 if command == "store" else 0), alone.stderr
        # Variables that would keep a server from starting, and an image's flags.
        for done in (run(command, *words, PACKHOUSED_BOGUS="1", PACKHOUSED_LISTEN="nowhere"),
                     run("--listen=0.0.0.0:50051", "--http-listen=", command, *words)):
            assert (done.returncode, done.stdout, done.stderr) == (
                alone.returncode, alone.stdout, alone.stderr)
        late = run("--insecure", command, *words)
        assert late.returncode == 2 and f"{command} is a command" in late.stderr
        usage = run(command)
        assert usage.returncode == 2 and "subcommand is required" in usage.stderr
    mistyped = run("store", "chek", str(tmp_path))
    assert mistyped.returncode == 2 and "did you mean 'store check'?" in mistyped.stderr
