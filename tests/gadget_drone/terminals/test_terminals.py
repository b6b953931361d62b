"""Real shells on real pseudo-terminals."""

import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gadget_api import terminals as t
from gadget_api.errors import Conflict, ErrorCode, NotFound, TooMany
from tests.gadget_drone.terminals.conftest import SESSION, Bench
from tests.gadget_drone.tools.test_shell import is_running, until

DEAF = """\
import os, signal, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
open("deaf", "w").write(str(os.getpid()))
time.sleep(600)
"""


PID = re.compile(rb"pid=(\d+)=")


async def shell_pid(bench: Bench, terminal: str) -> int:
    await bench.type(terminal, "echo pid=$$=\n")
    await bench.until(lambda: PID.search(bench.heard(terminal)) is not None)
    found = PID.search(bench.heard(terminal))
    assert found is not None
    return int(found[1])


def foreground(pid: int) -> int:
    """The process group that has the terminal of process `pid`."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[5])


async def test_what_is_typed_is_run_in_the_workspace_and_seen(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.type(terminal, "pwd; echo $((6*7))=\n")
    await bench.until_heard(terminal, "42=\r\n")
    assert str(bench.workspace.dir).encode() + b"\r\n" in bench.heard(terminal)
    assert b"pwd; echo" in bench.heard(terminal)  # the echo of what was typed


async def test_it_begins_in_the_project_where_that_is_cloned(bench: Bench) -> None:
    (bench.workspace.dir / "hello").mkdir()
    terminal = await bench.open()
    await bench.type(terminal, "pwd\n")
    await bench.until_heard(terminal, f"{bench.workspace.dir}/hello\r\n")


async def test_ctrl_c_reaches_what_runs_though_the_drone_was_started_without_it(bench: Bench) -> None:
    """As a shell starts what is to run in the background."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGQUIT)]
    try:
        terminal = await bench.open()
        pid = await shell_pid(bench, terminal)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    for key in (b"\x03", b"\x1c"):
        await bench.type(terminal, "sleep 600\n")
        await until(lambda: foreground(pid) != pid and Path(f"/proc/{foreground(pid)}/comm").read_text() == "sleep\n")
        await bench.type(terminal, key)
        await until(lambda: foreground(pid) == pid)


async def test_it_is_the_controlling_terminal_of_a_session_of_its_own(bench: Bench) -> None:
    terminal = await bench.open()
    pid = await shell_pid(bench, terminal)
    assert os.getsid(pid) == pid
    device = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[4])
    assert device == os.stat(f"/proc/{pid}/fd/0").st_rdev
    await bench.type(terminal, "sleep 600\n")
    await until(lambda: foreground(pid) != pid and Path(f"/proc/{foreground(pid)}/comm").read_text() == "sleep\n")
    await bench.type(terminal, b"\x03")
    await until(lambda: foreground(pid) == pid)
    await bench.until_heard(terminal, "^C\r\n$ ")
    await bench.type(terminal, "echo $(($?+0))=\n")
    await bench.until_heard(terminal, "130=\r\n")


async def test_a_resize_is_seen_by_the_program(bench: Bench) -> None:
    terminal = await bench.open(columns=91, rows=31)
    await bench.type(terminal, "stty size\n")
    await bench.until_heard(terminal, "31 91\r\n")
    await bench.terminals.resize(t.ResizeTerminal(chat_session_id=SESSION, terminal_id=terminal, columns=120, rows=40))
    await bench.type(terminal, "stty size\n")
    await bench.until_heard(terminal, "40 120\r\n")
    await bench.until(lambda: any((one.columns, one.rows) == (120, 40) for one in bench.changes))


async def test_bytes_pass_as_they_are_both_ways(bench: Bench) -> None:
    terminal = await bench.open()
    every = bytes(range(256))
    shown = "od -An -v -tu1 | tr -d '\\n '; printf '\\377\\000='"
    await bench.type(terminal, f"stty raw -echo; echo ra''w=; head -c 268 | {shown}\n")
    await bench.until_heard(terminal, "raw=")
    seen = len(bench.heard(terminal))
    pasted = b"\x1b[200~" + every + b"\x1b[201~"
    await bench.type(terminal, pasted)
    await bench.until(lambda: b"\xff\x00=" in bench.heard(terminal)[seen:])
    assert "".join(map(str, pasted)).encode() in bench.heard(terminal)


async def test_the_end_is_kept_to_the_byte_however_much_was_said(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.until_heard(terminal, "$ ")
    count = 300_000
    await bench.type(terminal, f"stty -opost; seq 1 {count}; echo done=\n")
    await bench.until_heard(terminal, "done=\n$ ")
    whole = bench.heard(terminal)
    positions = [(offset, len(data)) for _, offset, data in bench.outputs]
    assert all(offset + size == following for (offset, size), (following, _) in pairwise(positions))
    assert b"".join(b"%d\n" % n for n in range(1, count + 1)) in whole
    begin = positions[0][0]
    offset, kept = await bench.attach(terminal)
    assert len(kept) == t.SCROLLBACK_BYTES
    assert kept == whole[offset - begin :]
    for after in (offset - 1, offset, offset + 1000, begin + len(whole), begin + len(whole) + 1):
        start, data = await bench.attach(terminal, after)
        expected = after if offset <= after <= begin + len(whole) else offset
        assert (start, data) == (expected, whole[expected - begin :])


async def test_what_was_said_while_nobody_listened_is_there_at_the_next_attach(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.until_heard(terminal, "$ ")
    bench.is_away = True
    sent = len(bench.heard(terminal))
    await bench.type(terminal, "echo away=\n")
    await bench.until_kept(terminal, sent + len("echo away=\r\naway=\r\n"))
    bench.is_away = False
    offset, data = await bench.attach(terminal, 0)
    assert offset == 0
    assert b"away=\r\n" in data
    assert data.startswith(bench.heard(terminal)[:sent])


async def test_who_listens_learns_by_the_length_that_something_was_missed(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.until_heard(terminal, "$ ")
    bench.is_away = True
    await bench.type(terminal, "echo away=\n")
    await bench.until_kept(terminal, len(bench.heard(terminal)) + len("echo away=\r\naway=\r\n"))
    bench.is_away = False
    bench.changes.clear()
    await bench.terminals.heard(t.TerminalsHeard(terminal_ids=(terminal, "unknown")))
    await bench.until(lambda: bool(bench.changes))
    assert bench.changes[-1].length > len(bench.heard(terminal))


async def test_the_exit_code_is_told_after_the_last_words_and_kept(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.type(terminal, "echo last words=; exit 3\n")
    await bench.until(lambda: bench.exit_code(terminal) is not None)
    assert bench.exit_code(terminal) == 3
    assert bench.heard(terminal).endswith(b"last words=\r\n")
    with pytest.raises(NotFound):
        await bench.type(terminal, "x")
    (listed,) = (await bench.terminals.list(t.ListTerminals(chat_session_id=SESSION))).terminals
    assert listed.exit_code == 3
    await bench.terminals.close_one(t.CloseTerminal(chat_session_id=SESSION, terminal_id=terminal))
    await bench.until(lambda: bench.closed == [terminal])
    assert (await bench.terminals.list(t.ListTerminals(chat_session_id=SESSION))).terminals == ()


async def test_one_that_a_signal_ended_says_which(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.type(terminal, "kill -KILL $$\n")
    await bench.until(lambda: bench.exit_code(terminal) == -signal.SIGKILL)


async def test_a_shell_that_does_not_start_says_why(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/does/not/exist\n")
    broken.chmod(0o755)
    monkeypatch.setenv("SHELL", str(broken))
    terminal = await bench.open()
    await bench.until(lambda: bench.exit_code(terminal) == 127)
    assert b"did not start" in (await bench.attach(terminal))[1]


async def test_a_close_ends_what_ignores_sighup_and_what_was_put_aside(bench: Bench) -> None:
    terminal = await bench.open()
    pid = await shell_pid(bench, terminal)
    (bench.workspace.dir / "deaf.py").write_text(DEAF)
    await bench.type(terminal, f"sleep 600 & setsid sleep 600 & {sys.executable} deaf.py\n")
    deaf_file = bench.workspace.dir / "deaf"
    await until(lambda: deaf_file.exists() and deaf_file.read_text() != "")
    deaf = int(deaf_file.read_text())
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert deaf in children
    await bench.terminals.close_one(t.CloseTerminal(chat_session_id=SESSION, terminal_id=terminal))
    await until(lambda: not any(is_running(one) for one in (pid, *children)))


async def test_the_terminals_of_a_session_end_with_it_alone(bench: Bench) -> None:
    mine, other = await bench.open(), await bench.open(session="b" * 24)
    await bench.terminals.close_session(t.CloseTerminals(chat_session_id=SESSION))
    await bench.until(lambda: bench.closed == [mine])
    await bench.type(other, "echo still=here\n", session="b" * 24)
    await bench.until_heard(other, "still=here\r\n")
    with pytest.raises(NotFound):
        await bench.attach(other)  # by another session than its own


async def test_one_whose_session_the_service_does_not_know_is_closed(bench: Bench) -> None:
    terminal = await bench.open()
    pid = await shell_pid(bench, terminal)
    bench.gone_sessions.add(SESSION)
    bench.terminals.greet()
    await bench.until(lambda: bench.closed == [terminal])
    await until(lambda: not is_running(pid))


async def test_there_are_sixteen_and_one_that_ended_makes_room(bench: Bench) -> None:
    opened = [await bench.open() for _ in range(t.MAX_TERMINALS)]
    with pytest.raises(TooMany, match="close one of them"):
        await bench.open()
    await bench.type(opened[3], "exit\n")
    await bench.until(lambda: bench.exit_code(opened[3]) == 0)
    newest = await bench.open()
    listed = (await bench.terminals.list(t.ListTerminals(chat_session_id=SESSION))).terminals
    assert [one.id for one in listed] == [*opened[:3], *opened[4:], newest]
    assert [one.title for one in listed[:2]] == ["plain", "plain 2"]
    assert len({one.title for one in listed}) == t.MAX_TERMINALS


async def test_where_they_are_off_none_is_opened(bench_with: Callable[..., Bench]) -> None:
    with pytest.raises(Conflict, match="GADGET_TERMINALS") as refused:
        await bench_with(is_on=False).open()
    assert refused.value.code is ErrorCode.TERMINALS_OFF


async def test_one_that_nobody_has_looked_at_for_long_is_closed(
    bench_with: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gadget_drone.terminals.terminal.LISTENER_TTL_S", 0.2)
    bench = bench_with(forgotten_after_s=0.2, look_every_s=0.05)
    terminal = await bench.open()
    await bench.until(lambda: bench.closed == [terminal])


async def test_a_program_that_says_without_end_is_held_back_and_fills_nothing(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.until_heard(terminal, "$ ")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bench.may_answer.clear()
    await bench.type(terminal, "yes\n")
    await bench.until(lambda: b"y\r\n" * 10 in bench.heard(terminal) or bench.asked > 0)
    # Nothing is answered: one message is on its way, and the program waits.
    listed = bench.terminals._open[terminal]
    await until(lambda: listed.end - listed.sent >= t.MAX_OUTPUT_BYTES)
    assert listed.end - listed.sent < 2 * t.MAX_OUTPUT_BYTES
    asked = bench.asked
    bench.may_answer.set()
    await bench.until(lambda: bench.asked > asked + 30)
    assert max(len(data) for _, _, data in bench.outputs) <= t.MAX_OUTPUT_BYTES
    await bench.type(terminal, b"\x03")
    await bench.until(lambda: bench.heard(terminal).rstrip().endswith(b"$"))
    listed.hush()
    await bench.type(terminal, "yes\n")
    end = listed.end
    await until(lambda: listed.end > end + 8 * t.SCROLLBACK_BYTES)
    assert len(listed.kept(0)[1]) == t.SCROLLBACK_BYTES
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kilobytes


async def test_what_is_typed_and_not_read_is_refused_at_some_point(bench: Bench) -> None:
    terminal = await bench.open()
    await bench.type(terminal, "stty raw -echo; echo raw=; sleep 600\n")
    await bench.until_heard(terminal, "raw=")

    async def paste() -> None:
        for _ in range(20):
            await bench.type(terminal, b"x" * 48 * 1024)

    with pytest.raises(Conflict) as refused:
        await paste()
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.RATE_LIMITED, True)


async def test_nothing_of_a_terminal_is_left_by_its_close(bench: Bench) -> None:
    await bench.open()
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        terminal = await bench.open()
        pid = await shell_pid(bench, terminal)
        await bench.terminals.close_one(t.CloseTerminal(chat_session_id=SESSION, terminal_id=terminal))
        await until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
    await until(lambda: len(os.listdir("/proc/self/fd")) == fds)
