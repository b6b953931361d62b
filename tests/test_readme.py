"""What README and docs/ say can be done: their command lines parse, their links lead somewhere, and the demo works.

A block of README that a test runs has a comment before it: `<!-- test: NAME -->`.
"""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from benchmarks.proc import tree
from gadget_code import cli as web_cli
from gadget_drone import cli as drone_cli
from tests.harness import DEMO_S, STOP_S, Process, clean_environment, wait_for_sync

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
PARSERS: dict[str, ArgumentParser] = {"gadget-code": web_cli._parser(), "gadget-drone": drone_cli._parser()}

_SEPARATORS = "();<>|&\n"
_GONE_S = 5.0
_PROMPT_S = 60.0
with_a_demo = pytest.mark.timeout(DEMO_S + _PROMPT_S + 2 * STOP_S + 30)  # more than all that is waited for


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def marked(name: str) -> str:
    """The block of README that a test runs under this name."""
    found = re.search(rf"^<!-- test: {name} -->\n```sh\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"README marks no block `test: {name}`"
    return found[1]


def commands(block: str) -> Iterator[list[str]]:
    """The simple commands of a block of shell, without redirections, variables before them, and here-documents."""
    block = re.sub(r"<<'(\w+)'\n.*?\n\1\n", "\n", block, flags=re.DOTALL)
    block = re.sub(r"(^|\s)# .*$", r"\1", block, flags=re.MULTILINE).replace("\\\n", " ")
    lexer = shlex.shlex(block, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for token in [*lexer, "\n"]:
        if token.strip(_SEPARATORS):
            words.append(token)
            continue
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        if words:
            yield words
        words = []


def ours(words: list[str]) -> tuple[str, list[str]] | None:
    """The program of ours that a command starts, and its arguments; None when it starts another."""
    if words[:3] == ["docker", "compose", "exec"]:
        service, *words = [word for word in words[3:] if not word.startswith("-")][:1] + words[3:]
        assert service in yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        words = words[words.index(service) + 1 :]
    if words[0] == "scripts/run":
        arguments = words[1:]
        workspace = ["--workspace", arguments.pop(0)] if arguments and not arguments[0].startswith("-") else []
        return "gadget-code", ["up", *workspace, *arguments]
    name = words[0].rpartition("/")[2]
    return (name, words[1:]) if name in PARSERS else None


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_command_line_of_ours_is_one_that_its_program_takes(page: Path) -> None:
    for block in blocks(page.read_text(), "sh"):
        for words in commands(block):
            if (found := ours(words)) is not None:
                program, arguments = found
                try:
                    PARSERS[program].parse_args(arguments)
                except SystemExit as end:
                    assert end.code == 0, f"{program} does not take {arguments}"  # noqa: PT017  (0 is --help)
            elif words[0].startswith(("scripts/", ".ci/")):
                assert (ROOT / words[0]).is_file(), words


def test_the_commands_of_the_readme_are_found() -> None:
    found = [ours(words) for block in blocks(README.read_text(), "sh") for words in commands(block)]
    verbs = {command[1][0] for command in found if command is not None and command[0] == "gadget-code"}
    assert {"up", "prompt", "provider", "project", "user", "serve"} <= verbs
    assert "gadget-drone" in {command[0] for command in found if command is not None}


def vocabulary(parser: ArgumentParser) -> tuple[set[str], set[str]]:
    """Every command and every option of a program, whatever belongs to which."""
    verbs: set[str] = set()
    options: set[str] = set()
    for action in parser._actions:
        options.update(action.option_strings)
        if isinstance(action, _SubParsersAction):
            for verb, inner in action.choices.items():
                inner_verbs, inner_options = vocabulary(inner)
                verbs |= {verb} | inner_verbs
                options |= inner_options
    return verbs, options


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_within_sentences_exist(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for program, rest in re.findall(r"`(gadget-code|gadget-drone)((?: [^`]*)?)`", prose):
        verbs, options = vocabulary(PARSERS[program])
        words = rest.split()
        assert {word for word in words if word.startswith("--")} <= options, rest
        if words and not words[0].startswith("-"):
            assert words[0] in verbs, rest


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_shell_block_is_a_shell_script(page: Path) -> None:
    for block in blocks(page.read_text(), "sh"):
        checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, timeout=10)
        assert checked.returncode == 0, checked.stderr + block


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_file_and_its_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:\s]+)[^)]*\)", page.read_text())
        waiting += [(page.parent / link).resolve() for link in links]
    assert [name_of(page) for page in PAGES if page not in reached] == []


def test_the_pages_name_only_settings_that_exist() -> None:
    reference = (ROOT / "docs/reference/settings.md").read_text()
    for page in WRITTEN:
        for name in re.findall(r"\bGADGET_[A-Z_]+\b", page.read_text()):
            assert f"`{name}`" in reference, f"{name_of(page)}: {name}"


def test_the_written_list_of_routes_without_a_token_is_the_one_of_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `([^`]+)`[^|]*\| anyone \|", (ROOT / "docs/reference/rest.md").read_text(), re.MULTILINE
    )
    section = (ROOT / "docs/explanation/security.md").read_text()
    written = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]+)`", section.partition("| without a token |")[2])
    allowed = {(method, path) for method, path in written if path != "/metrics"}
    assert allowed == set(rows)


def still_there(pids: set[int]) -> set[int]:
    """Those that do not end within a few seconds."""
    pause = threading.Event()
    for _ in range(int(_GONE_S / 0.05)):
        pids = {pid for pid in pids if Path(f"/proc/{pid}").exists()}
        if not pids:
            break
        pause.wait(0.05)
    return pids


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The scripts as in a checkout whose environment is ready: they must not install anything."""
    home = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", home / "scripts")
    shutil.copy(ROOT / "pyproject.toml", home)
    shutil.copytree(ROOT / "requirements", home / "requirements")
    (home / ".venv").mkdir()
    (home / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    stamp = re.search(r'stamp="\$extras \$\(python3 -c \'(.+)\'\)"', (home / "scripts/environment").read_text())
    assert stamp is not None
    version = subprocess.run(["python3", "-c", stamp[1]], cwd=home, capture_output=True, text=True, check=True)
    (home / ".venv" / ".gadget-stamp").write_text(f"test {version.stdout.strip()}\n")
    return home


@pytest.fixture
def demo(checkout: Path, tmp_path: Path) -> Iterator[Process]:
    """README's demo, with its turn at an end."""
    program, *arguments = next(commands(marked("demo")))
    assert (program, arguments) == ("scripts/run", ["--demo"])
    env = clean_environment(
        GADGET_DATA_DIR=str(tmp_path / "data"), XDG_CONFIG_HOME=str(tmp_path / "config"), PIP_NO_INDEX="1"
    )
    command = [str(checkout / program), *arguments, "--no-browser", "--port", "0"]
    process = Process(command, env, tmp_path / "demo.log", cwd=checkout).start()
    try:
        wait_for_sync(
            lambda: re.search("That was the demo", process.output), lambda: process.has_ended, process.log, DEMO_S
        )
        yield process
    finally:
        process.stop()


def shown(line: str) -> re.Pattern[str]:
    """A line of README's output as it may really be: another number, and anything for an ellipsis."""
    parts = [re.sub(r"\d[\d.,]*", lambda _: r"[\d.,]+", re.escape(part)) for part in line.split("…")]
    return re.compile(".*".join(parts))


def ended_cleanly(process: Process, number: signal.Signals) -> None:
    started = set(tree(process.pid)[1:])
    assert len(started) >= 3 or sys.platform != "linux"  # mongod, the model, the drone
    process.signal(number)
    assert process.wait(20) == 0, process.output
    assert still_there(started) == set()
    assert "Traceback" not in process.output


@with_a_demo
def test_the_demo_shows_what_the_readme_says_takes_a_prompt_and_ends(demo: Process) -> None:
    assert "Installing" not in demo.output
    output = next(block for block in blocks(README.read_text(), "text") if "gadget-code prompt" in block)
    for line in filter(None, output.splitlines()):
        assert shown(line).search(demo.output.replace("\\[", "[")), line
    program, *arguments = next(commands(marked("prompt")))
    asked = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        env=demo.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PROMPT_S,
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert re.search(r"^finished in .*: 3 tool calls", asked.stdout, re.MULTILINE), asked.stdout
    ended_cleanly(demo, signal.SIGTERM)


@with_a_demo
def test_ctrl_c_after_the_demos_turn_ends_everything(demo: Process) -> None:
    ended_cleanly(demo, signal.SIGINT)
