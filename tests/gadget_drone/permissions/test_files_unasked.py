"""Rules about files: what changes or prints one without its name in the line asks, at the level full too."""

import subprocess
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gadget_api.permissions import Capability, Decision, PermissionLevel, Policy, Rule, ScopedRule
from gadget_drone.permissions.decide import decide, denied_patterns, hidden_patterns
from gadget_drone.permissions.patterns import CHANGED_BY_GIT, UNREADABLE
from gadget_drone.permissions.shell import accesses_of
from tests.gadget_drone.permissions.conftest import access, judge, policy, rule
from tests.gadget_drone.permissions.test_shells_agree import LINES

CHANGES = r"""
echo 'x >> conf.yml' | sh
a='x >> conf.yml'; eval "$a"
echo x | $(printf tee) -a conf.yml
python3 -c 'open("conf.yml", "w")'
perl -pi -e s/a/b/ *.yml
sh -s
cp -t. evil/conf.yml
cp -vt . evil/conf.yml
cp --target-dir=. evil/conf.yml
mv --target . evil/conf.yml
ln -sft . evil/conf.yml
install -Dt . evil/conf.yml
sort -uo conf.yml evil
sort -uoconf.yml evil
sort evil --outp=conf.yml
sort evil --outp conf.yml
curl -sSo conf.yml x.test
git apply p.diff
git apply --3way p.diff
git switch other
git switch -c new other
git switch --discard-changes main
git checkout other
git checkout X -- conf.yml
git checkout other conf.yml
git checkout -- .
git checkout -- '*.yml'
git checkout -- ':(glob)*.yml'
git checkout -f
git restore conf.yml
git restore .
git restore --source=HEAD~1 conf.yml
git restore --staged --worktree .
git restore --pathspec-from-file=list
git stash
git stash push
git stash pop
git stash apply
git stash branch x
git reset --hard
git reset --har HEAD~1
git reset --merge
git merge other
git pull
git rebase main
git cherry-pick X
git revert HEAD
git am p.mbox
git read-tree -u HEAD
git checkout-index -f -a
git rm -r .
git rm '*.yml'
git mv evil conf.yml
git clean -fdx
git bisect start
git submodule update
git worktree add wt
git clone . copy
git co other
git -C . switch other
git --work-tree=. checkout other
env git switch other
cd src && git switch other
for b in a b; do git switch $b; done
xxd -r hex conf.yml
xxd -r -p hex ./conf.yml
iconv -f latin1 -o conf.yml x
iconv --output=conf.yml x
shuf -o conf.yml x
patch -p0 < p.diff
dd of=conf.yml
install x conf.yml
install -d conf.yml
rsync -a src/ .
cp -a src/. .
cp -r src/. .
tar xf x.tar
tar -zxf x.tar
tar zxf x.tar
tar --extract -f x.tar
unzip x.zip
cpio -i
gunzip conf.yml.gz
wget http://a.test/conf.yml
curl -sO http://a.test/conf.yml
curl --remote-name http://a.test/conf.yml
sed -i s/a/b/ conf.yml
yq -i .a=1 conf.yml
rename s/x/conf/ x.yml
""".strip().splitlines()

CHANGES_NOTHING_OF_IT = r"""
git status
git add -A
git commit -m 'switch to x'
git log --oneline -5
git log -p
git diff
git show HEAD
git branch new
git branch -D old
git tag v1
git fetch
git push
git switch -c new
git checkout -b new
git reset
git reset --soft HEAD~1
git reset -q
git restore --staged conf.yml
git rm --cached conf.yml
git checkout -- src/a.py
git checkout HEAD -- src/a.py README.md
git restore src/a.py
git rm src/a.py
git stash list
git worktree list
git --version
tar czf out.tgz src
curl -s http://a.test/x -o out
xxd conf.yml
iconv -f latin1 README.md
sed -i s/a/b/ README.md
""".strip().splitlines()

PRINTS = r"""
git grep TOKEN HEAD
git grep TOKEN
git grep TOKEN "$X" -- README.md
git log -p
git log --patch
git log -pw
git log -L1,2:secret.env
git log -p --follow -- README.md
git log -p --full-diff -- README.md
git log -p -- '*.env'
git log -p -- ':!README.md'
git log -p -- .
git log --cc
git reflog -p
git stash list -p
git show
git show HEAD
git show --stat HEAD
git show 1234abcd -- README.md
git show HEAD HEAD:README.md
git diff
git diff HEAD~1
git diff --stat -p
git diff 1234abcd 5678abcd -- README.md
git diff -- README.md secret.env
git archive HEAD
git archive HEAD README.md
git cat-file -p 1234abcd
git cat-file blob HEAD:secret.env
git cat-file --batch
git stash show -p
git stash show
git blame secret.env
git annotate secret.env
git whatchanged -p
git format-patch -1 --stdout
git fast-export HEAD
git diff-tree -p HEAD
git diff-index -p HEAD
git for-each-ref --format='%(raw)'
git tag --format='%(raw)' -l
git status -v
git commit --dry-run -v
git add -p
git checkout -p
git rebase --show-current-patch
git clone . copy
git worktree add wt
git bundle create all.bundle HEAD
git lg
git -C . log -p
git --no-pager log -p
env git grep TOKEN HEAD
cd src && git grep TOKEN HEAD
echo 'cat secret.env' | sh
eval "$a"
$(printf cat) secret.*
""".strip().splitlines()

PRINTS_NOTHING_OF_IT = r"""
git status
git add -A && git commit -m 'x'
git log
git log --oneline -5
git log --oneline --graph --all --stat
git log -n 5 --format=%h
git log -p -- README.md
git log -p HEAD~2 -- src/a.py
git diff --stat
git diff --name-only HEAD~1
git diff -- README.md
git diff HEAD~1 -- src/a.py
git grep TOKEN -- src/a.py
git show HEAD:README.md
git blame README.md
git branch -a
git remote -v
git fetch -p
git push -u origin main
git rev-parse HEAD
git ls-files
git switch other
git stash list
git merge other
""".strip().splitlines()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in ("conf.yml", "secret.env", "README.md", "src/a.py", "evil", "sub/.env", "top.pem.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def both(decision: str, capability: str, name: str) -> list[Policy]:
    """Found anywhere, and at the top alone."""
    return [policy("full", rule(decision, capability, pattern)) for pattern in (name, f"/{name}")]


@pytest.mark.parametrize("line", CHANGES)
def test_what_may_change_a_file_asks(line: str, tree: Path) -> None:
    for given_ in (*both("deny", "write", "conf.yml"), *both("ask", "write", "conf.yml")):
        assert judge(line, given_, tree).decision is not Decision.ALLOW, accesses_of(line, tree)


@pytest.mark.parametrize("line", CHANGES_NOTHING_OF_IT)
def test_what_changes_other_files_does_not(line: str, tree: Path) -> None:
    for given_ in both("deny", "write", "conf.yml"):
        assert judge(line, given_, tree).decision is Decision.ALLOW, accesses_of(line, tree)


@pytest.mark.parametrize("line", PRINTS)
def test_what_may_print_a_file_asks(line: str, tree: Path) -> None:
    for given_ in (*both("deny", "read", "secret.env"), *both("ask", "read", "secret.env")):
        assert judge(line, given_, tree).decision is not Decision.ALLOW, accesses_of(line, tree)


@pytest.mark.parametrize("line", PRINTS_NOTHING_OF_IT)
def test_what_prints_other_files_does_not(line: str, tree: Path) -> None:
    for given_ in both("deny", "read", "secret.env"):
        assert judge(line, given_, tree).decision is Decision.ALLOW, accesses_of(line, tree)


@pytest.mark.parametrize("line", sorted({*CHANGES, *CHANGES_NOTHING_OF_IT, *PRINTS, *PRINTS_NOTHING_OF_IT}))
def test_without_rules_about_files_nothing_is_asked_in_full(line: str, tree: Path) -> None:
    given_ = policy("full", rule("deny", "read", "//etc/shadow"), rule("allow", "write", "*"))
    unreadable = any(found.target.startswith(("$(unreadable)", "(unknown)")) for found in accesses_of(line, tree))
    assert judge(line, policy("full"), tree).decision is Decision.ALLOW
    assert unreadable or judge(line, given_, tree).decision is Decision.ALLOW


def test_what_git_changes_is_judged_by_the_command_and_by_rules() -> None:
    found = [access("git", "switch main"), access("write", CHANGED_BY_GIT)]
    allowing = rule("allow", "git", "switch *")
    assert decide(found, policy("ask", allowing)).decision is Decision.ALLOW
    assert decide(found, policy("ask", allowing, rule("deny", "write", "conf.yml"))).decision is Decision.ASK
    assert decide(found, policy("full", rule("deny", "write", "*"))).decision is Decision.DENY
    assert decide(found, policy("plan", allowing)).decision is Decision.DENY


def test_what_is_hidden_and_what_is_denied() -> None:
    own = [
        Rule(decision=Decision.DENY, capability=Capability.WRITE, pattern="own.yml"),
        Rule(decision=Decision.ASK, capability=Capability.READ, pattern="own.txt"),
    ]
    rules = [
        rule("deny", "read", "secret.env"), rule("ask", "read", "private/"), rule("allow", "read", "open"),
        rule("deny", "write", "conf.yml"), rule("ask", "write", "asked.yml"), rule("deny", "read", "secret.env"),
    ]  # fmt: skip
    assert hidden_patterns(policy("full", *rules, own=own)) == ["secret.env", "private/"]
    trusting = policy("full", *rules, trusts_repository=True, own=own)
    assert hidden_patterns(trusting) == ["secret.env", "private/", "own.txt"]
    assert denied_patterns(Capability.WRITE, trusting) == ["conf.yml", "own.yml"]
    assert denied_patterns(Capability.WRITE, policy("full", *rules, own=own)) == ["conf.yml"]
    assert denied_patterns(Capability.READ, trusting) == ["secret.env"]
    for level in ("plan", "ask", "autoEdit"):
        assert {".env", "*.pem", ".ssh"} <= set(hidden_patterns(policy(level)))
    assert denied_patterns(Capability.READ, policy("plan")) == []


@pytest.mark.parametrize(
    "told", [".yml\n", "echo x >> conf", "cat 'sec", ")", "# x", "\n", "ls\n", "() { ls; }", "|| ls"]
)
def test_what_a_program_is_told_is_not_read_as_a_whole(told: str, tree: Path) -> None:
    found = accesses_of(UNREADABLE + told, tree)
    assert all(one.target != "unreadable" for one in found)
    for capability in ("read", "write", "execute"):
        assert decide(found, policy("full", rule("deny", capability, "conf.yml"))).decision is Decision.ASK
    assert decide(found, policy("full")).decision is Decision.ALLOW


RULES = [rule(*pair, "conf.yml") for pair in product(("deny", "ask"), ("read", "write"))]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(line=LINES, by=st.sampled_from(RULES), level=st.sampled_from(list(PermissionLevel)))
def test_what_cannot_be_read_never_passes_a_rule_about_files(
    line: str, by: ScopedRule, level: PermissionLevel, project: Path
) -> None:
    found = accesses_of(line, project)
    ruling = decide(found, Policy(level=level, rules=(by,)))
    if any(one.capability is Capability.EXECUTE and one.target.startswith("$(unreadable) ") for one in found):
        assert ruling.decision is not Decision.ALLOW


BRANCHES = st.sampled_from(
    ["switch other", "checkout other", "merge x", "stash pop", "reset --hard", "apply p", "co x"]
)
OPTIONS = st.sampled_from(["", "-q ", "--quiet ", "-c color.ui=never ", "--no-pager ", "-C . ", "-P "])


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=BRANCHES, option=OPTIONS, other=LINES, between=st.sampled_from(["; ", " && ", " | ", "\n"]))
def test_no_option_and_no_other_command_hides_what_git_changes(
    command: str, option: str, other: str, between: str, project: Path
) -> None:
    # On a line of its own behind the other, which may end in a comment.
    for line in (f"git {option}{command}{between}{other}", f"{other}\ngit {option}{command}"):
        ruling = judge(line, policy("full", rule("deny", "write", "conf.yml")), project)
        assert ruling.decision is not Decision.ALLOW, line
