"""What a shell really runs is among what was seen: no line hides a denied command."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gadget_api.permissions import Decision
from gadget_drone.permissions.decide import decide
from gadget_drone.permissions.shell import accesses_of
from tests.gadget_drone.permissions.conftest import EXAMPLES, policy, rule
from tests.gadget_drone.permissions.shells import SHELLS, Shells

QUOTED = [
    "danger", "'danger'", '"danger"', "\\danger", "da''nger", 'd"ang"er', "d\\anger", "${Z}danger", "$(echo danger)",
    "`echo danger`", "dang?r", "$'danger'", "$D", "${D}", "${D:-x}", "d${E}r", "$(printf danger)", "{danger,}",
    "danger$Z", '"$D"',
]  # fmt: skip
WORDS = [
    "push",
    "-f",
    "'a b'",
    '"$D"',
    "a\\ b",
    "${Z:-x}",
    "$(safe in)",
    "*",
    "'#'",
    "x=1",
    "!",
    "{}",
    "$((1+2))",
    "EOF",
    "~x",
    "a#b",
]


@st.composite
def simple(draw: st.DrawFn) -> str:
    name = draw(st.one_of(st.sampled_from(QUOTED), st.sampled_from(["safe", "git", "cat", "rm", "ls"])))
    words = draw(st.lists(st.sampled_from(WORDS), max_size=3))
    before = draw(st.sampled_from(["", "", "", "A=1 ", "A=$(safe) ", ">out ", "2>&1 ", "A= B='x y' "]))
    after = draw(
        st.sampled_from(["", "", "", " >out", " 2>/dev/null", " </dev/null", " >out arg", " # danger", " <<<word"])
    )
    return before + " ".join([name, *words]) + after


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def quote(text: str) -> str:
        return "'" + text.replace("'", "'\\''") + "'"

    one = [
        "{0}; safe", "safe; {0}", "safe && {0}", "false || {0}", "safe | {0}", "{0} | cat", "{0} & wait", "({0})",
        "{{ {0}; }}", "echo $({0})", 'echo "a $({0}) b"', "if true; then {0}; fi", "if {0}; then safe; else safe; fi",
        "! {0}", "while {0}; do break; done", "for i in 1 2; do {0}; done", "case x in (y) safe;; x|z) {0};; esac",
        "f() {{ {0}; }}; f", "f()\n( {0} )\nf", "cat <<EOF\n$({0})\nEOF\n",
        "cat <<-EOF | safe\n\t$({0})\n\tEOF\nsafe", "cat <<'EOF'\n{0}\nEOF\nsafe", "safe # x\n{0}",
        "safe \\\n a; {0}", "A=$({0}) safe", "echo ${{Q:-$({0})}}", "until {0}; do break; done", "{0}\n\n safe",
        "cat <<EOF; {0}\nx\nEOF\n", "trap 'safe' EXIT; {0}", "x=${{Q:=$({0})}}", "echo $(( $({0}) + 1 ))",
        "cd . && {0}", "[ -n x ] && {0}", "(safe; {0}) | cat >out", "D=danger; {0}", "D=danger E=ange; {0}",
        "cat <(safe; {0})",
    ]  # fmt: skip
    as_text = [
        "sh -c {0}", "bash -c {0}", "eval {0}", "env A=1 sh -c {0}", "sh -ec {0} x y", "trap {0} EXIT",
        "timeout 5 sh -c {0}", "echo {0} | sh", "sh <<'E'\n{1}\nE\n", "sh <<E\n{1}\nE\n", "xargs sh -c {0} <out",
        "command eval {0}",
    ]  # fmt: skip
    before = [
        "env ", "env -i PATH=$PATH ", "env -u Q A=1 ", "command ", "nohup ", "nice -n 1 ", "timeout 5 ", "exec ",
        "xargs ", "echo a | xargs ", "xargs -n 1 ", "command -p env ", "setsid ", "find . -maxdepth 0 -exec ",
        "stdbuf -o L ", "env -- ", "exec -a q ", "nice ",
    ]  # fmt: skip
    return st.one_of(
        st.tuples(st.sampled_from(one), inner).map(lambda pair: pair[0].format(pair[1])),
        st.tuples(st.sampled_from(as_text), inner).map(lambda pair: pair[0].format(quote(pair[1]), pair[1])),
        st.tuples(st.sampled_from(before), inner).map(
            lambda pair: pair[0] + pair[1] + (" \\;" if "find" in pair[0] else "")
        ),
        st.tuples(inner, inner, st.sampled_from(["; ", " | ", " && ", " || ", "\n", " & "])).map(
            lambda t: t[0] + t[2] + t[1]
        ),
    )


LINES = st.recursive(simple(), wrapped, max_leaves=5)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A line with a few characters that do not belong there; without `/`, so that it stays in its directory."""
    line = draw(LINES).replace("/dev/null", "out")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        length = draw(st.sampled_from([0, 0, 1, 3]))
        line = (
            line[:at]
            + draw(st.sampled_from([*"'\"\\$`(){}<>|&;\n #!*?[]=~:-@%,", "danger", " danger ", ""]))
            + line[at + length :]
        )
    return line


def check(line: str, shell: str, shells: Shells) -> None:
    accesses = accesses_of(line, shells.work_dir)
    for words in shells.executed(shell, line):
        for pattern in (f"{words[0]} *", *([" ".join(words)] if not set(" ".join(words)) & set("*") else [])):
            ruling = decide(accesses, policy("full", rule("deny", "execute", pattern)))
            assert ruling.decision is not Decision.ALLOW, (shell, line, words, [a.target for a in accesses])


@pytest.mark.parametrize("shell", SHELLS)
def test_what_runs_was_seen(shell: str, shells: Shells) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(LINES)
    def holds(line: str) -> None:
        check(line, shell, shells)

    holds()


@pytest.mark.parametrize("shell", SHELLS)
def test_what_runs_was_seen_in_lines_that_are_broken(shell: str, shells: Shells) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mangled())
    def holds(line: str) -> None:
        check(line, shell, shells)

    holds()
