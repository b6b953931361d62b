"""The one decision function: order, levels, and what no rule and no text can do to it."""

import subprocess
from pathlib import Path

import pathspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_that
from hypothesis import strategies as st

from gadget_api.permissions import Access, Capability, Decision, PermissionLevel, Policy, Rule, RuleScope, ScopedRule
from gadget_drone.permissions.decide import allows_network, decide, hidden_patterns
from gadget_drone.permissions.patterns import normal_path, path_fits, text_fits
from gadget_drone.permissions.repository import FILE, MAX_BYTES, repository_rules
from gadget_drone.permissions.shell import accesses_of
from gadget_drone.permissions.suggest import suggest
from tests.gadget_drone.permissions.conftest import access, judge, policy, rule
from tests.gadget_drone.permissions.test_shells_agree import LINES

STRICTNESS = [Decision.ALLOW, Decision.ASK, Decision.DENY]


def decision(given: Policy, capability: str, target: str) -> Decision:
    return decide([access(capability, target)], given).decision


@pytest.mark.parametrize(
    ("level", "read", "write", "others"),
    [
        ("plan", "allow", "deny", "deny"),
        ("ask", "allow", "ask", "ask"),
        ("autoEdit", "allow", "allow", "ask"),
        ("full", "allow", "allow", "allow"),
    ],
)
def test_the_level_decides_where_no_rule_fits(level: str, read: str, write: str, others: str) -> None:
    assert decision(policy(level), "read", "a") == read
    assert decision(policy(level), "write", "a") == write
    for capability, target in (("execute", "make"), ("network", "a.test"), ("git", "commit"), ("mcp", "server.tool")):
        assert decision(policy(level), capability, target) == others


@pytest.mark.parametrize("capability", ["write", "execute", "network", "git", "mcp"])
def test_a_rule_does_not_loosen_a_plan(capability: str) -> None:
    assert decision(policy("plan", rule("allow", capability, "*")), capability, "a") is Decision.DENY
    assert decision(policy("plan", rule("ask", capability, "*")), capability, "a") is Decision.DENY


def test_nothing_is_allowed() -> None:
    assert decide([], policy("plan")).decision is Decision.ALLOW


def test_deny_wins_over_ask_and_ask_over_allow() -> None:
    rules = [rule(kind, "execute", "make *") for kind in ("allow", "ask", "deny")]
    assert decision(policy("ask", *rules), "execute", "make x") is Decision.DENY
    assert decision(policy("full", *rules[:2]), "execute", "make x") is Decision.ASK
    assert decision(policy("ask", *rules[:1]), "execute", "make x") is Decision.ALLOW


def test_every_verdict_says_why_and_names_the_rule() -> None:
    rules = policy("ask", rule("deny", "execute", "git push *", RuleScope.PROJECT))
    verdict = decide([access("execute", "/usr/bin/git push")], rules).verdicts[0]
    assert verdict.because == "A rule (project) denies execute `git push *`."
    assert verdict.rule == rules.rules[0]
    assert decide([access("execute", "make")], rules).verdicts[0].because == (
        "The level ask asks before running commands."
    )
    assert decide([access("write", ".git/hooks/x")], policy("full")).verdicts[0].because == (
        "A rule (built in) denies write `.git`: what is in .git runs later, outside of the tools."
    )


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/x", ".GIT/config", ".gadget/x", "./a/../.git/x"])
def test_the_repository_and_the_drones_state_are_not_written_even_in_full(path: str) -> None:
    assert decision(policy("full", rule("allow", "write", "*")), "write", path) is Decision.DENY


def test_the_repositorys_own_rules_ask_and_secrets_ask_below_full() -> None:
    assert decision(policy("full"), "write", ".gadget.json") is Decision.ASK
    for path in (".env", "a/.env.local", "key.pem", ".ssh/id_rsa", "x/.netrc"):
        assert decision(policy("autoEdit"), "read", path) is Decision.ASK
        assert decision(policy("full"), "read", path) is Decision.ALLOW
    assert decision(policy("ask"), "read", ".env.example") is Decision.ALLOW


def test_outside_of_the_project() -> None:
    for path in ("/etc/passwd", "../x", "~/.bashrc", "a/../../x"):
        assert decision(policy("ask"), "read", path) is Decision.ASK
        assert decision(policy("autoEdit"), "write", path) is Decision.ASK
        assert decision(policy("autoEdit", rule("allow", "write", "*")), "write", path) is Decision.ASK
    allowing = policy("ask", rule("allow", "read", "//etc/**"), rule("allow", "read", "~/.bashrc"))
    assert decision(allowing, "read", "/etc/passwd") is Decision.ALLOW
    assert decision(allowing, "read", "~/.bashrc") is Decision.ALLOW
    assert decision(allowing, "read", "/var/log/x") is Decision.ASK
    assert decision(policy("full", rule("deny", "read", "passwd")), "read", "/etc/passwd") is Decision.DENY


@pytest.mark.parametrize("pattern", ["~/.ssh/**", "//data/Ada/.ssh/**", "//data/*/.ssh", "//data/Ada/.ssh/i?_rsa"])
@pytest.mark.parametrize("line", ["cat ~/.ssh/id_rsa", "cat /data/Ada/.ssh/id_rsa", "cat ~/.ss?/id_rsa"])
def test_a_home_is_the_same_however_it_is_spelled(
    pattern: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/data/Ada")
    assert judge(line, policy("full", rule("deny", "read", pattern)), tmp_path).decision is not Decision.ALLOW
    allowed = policy("ask", rule("allow", "read", "~/.ssh/**"), rule("allow", "read", "//data/Ada/**"))
    assert path_fits("//data/Ada/**", "~/x", wide=False)
    assert decision(allowed, "read", "~/notes") is Decision.ALLOW


@pytest.mark.parametrize(("pattern", "name"), [("?.txt", "ß.txt"), ("SECRET?", "secretß"), ("ß?.KEY", "ßß.key")])
def test_a_question_mark_is_one_letter_that_folds_to_two(pattern: str, name: str) -> None:
    assert path_fits(pattern, name, wide=True)


def test_git_of_the_shell_and_of_the_tool_are_one() -> None:
    assert decision(policy("full", rule("deny", "git", "push *")), "execute", "git push origin") is Decision.DENY
    assert decision(policy("full", rule("deny", "git", "push *")), "execute", "git -C x push") is Decision.DENY
    assert decision(policy("full", rule("deny", "execute", "git push *")), "git", "push origin") is Decision.DENY
    # The git tool runs no hooks; a shell's git does.
    assert decision(policy("ask", rule("allow", "git", "commit *")), "execute", "git commit -m x") is Decision.ASK
    assert decision(policy("ask", rule("allow", "execute", "git commit *")), "git", "commit -m x") is Decision.ALLOW


def test_an_allowing_rule_is_about_the_command_as_it_is_written() -> None:
    rules = policy("ask", rule("allow", "execute", "npm run *"))
    assert decision(rules, "execute", "npm run") is Decision.ALLOW
    assert decision(rules, "execute", "npm run build") is Decision.ALLOW
    for other in ("./npm run build", "/tmp/npm run build", "NPM run build", "npm runx", "xnpm run", "$(npm) run"):
        assert decision(rules, "execute", other) is Decision.ASK
    assert decision(policy("ask", rule("allow", "execute", "*")), "execute", "$(unreadable) x") is Decision.ALLOW


def test_a_prefix_needs_a_rule_of_its_own(project: Path) -> None:
    rules = policy("ask", rule("allow", "execute", "npm test *"))
    assert judge("timeout 60 npm test", rules, project).decision is Decision.ASK
    both = policy("ask", *rules.rules, rule("allow", "execute", "timeout 60 *"))
    assert judge("timeout 60 npm test", both, project).decision is Decision.ALLOW
    assert judge("sudo npm test", rules, project).decision is Decision.ASK
    assert decision(rules, "execute", "env CI=1 npm test") is Decision.ASK


def test_the_repositorys_rules_count_only_when_trusted() -> None:
    own = [Rule(decision=Decision.DENY, capability=Capability.EXECUTE, pattern="make *")]
    assert decide([access("execute", "make")], policy("full", own=own)).decision is Decision.ALLOW
    trusting = policy("full", trusts_repository=True, own=own)
    assert decide([access("execute", "make")], trusting).decision is Decision.DENY


def test_network_and_what_searches_hide() -> None:
    assert allows_network(policy("full"))
    assert not allows_network(policy("autoEdit"))
    assert allows_network(policy("ask", rule("allow", "network", "*")))
    assert not allows_network(policy("full", rule("deny", "network", "a.test")))
    assert hidden_patterns(policy("full", rule("deny", "read", ".env"), rule("deny", "write", "x"))) == [".env"]


RULES = st.builds(
    rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["read", "write", "execute", "network", "git"]),
    st.sampled_from(["*", "danger *", "safe *", "git *", "push *", "rm *", "out", "*.py", "/a/**", "cat *", "env *"]),
    st.sampled_from(list(RuleScope)),
)
ACCESSES = st.builds(
    access,
    st.sampled_from(["read", "write", "execute", "network", "git"]),
    st.sampled_from(
        [
            "danger x",
            "safe",
            "git push",
            "push",
            "rm -r x",
            "out",
            "a/b.py",
            "$(unreadable) x",
            "(unknown) $F",
            "(any of) a/*",
            "../x",
            "/etc/x",
            "env danger",
            ".git/x",
            "*",
            "a/",
        ]
    ),
)
LEVELS = st.sampled_from(list(PermissionLevel))


@settings(max_examples=400, deadline=None)
@given_that(LEVELS, st.lists(RULES, max_size=5), RULES, st.lists(ACCESSES, min_size=1, max_size=3))
def test_no_allowing_rule_loosens_what_is_denied_and_no_other_rule_loosens_anything(
    level: PermissionLevel, rules: list[ScopedRule], more: ScopedRule, accesses: list[Access]
) -> None:
    before = decide(accesses, Policy(level=level, rules=tuple(rules))).decision
    for position in (0, len(rules)):
        changed = [*rules[:position], more, *rules[position:]]
        after = decide(accesses, Policy(level=level, rules=tuple(changed))).decision
        if more.decision is Decision.ALLOW:
            assert STRICTNESS.index(after) <= STRICTNESS.index(before)
            assert (before is Decision.DENY) == (after is Decision.DENY)
        else:
            assert STRICTNESS.index(after) >= STRICTNESS.index(before)


@settings(max_examples=300, deadline=None)
@given_that(st.lists(RULES, max_size=5), st.lists(ACCESSES, min_size=1, max_size=4))
def test_a_looser_level_is_never_stricter_and_more_accesses_never_looser(
    rules: list[ScopedRule], accesses: list[Access]
) -> None:
    ranks = [
        STRICTNESS.index(decide(accesses, Policy(level=level, rules=tuple(rules))).decision)
        for level in PermissionLevel
    ]
    assert ranks == sorted(ranks, reverse=True)
    given = Policy(rules=tuple(rules))
    assert STRICTNESS.index(decide(accesses, given).decision) >= STRICTNESS.index(decide(accesses[1:], given).decision)


DENYING = policy(
    "full", rule("deny", "execute", "danger *"), rule("allow", "execute", "*"), rule("allow", "execute", "safe *")
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given_that(line=LINES, other=LINES, between=st.sampled_from(["; ", " && ", " || ", " | ", "\n", " & "]))
def test_no_text_before_or_after_turns_a_denial_into_an_allowance(
    line: str, other: str, between: str, project: Path
) -> None:
    if judge(line, DENYING, project).decision is not Decision.ALLOW:
        assert judge(line + between + other, DENYING, project).decision is not Decision.ALLOW
        if "#" not in other or between == "\n":  # else what follows may be a comment
            assert judge(other + between + line, DENYING, project).decision is not Decision.ALLOW


NAMES = st.text("ab.*?[]-!", min_size=1, max_size=4)
PATTERNS = st.lists(st.one_of(NAMES, st.just("**")), min_size=1, max_size=3).map("/".join)


PATHS = st.lists(
    st.text("ab.-", min_size=1, max_size=3).filter(lambda name: name not in (".", "..")), min_size=1, max_size=3
).map("/".join)


@settings(max_examples=600, deadline=None)
@given_that(
    PATTERNS.filter(lambda text: "[" not in text and "]" not in text),
    st.booleans(),
    st.lists(
        st.text("ab.-", min_size=1, max_size=3).filter(lambda n: n not in (".", "..")), min_size=1, max_size=3
    ).map("/".join),
)
def test_patterns_fit_paths_as_in_gitignore(pattern: str, is_anchored: bool, path: str) -> None:
    pattern = f"/{pattern}" if is_anchored else pattern
    # `!` and `#` are nothing special in a rule.
    judged = pathspec.GitIgnoreSpec.from_lines([f"\\{pattern}" if pattern[0] in "!#" else pattern])
    assert path_fits(pattern, path, wide=False) == judged.match_file(path), (pattern, path)


KINDS = ("alpha", "digit", "alnum", "upper", "lower", "space", "blank", "xdigit", "punct", "cntrl", "print", "graph")


@pytest.mark.parametrize(
    "pattern",
    [
        "x[!]a]", "x[]a]", "x[\\]a]", "x[a\\-c]", "x[!a-c]", "x[^a]", "x[--0]", "x[]-a]", "x[[]", "x[a-]", "x[z-a]",
        *(f"[[:{kind}:]]z" for kind in KINDS),
        "[![:alpha:]_]z", "x[[:nothing:]]", "secrets ", "secrets\\ ", "secrets\\  ",
    ],
)  # fmt: skip
def test_classes_and_blanks_are_read_as_git_reads_them(pattern: str, tmp_path: Path) -> None:
    names = [f"x{char}" for char in "]abcd-^[.:\\!0"] + [f"{char}z" for char in "aBf7_ \t\x01.~"]
    names += ["secrets", "secrets ", "secrets  "]
    (tmp_path / ".gitignore").write_text(f"{pattern}\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    asked = ["git", "-C", str(tmp_path), "check-ignore", "-z", "--stdin", "--no-index"]
    ignored = subprocess.run(asked, input="\0".join(names), capture_output=True, text=True).stdout.split("\0")
    given = rule("deny", "read", pattern)
    assert [name for name in names if path_fits(given.pattern, name, wide=False)] == [n for n in names if n in ignored]


def test_long_patterns_take_no_long_time() -> None:
    pattern, name = "*a" * 450, "a" * 250 + "b"
    assert not path_fits(pattern, "/".join([name] * 10), wide=True)
    assert not text_fits(pattern + "c", "a" * 60_000)


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("./a/../b", "b"),
        ("a//b", "a/b"),
        ("", "."),
        (".", "."),
        ("a/", "a/"),
        ("//etc", "/etc"),
        ("a/../..", ".."),
        ("./", "./"),
    ],
)
def test_paths_are_made_normal(given: str, normal: str) -> None:
    assert normal_path(given) == normal


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("npm test", "npm test *"),
        ("npm run build -- -x", "npm run build *"),
        ("pytest -q", "pytest *"),
        ("cargo build", "cargo build *"),
        ("git commit -m x", "git commit *"),
        ("make", "make"),
        ("make test", "make test"),
        ("./gradlew test", "./gradlew *"),
    ],
)
def test_always_allow_suggests_a_command_and_its_subcommand(line: str, pattern: str, project: Path) -> None:
    ruling = judge(line, policy("ask"), project)
    found = suggest([verdict.access for verdict in ruling.verdicts if verdict.decision is Decision.ASK])
    assert found is not None
    assert (found.decision, found.capability, found.pattern) == (Decision.ALLOW, Capability.EXECUTE, pattern)


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "sudo make",
        "sh x.sh",
        "bash -c make",
        "python x.py",
        "python3.11 x.py",
        "node x.js",
        "$CMD",
        "eval make",
        "xargs make",
        "curl x.test",
        "git push",
        "npm run",
        "npx x",
        "find . -delete",
        "sed -i s/a/b/ x",
        "git -c a=b commit",
        "PATH=. make",
        "make $X",
        "CC=x make",
        "env CI=1 npm test",
        "m4 x",
        "sqlite3 x",
        "java -jar x",
        "gcc x.c",
        "gcc-12 x.c",
        "gawk-5 x",
        "perl5.36.0-x x.pl",
        "python3-dbg x",
        "openssl x",
        "git bisect start",
        "git rebase main",
        "git worktree list",
        "git submodule update",
        "git-push",
        "fd x",
        "hg log",
        "pip install x",
        "go test ./...",
        "bat x",
        "man ls",
        "less x",
        "export A=1",
        "set -e",
    ],
)
def test_always_allow_is_not_offered_for_what_runs_anything(line: str, project: Path) -> None:
    assert suggest([a for a in accesses_of(line, project) if a.capability is Capability.EXECUTE]) is None


def test_always_allow_for_files_and_hosts() -> None:
    assert (found := suggest([access("write", "src/a.py"), access("write", "src/b/c.py")])) is not None
    assert found.pattern == "/src/**"
    assert (found := suggest([access("network", "a.test")])) is not None
    assert found.pattern == "a.test"
    assert suggest([access("write", "/etc/x")]) is None
    assert suggest([access("execute", "make"), access("network", "a.test")]) is None
    assert suggest([]) is None


def test_a_repositorys_rules_are_read(tmp_path: Path) -> None:
    assert repository_rules(tmp_path).rules == ()
    assert repository_rules(tmp_path).error is None
    file = tmp_path / FILE
    file.write_text('{"rules": [{"decision": "deny", "capability": "read", "pattern": "x"}]}')
    assert repository_rules(tmp_path).rules == (Rule(decision=Decision.DENY, capability=Capability.READ, pattern="x"),)
    for content, says in (
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"rules": [{"decision": "maybe", "capability": "read"}]}', "rules.0.decision"),
        ('{"rules": [], "level": "full"}', "level"),
        (" " * (MAX_BYTES + 1), "larger than 256 KiB"),
    ):
        file.write_text(content)
        found = repository_rules(tmp_path)
        assert found.rules == ()
        assert says in (found.error or "")
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "cannot be read" in (repository_rules(tmp_path).error or "")
