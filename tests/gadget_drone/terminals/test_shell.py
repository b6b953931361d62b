"""Which shell, and in what environment."""

from pathlib import Path

from gadget_drone.terminals.shell import shell_command, shell_environment


def test_the_shell_is_that_of_the_environment_as_a_login_shell() -> None:
    assert shell_command({"SHELL": "/bin/sh"}) == ["/bin/sh", "-l"]


def test_one_that_is_not_known_gets_no_option(tmp_path: Path) -> None:
    own = tmp_path / "myshell"
    own.touch(mode=0o755)
    assert shell_command({"SHELL": str(own)}) == [str(own)]


def test_one_that_is_not_there_is_not_taken() -> None:
    for named in ({"SHELL": "/does/not/exist"}, {"SHELL": "sh"}, {}):
        command = shell_command(named)
        assert Path(command[0]).is_file()
        assert command[0] not in named.values()


def test_the_drones_own_settings_and_its_virtual_environment_are_left_out() -> None:
    own = {
        "GADGET_DRONE_TOKEN": "secret",
        "GADGET_PASSWORD": "secret",
        "GADGET_SERVER_URL": "http://127.0.0.1:1",
        "VIRTUAL_ENV": "/opt/drone",
        "PATH": "/opt/drone/bin:/usr/local/bin:/usr/bin",
        "TMUX": "/tmp/tmux",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "GITHUB_TOKEN": "the user's own",
    }
    assert shell_environment(own, "/opt/drone") == {
        "PATH": "/usr/local/bin:/usr/bin",
        "LANG": "C.UTF-8",
        "GITHUB_TOKEN": "the user's own",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TERM_PROGRAM": "gadget",
    }


def test_a_virtual_environment_of_the_users_own_stays() -> None:
    own = {"VIRTUAL_ENV": "/srv/env", "PATH": "/srv/env/bin:/usr/bin"}
    made = shell_environment(own, "/opt/drone")
    assert (made["VIRTUAL_ENV"], made["PATH"]) == (own["VIRTUAL_ENV"], own["PATH"])
