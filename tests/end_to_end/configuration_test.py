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
        ("config = 'x'", "'config' is for the command line alone"),
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


MIB = 1 << 20
# A flag's default, its least value and its largest one. None: it follows from others, or from the machine.
NUMBERS = {
    "access-log-every": (1, 1, 10**9),
    "worker-threads": (None, 1, 1024),
    "call-threads": (None, 1, 1024),
    "plan-threads": (None, 1, 256),
    "append-threads": (8, 1, 256),
    "max-store-bytes": (64 << 30, MIB, 1 << 45),
    "max-epochs": (4096, 1, 10**6),
    "max-epochs-per-client": (1024, 1, 10**6),
    "max-message-bytes": (64 * MIB, 4 * MIB, 1 << 30),
    "max-streams": (1024, 1, 10**6),
    "max-calls": (256, 1, 10**6),
    "max-streams-per-client": (None, 1, 10**6),
    "max-calls-per-client": (None, 1, 10**6),
    "max-streams-per-connection": (64, 1, 10**5),
    "max-connections": (None, 1, 10**6),
    "max-connections-per-client": (None, 1, 10**6),
    "max-health-watches": (512, 1, 10**6),
    "max-pending-bytes": (256 * MIB, MIB, 1 << 40),
    "memory-budget": (None, MIB, 1 << 44),
    "max-total-pending-bytes": (None, MIB, 1 << 44),
    "max-graphs-per-batch": (1 << 16, 1, 2**31 - 1),
    "max-histograms": (4096, 1, 10**6),
    "max-measured-models": (256, 1, 10**4),
    "max-source-graph-bytes": (64 << 30, MIB, 1 << 45),
    "max-source-graphs": (1024, 1, 1 << 16),
    "max-running-partitions": (1, 1, 64),
    "max-waiting-partitions": (64, 1, 1 << 16),
    "max-partition-bytes": (64 << 30, MIB, 1 << 45),
    "cache-bytes": (64 << 30, MIB, 1 << 50),
}
# The same of durations; the next values beyond are refused. A retention of 0s is for ever.
DURATIONS = {
    "lame-duck": ("5s", "0s", None, ("-1ms",)),
    "drain-timeout": ("30s", "0s", None, ("-1ms",)),
    "max-connection-age": ("0s", "0s", None, ("-1ms",)),
    "max-connection-age-grace": ("0s", "0s", None, ("-1ms",)),
    "connection-idle-timeout": ("1h", "0s", None, ("-1ms",)),
    "stream-idle-timeout": ("1h", "0s", None, ("-1ms",)),
    "lease-duration": ("5m", "1s", None, ("999ms",)),
    "epoch-retention": ("720h", "0s", "87840h", ("-1ms", "87840h1ms")),
    "ledger-lease": ("10s", "3s", "1h", ("2999ms", "1h1ms")),
    "dataset-retention": ("0s", "0s", "720h,drafts=24h", ("-1s", "720h,drafts")),
    "histogram-retention": ("0s", "0s", "720h,drafts=24h", ("-1s", "720h,drafts")),
    "model-retention": ("0s", "0s", "720h,drafts=24h", ("-1s", "720h,drafts")),
    "source-graph-retention": ("0s", "0s", "720h,drafts=24h", ("-1s", "720h,drafts")),
}
TEXTS = {"listen": "127.0.0.1:50051", "http-listen": "127.0.0.1:9464", "admin-listen": "auto",
         "log-level": "info", "sweep-period": "10m"}
SWITCHES = {"insecure": "false", "http-tls": "false", "http-auth": "false", "reflection": "true",
            "channelz": "false"}


def test_each_flag_has_its_default_and_its_bounds() -> None:
    # Variables of this process may be flags.
    flags = printed()
    assert {name for name, value in flags.items() if not value.startswith('"')} <= {*NUMBERS, *SWITCHES}
    expected = SWITCHES | {
        **{name: str(row[0]) for name, row in NUMBERS.items() if row[0] is not None},
        **{name: f'"{row[0]}"' for name, row in DURATIONS.items()},
        **{name: f'"{text}"' for name, text in TEXTS.items()},
    }
    assert {name: flags[name] for name in expected} == expected
    assert {value for name, value in flags.items() if name not in {*expected, *NUMBERS}} == {'""'}
    for end in (1, 2):
        given = {name: str(row[end]) for name, row in NUMBERS.items()}
        words = {name: row[end] for name, row in DURATIONS.items() if row[end] is not None}
        taken = printed(*(f"--{name}={value}" for name, value in (given | words).items()))
        assert {name: taken[name] for name in given} == given
        assert {name: taken[name] for name in words} == {n: f'"{text}"' for n, text in words.items()}
    beyond = [(name, str(value)) for name, (_, least, most) in NUMBERS.items()
              for value in (least - 1, most + 1)]
    beyond += [(name, text) for name, row in DURATIONS.items() for text in row[3]]
    for name, text in [*beyond, ("log-level", "loud")]:
        done = run("--print-config", f"--{name}={text}")
        assert done.returncode == 2 and f"--{name}" in done.stderr, (name, text, done.stderr)


# Of a cluster that lacks nothing.
CLUSTER = ("--ledger=etcd://127.0.0.1:1", "--advertise=h:1", "--signing-key=/k")
SHARED = (*CLUSTER, "--store=s3://bucket", "--cache-dir=/nowhere/cache")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--tls-key=/k",), "--tls-key: needs --tls-cert"),
        (("--tls-cert=/c",), "--tls-cert: needs --tls-key"),
        (("--tls-client-ca=/c",), "--tls-client-ca: needs --tls-cert"),
        (("--jwt-keys=/k",), "--jwt-keys: needs --jwt-audience"),
        (("--jwt-audience=a",), "--jwt-audience, --jwt-issuer: need --jwt-keys"),
        (("--jwt-issuer=a",), "--jwt-audience, --jwt-issuer: need --jwt-keys"),
        (("--http-tls",), "--http-tls: needs --tls-cert and --tls-key"),
        (("--http-auth",), "--http-auth: needs --token-file or --jwt-keys"),
        (("--http-auth", "--tls-cert=/c", "--tls-key=/k", "--tls-client-ca=/a"), "--http-auth: needs"),
        (("--http-auth", "--tls-cert=/c", "--tls-key=/k", "--http-tls"), "--http-auth: needs"),
        (("--http-listen=0.0.0.0:0",), "--http-listen 0.0.0.0:0: other machines may reach it"),
        (("--listen=[::]:0",), "--listen [::]:0: other machines may reach it"),
        (("--listen=localhost.example:0",), "other machines may reach it"),
        (("--listen=nowhere",), "'nowhere' is neither host:port nor unix:/path"),
        (("--listen=unix:",), "'unix:' has no path"),
        (("--http-listen=nowhere",), "'nowhere' is not host:port"),
        (("--admin-listen=unix:",), "'unix:' is not unix:/path"),
        (("--admin-listen=h:1",), "'h:1' is not unix:/path"),
        (("--lane=unix:/",), "'unix:/' is not unix:/path: clients get the path"),
        (("--lane=h:1",), "'h:1' is not unix:/path: clients get the path"),
        (("--store=lmdb:",), "--store lmdb: has no folder"),
        (("--store=lmdb:/a", "--data-dir=/b"), "--store lmdb:/a: --data-dir is /b"),
        (("--snapshot-dir=/s",), "--snapshot-dir: needs --data-dir"),
        (("serve", "more"), "not expected: serve; not expected: more"),
        (("--advertise=h:1",), "--advertise: needs --ledger"),
        (("--ledger-ca=/c",), "--ledger-ca: needs --ledger"),
        (("--ledger-cert=/c",), "--ledger-cert: needs --ledger"),
        (("--ledger-key=/c",), "--ledger-key: needs --ledger"),
        ((*SHARED, "--ledger-cert=/c"), "--ledger-cert, --ledger-key: each needs the other"),
        ((*SHARED, "--ledger-key=/c"), "--ledger-cert, --ledger-key: each needs the other"),
        ((*SHARED, "--ledger-key=/c", "--ledger-cert=/c"), "--ledger-cert: needs --ledger-ca"),
        ((*SHARED, "--advertise=h"), "--advertise: 'h' is not HOST:PORT"),
        (CLUSTER, "--ledger: needs --store s3://, or --data-dir"),
        ((*SHARED, "--signing-key="), "--ledger: needs --signing-key"),
        ((*CLUSTER, "--data-dir=/d", "--snapshot-dir=/s"), "--snapshot-dir: not with --ledger"),
        ((*CLUSTER, "--data-dir=/d", "--dataset-retention=1h"),
         "--dataset-retention: not with --ledger and --data-dir"),
        ((*CLUSTER, "--data-dir=/d", "--source-graph-retention=1h"),
         "--source-graph-retention: not with --ledger and --data-dir"),
        (("--s3-endpoint=https://h",), "--s3-endpoint: needs --store s3://BUCKET"),
        (("--s3-region=r",), "--s3-region: needs --store s3://BUCKET"),
        (("--s3-credentials=/c",), "--s3-credentials: needs --store s3://BUCKET"),
        (("--s3-ca=/c",), "--s3-ca: needs --store s3://BUCKET"),
        (("--cache-dir=/c",), "--cache-dir: needs --store s3://BUCKET"),
        ((*SHARED, "--store=s4://bucket"), "--store: neither lmdb:DIR nor s3://BUCKET[/PREFIX]"),
        ((*SHARED, "--ledger="), "--store s3://: needs --ledger"),
        ((*SHARED, "--cache-dir="), "--store s3://: needs --cache-dir"),
        ((*SHARED, "--data-dir=/d"), "--data-dir: not with --store s3://"),
        ((*SHARED, "--sweep-period=999ms"), "--sweep-period: '999ms' is not a duration from 1s to 24h"),
        ((*SHARED, "--sweep-period=24h1ms"), "is not a duration from 1s to 24h"),
        ((*SHARED, "--s3-endpoint=http://far.example"), "--insecure"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_flags_that_do_not_go_together_are_refused(flags: tuple[str, ...], why: str) -> None:
    done = run("--data-dir=", *flags)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr


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
