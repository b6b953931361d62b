"""What runs without a question only reads, and reads nothing that asks: the programs themselves are the judge.

The lines are made of clustered options, attached values and files. Only those that are allowed run, on files that are
there for this alone.
"""

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gadget_api.permissions import Decision
from gadget_drone.processes.environment import child_environment
from tests.gadget_drone.permissions.conftest import EXAMPLES, judge, policy, rule

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the options of GNU programs")

CANARY = "0canary0"
SECRETS = (".env", "sub/secret.pem")
"""They ask below full."""
PROGRAMS = [
    program
    for program in (
        "grep", "egrep", "cat", "head", "tail", "wc", "cut", "sort", "uniq", "diff", "stat", "file", "date", "sed",
        "ls", "realpath", "readlink", "git log", "git status", "git branch", "git tag",
    )
    if shutil.which(program.split()[0], path="/usr/bin:/bin")
]  # fmt: skip
TAILS = [".env", "=", "x", "'touch made'", "a.txt", "5", "--", "sub/secret.pem", "made", "./run"]
LETTERS = "bcefhilnpqsuvwxz"
"""Those that many programs take, so that many of the lines are allowed and run."""
LONG = [
    "--file", "--regexp", "--files0-from", "--output", "--outp", "--reference", "--refe", "--open-files-in-pager",
    "--open", "--exclude-from", "--pre", "--compress-program", "--files-from", "--recursive", "--textconv",
    "--no-index", "--ext-diff", "--arg-file", "--follow", "--color", "--count",
]  # fmt: skip
WORDS = st.one_of(
    st.builds("-{}{}".format, st.text(LETTERS, min_size=1, max_size=3), st.sampled_from(["", "", *TAILS])),
    st.builds("{}={}".format, st.sampled_from(LONG), st.sampled_from(TAILS)),
    st.sampled_from([*LONG, *TAILS, *TAILS, "HEAD", ".", "cat", "echo", "touch", "-", "*", "{}", "s*", "HEAD:.env"]),
)
LINES = st.builds(
    lambda program, words: " ".join([program, *words]),
    st.sampled_from(PROGRAMS),
    st.lists(WORDS, min_size=1, max_size=3),
)
FOUND = [
    "grep -vexyz .env", "grep -ie= .env", "date -uf.env", "date -uf .env", "file -bf.env", "hexdump -vf.env",
    "git grep -iO'touch made' x", "git grep -O'touch made' x", "git grep --op='touch made' x",
    "xargs -tI echo touch made", "xargs -ra.env echo", "env -iu echo touch made", "time -vo echo touch made",
    "echo touch | xargs -I echo echo made", "sort -uomade a.txt", "find . -name *", "cat link*", "head -n1 l*",
    "wc --files0-from=.env", "grep -fx -r -e0 .env", "uniq a.txt made", "git branch -v made", "git stash",
    "cd sub; cat secret.pem", "tail -n1 -- .env", "env -C sub cat secret.pem", "xargs -a .env echo",
    "grep -r x deep", "X='1 touch made'; env A=1 B=$X ls",
]  # fmt: skip
"""By hand: what was found by attacks, and its like."""


class Stage:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sub").mkdir(parents=True)
        (root / "a.txt").write_text("x\na\n5\n")
        for name in SECRETS:
            (root / name).write_text(f"{CANARY}\nx=5\n")
        (root / "deep/er").mkdir(parents=True)
        (root / "deep/er/.npmrc").write_text(f"{CANARY}\nx=5\n")
        (root / "run").write_text("#!/bin/sh\ntouch made\n")
        (root / "run").chmod(0o755)
        (root / "-delete").touch()
        (root / "linked").symlink_to(".env")
        outside = root.parent / "outside"
        outside.mkdir()
        for arguments in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "x"]):
            who = ("-c", "user.name=x", "-c", "user.email=x@y.test")
            subprocess.run(["git", *who, "-C", str(root), *arguments], check=True)
        (root / "a.txt").write_text("x\nb\n5\n")
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "nobody", str(root)], check=True)
            for above in (root, *root.parents):
                if above.stat().st_uid == 0 and above != Path("/tmp"):
                    above.chmod(above.stat().st_mode | 0o055)
        self.before = self.files()

    def files(self) -> dict[str, tuple[int, int]]:
        """Sizes and times of what is there, without what git writes when it only looks."""
        places = [self.root, self.root / "sub", self.root / ".git/refs/heads", self.root / ".git/refs/tags"]
        found = [(path, path.lstat()) for place in places for path in place.iterdir() if path.is_file()]
        return {str(path): (of.st_size, of.st_mtime_ns) for path, of in found}

    def printed(self, line: str) -> str:
        environment = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.root.parent / "outside")})
        ran = subprocess.run(
            ["timeout", "-sKILL", "2", "/bin/sh", "-c", line],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user="nobody" if os.geteuid() == 0 else None,
            check=False,
        )
        return ran.stdout.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("programs") / "project")


@pytest.mark.parametrize("line", FOUND)
def test_what_was_found_asks(line: str, stage: Stage) -> None:
    assert judge(line, policy("ask"), stage.root).decision is Decision.ASK


@pytest.mark.parametrize("line", [line for line in FOUND if ".env" in line])
def test_a_denied_file_is_denied_wherever_the_line_names_it(line: str, stage: Stage) -> None:
    assert judge(line, policy("full", rule("deny", "read", ".env")), stage.root).decision is Decision.DENY


def holds(line: str, stage: Stage) -> None:
    if judge(line, policy("ask"), stage.root).decision is Decision.ALLOW:
        assert CANARY not in stage.printed(line), line
        assert stage.files() == stage.before, line


def test_what_is_allowed_only_reads_and_reads_no_secret(stage: Stage) -> None:
    @settings(max_examples=EXAMPLES * 4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(LINES)
    def in_any_line(line: str) -> None:
        holds(line, stage)

    in_any_line()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("behind", [".env", "x .env", "'touch made' x"])
def test_no_cluster_of_two_options_hides_a_value(program: str, behind: str, stage: Stage) -> None:
    for one, other in product(LETTERS, LETTERS + "O"):
        holds(f"{program} -{one}{other}{behind}", stage)
