"""Which lines run without a question below `full`, and the lines of an attack: each of them asks or is denied."""

import os
import subprocess
from pathlib import Path

import pytest

from gadget_api.messages import ToolCallRequest
from gadget_api.permissions import Access, Capability, Decision
from gadget_drone.agent.permission import judged, targets_of
from gadget_drone.permissions.decide import decide
from gadget_drone.permissions.reading import files_only_read
from gadget_drone.permissions.shell import accesses_of
from gadget_drone.tools.shell import shell
from gadget_drone.tools.tool import SideEffect, ToolResult, tool
from gadget_drone.tools.toolbox import Toolbox
from tests.gadget_drone.permissions.conftest import judge, policy, rule


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree") / "project"
    for name in (
        ".env", ".npmrc", "sub/.env", "key.pem", "i", "README.md", "src/a.py", "a/x", "b/x", "d/x", "f", "[-]-x",
        "sub/id_rsa", "config.json", ".docker/config.json", "ssl/openssl.cnf", "ls", "bin/cat", "٣", "~", "a b",
    ):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("x\n")
    (root / "out").symlink_to(outside)
    (root / "a/l").symlink_to(outside / "file")
    (root / "l1").symlink_to("src")
    (root / "-").symlink_to(".env")
    (root / "innocent").symlink_to(".env")
    (root / "linked-config").symlink_to(".git/config")
    os.mkfifo(root / "fifo")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


ONLY_READS = r"""
ls
ls -la src
ls l1
pwd
cat README.md
cat 'a b' "README.md"
cat -n README.md 2>/dev/null
head -n 5 README.md | tail -n 1
head -5 README.md
wc -l README.md src/a.py
echo hello, "two words"; echo 'a*b $x `y`'
grep -n foo README.md src/a.py
grep -e foo README.md
cat README.md | grep x | sort | uniq -c | sort -rn | head
sed -n 1,20p README.md
sed -n '3p' README.md
diff README.md src/a.py
cut -d: -f1 README.md
cat README.md | tr a-z A-Z
cat - </dev/null
stat -c %s README.md
file -b README.md
realpath README.md
date +%s
true && false || whoami
git status
git status --short --branch
git log
git log --oneline -5
git log --oneline -n 20
git branch
git branch -a
git rev-parse --abbrev-ref HEAD
git remote
git tag
ls\n\ncat README.md\n
""".strip().splitlines()

ATTACKS = r"""
echo a > -
cd d; echo x > -
cat < -
tool:; echo x
cat */.env
cat *.pem
cat i*
cat l*/../file
grep -d recurse '' .
grep -drecurse '' .
git diff /dev/null ./.en*
X=.env; git diff /dev/null "./$X"
find /hom*/
echo /x/*
git grep --untracked -e S
git log -p -- sub
git show HEAD:.env
diff a b
rg -g .env ''
rg ''
grep -r '' .
: ${CDPATH:=/etc}; cd ssl; head -2 openssl.cnf
x=; : ${x:=a[\$(id)]}; echo $((x))
_=1; : 'a[$(id)]'; echo $((_))
printf '%ln' PATH; ls
echo x >&٣
echo x >&5--
sed 's/[/A/;s,]/B/w file,z,' f
for d in . .; do cat config.json; command cd .docker; done
wc -l [-]-*
timeout ./evil.sh ls
""".strip().splitlines()

ASKS = r"""
make
./ls
bin/cat README.md
/bin/cat README.md
rm x
touch x
echo x > y
echo x >/dev/null2
echo x 2>&1x
echo x 3>/dev/null
cat README.md &
cat README.md |& head
(ls)
{ ls; }
! ls
if ls; then ls; fi
for f in a b; do echo f; done
f() { ls; }; f
cat <<E\nx\nE
cat <<<x
cat <(ls)
echo $(ls)
echo `ls`
echo "`ls`"
echo "$HOME"
echo $HOME
echo ~
echo '~'
echo {a,b}
echo a*
echo a?
echo [a]
echo \a
echo "a\b"
# ls
ls # x
ls > /dev/null
ls\r
ls\x00
ls\xa0-a
ls\u2028-a
A=1 ls
LC_ALL=C ls
A=1
cd src && ls
cd src
set -e
export A
eval ls
trap ls EXIT
command ls
command -v git
which python
type ls
test -f README.md
[ -f README.md ]
printf x
seq 3
sleep 1
env ls
xargs ls
nice ls
nohup ls
time ls
timeout 5 cat README.md
cat missing
cat src
cat fifo
cat src/../README.md
cat ../x
cat out/file
cat a/l
ls out
ls ..
ls /
cat /etc/passwd
cat ~/.bashrc
cat .env
cat innocent
cat .npmrc
cat .git/config
ls .git
cat linked-config
cat sub/id_rsa
cat key.pem
cat ''
ls -R
ls --recursive src
tail -f README.md
wc --files0-from=README.md
file -f README.md
file -m README.md README.md
date -s tomorrow
date 01010101
date -f README.md
date -r README.md
grep -f README.md README.md
grep x src
grep -R x README.md
diff README.md
diff README.md -
diff README.md missing
sort -o out README.md
sort --outp=out README.md
sort -uoout README.md
sort -T x README.md
uniq README.md out
sed -i s/a/b/ README.md
sed -n 'w out' README.md
sed -n '1e' README.md
sed 1p README.md
sed -n ١p README.md
find .
tree
du
rg --pre ./run foo
git
git diff
git diff --stat HEAD~1
git diff --output=out
git diff --no-index /etc/hosts x
git show HEAD
git blame README.md
git cat-file -p HEAD
git log -p
git log --stat
git log -n 5 README.md
git log --format=%GG
git -c core.pager=./x log
git -C . log
git commit -m x
git branch new
git branch -D x
git tag v1
git remote -v
git rev-parse HEAD:.env
git 'log -1'
git stash
python x.py
hexdump README.md
tee out
""".strip().splitlines()


def text(line: str) -> str:
    for name, char in (("n", "\n"), ("r", "\r"), ("x00", "\0"), ("xa0", "\xa0"), ("u2028", "\u2028")):
        line = line.replace(f"\\{name}", char)
    return line


@pytest.mark.parametrize("line", ONLY_READS)
@pytest.mark.parametrize("level", ["plan", "ask", "autoEdit"])
def test_a_line_that_only_reads_needs_no_question(line: str, level: str, tree: Path) -> None:
    ruling = judge(text(line), policy(level), tree)
    assert ruling.decision is Decision.ALLOW, [(v.access.target, v.because) for v in ruling.verdicts]


@pytest.mark.parametrize("line", [*ATTACKS, *ASKS])
def test_every_other_line_asks_and_a_plan_does_not_run_it(line: str, tree: Path) -> None:
    assert judge(text(line), policy("ask"), tree).decision is Decision.ASK
    assert judge(text(line), policy("plan"), tree).decision is not Decision.ALLOW


@pytest.mark.parametrize("line", ATTACKS)
def test_no_line_of_the_attack_only_reads(line: str, tree: Path) -> None:
    assert files_only_read(line, str(tree)) is None
    assert not any(access.only_reads for access in accesses_of(line, tree))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sed -n 1p '-ne1e id'", "-ne1e id"),
        ("sed -n 1p -sfx", "-sfx"),
        ("sed -n 1p --exp=1w", "--exp=1w"),
        ("cat README.md -n", "-n"),
        ("uniq README.md -c", "-c"),
        ("head -5 README.md -n5", "-n5"),
        ("cat -- -n", "-n"),
        ("grep x README.md -f", "-f"),
    ],
)
def test_a_file_with_the_name_of_an_option_is_not_read_unasked(line: str, name: str, tree: Path) -> None:
    """Some programs take an option behind an operand, others take the file of that name."""
    (tree / name).write_text("x\n")
    assert files_only_read(line, str(tree)) is None


@pytest.mark.parametrize("entry", ["{tree}/bin", "./bin", "", "{link}/bin"])
def test_a_program_that_the_project_may_bring_is_not_run_unasked(
    entry: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    monkeypatch.setattr("gadget_drone.processes.programs._workspaces", {str(tree.resolve())})
    assert files_only_read("cat README.md", str(tree)) is not None
    monkeypatch.setenv("PATH", f"{entry.format(tree=tree, link=link)}:{os.environ['PATH']}")
    assert files_only_read("cat README.md", str(tree)) is None


@pytest.mark.parametrize("before", ["ls; ", "ls && ", "ls | ", "ls\n"])
def test_one_command_that_asks_makes_the_whole_line_ask(before: str, tree: Path) -> None:
    for other in ("make", "cat src", "echo $X", "ls > x"):
        assert files_only_read(before + other, str(tree)) is None
        assert files_only_read(f"{other}; ls", str(tree)) is None


@pytest.mark.parametrize(
    ("line", "capability", "pattern", "decisions"),
    [
        ("echo a > -", "write", "/-", ["deny"]),
        ("cd d; echo x > -", "write", "/d/-", ["deny"]),
        ("cat < -", "read", ".env", ["deny"]),
        ("echo x >&٣", "write", "٣", ["deny"]),
        ("echo x >&5--", "write", "5--", ["deny"]),
        (f"git {'--no-pager ' * 13}push origin", "execute", "git push *", ["deny"]),
        (f"git {'-C . ' * 40}push", "execute", "git push *", ["deny"]),
        (f"git {'-c user.name=b ' * 30}push", "git", "push *", ["deny"]),
        ("git-push origin", "execute", "git push *", ["deny"]),
        ("/usr/lib/git-core/git-push origin", "execute", "git push *", ["deny"]),
        ("git send-pack origin", "execute", "git push *", ["deny"]),
        ("git subtree push -P x origin main", "execute", "git push *", ["deny"]),
        ("git lfs push origin", "execute", "git push *", ["deny"]),
        ("git -C x send-pack origin", "git", "push *", ["deny"]),
        ("FOO=1 git push", "execute", "git push *", ["deny"]),
        ("sed 's/[/A/;s,]/B/w file,z,' f", "write", "file", ["ask", "deny"]),
        (": ${CDPATH:=/etc}; cd ssl; head -2 openssl.cnf", "read", "//etc/ssl/**", ["ask", "deny"]),
        ("export CDPATH=/etc; cd ssl; head -2 openssl.cnf", "read", "//etc/ssl/**", ["ask", "deny"]),
        ("read CDPATH; cd ssl; head -2 openssl.cnf", "read", "//etc/ssl/**", ["ask", "deny"]),
        ("for d in . .; do cat config.json; command cd .docker; done", "read", "/.docker/config.json", ["ask", "deny"]),
        ("for d in . .; do tool config.json; eval 'cd .docker'; done", "read", "/.docker/config.json", ["ask", "deny"]),
        ("x=; : ${x:=a[\\$(id)]}; echo $((x))", "execute", "id *", ["ask", "deny"]),
        ("_=1; : 'a[$(id)]'; echo $((_))", "execute", "id *", ["ask", "deny"]),
        ("printf '%ln' PATH; ls", "execute", "id *", ["ask", "deny"]),
        ("cd $D; cat x", "read", ".env", ["ask", "deny"]),
        ("mytool a$X", "read", ".env", ["ask", "deny"]),
    ],
)  # fmt: skip
def test_a_rule_that_denies_holds_at_the_level_full(
    line: str, capability: str, pattern: str, decisions: list[str], tree: Path
) -> None:
    assert judge(line, policy("full", rule("deny", capability, pattern)), tree).decision in decisions


def test_a_shell_command_that_looks_like_a_tool_is_read(tree: Path) -> None:
    @tool(effect=SideEffect.OTHER)
    async def mystery() -> ToolResult:
        """Says nothing about itself."""
        return ToolResult("")

    box = Toolbox([shell, mystery])

    def accesses(name: str, **params: str) -> list[Access]:
        found = box.accesses(ToolCallRequest(call_id="c1", name=name, params=params))
        return judged(found, tree, targets_of(found, tree))

    line = accesses("shell", command="tool:; echo x")
    assert decide(line, policy("full", rule("deny", "execute", "echo *"))).decision is Decision.DENY
    for pattern in ("tool:*", "tool:mystery"):
        allowing = policy("ask", rule("allow", "execute", pattern))
        assert decide(accesses("shell", command="tool:mystery"), allowing).decision is Decision.ASK
        assert decide(line, allowing).decision is Decision.ASK
        assert decide(accesses("mystery"), allowing).decision is Decision.ALLOW
    assert decide(accesses("mystery"), policy("full", rule("deny", "execute", "tool:*"))).decision is Decision.DENY
    assert decide(accesses("mystery"), policy("ask")).decision is Decision.ASK


@pytest.mark.parametrize("assignment", ["MAKEFLAGS=--eval=x", "CC=./evil", "A='x y'", "A=$(id)", "CI=1 CC=./evil"])
def test_an_allowing_rule_does_not_fit_behind_a_variable(assignment: str, tree: Path) -> None:
    allowing = policy("ask", rule("allow", "execute", "make *"))
    assert judge(f"{assignment} make test", allowing, tree).decision is Decision.ASK
    assert judge("CI=1 LC_ALL=C make test", allowing, tree).decision is Decision.ALLOW


@pytest.mark.parametrize(
    "before", ["JAVA_HOME=/x; ", "for JAVA_HOME in /x; do :; done; ", "f() { make x; }; CC=x; f; "]
)
def test_nor_behind_a_statement_that_assigns_one(before: str, tree: Path) -> None:
    allowing = policy("ask", *(rule("allow", "execute", f"{name} *") for name in ("make", ":", "f")))
    assert judge(f"{before}make test", allowing, tree).decision is Decision.ASK
    assert judge("for f in a b; do make x; done; CI=1; make x", allowing, tree).decision is Decision.ALLOW


def test_git_asks_where_the_project_is_no_repository(tmp_path: Path) -> None:
    assert judge("git status", policy("ask"), tmp_path).decision is Decision.ASK


def test_the_files_of_a_line_that_only_reads_are_judged_as_reads(tree: Path) -> None:
    found = accesses_of("cat innocent", tree)
    assert [access.target for access in found if access.capability is Capability.READ] == ["innocent", ".env"]
    assert judge("cat README.md", policy("ask", rule("deny", "read", "README.md")), tree).decision is Decision.DENY
