"""A git repository of many small files, the same every time.

python -m benchmarks.repository DIR [--files N]
"""

import argparse
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

FILES = 50_000
QUICK_FILES = 1_000
RARE = "needle_in_the_haystack"
"""In ten files, whatever their number."""
COMMON = "return value"
"""In about every second file."""
_IN_A_DIRECTORY = 100


def make_repository(directory: Path, *, files: int = FILES) -> list[Path]:
    """Fills `directory` and commits it; its files, each of 0.2 to 8 kB of what looks like source."""
    chance = random.Random(50)
    words = [f"name{number}" for number in range(400)]
    made = []
    for number in range(files):
        folder = number // _IN_A_DIRECTORY
        path = directory / f"part{folder // 20}" / f"module{folder % 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            f"    {chance.choice(words)} = {chance.choice(words)}({number})" for _ in range(chance.randrange(5, 200))
        ]
        if chance.random() < 0.5:
            lines.append(f"    {COMMON}")
        if number % max(files // 10, 1) == 0:
            lines.append(f"    {RARE}()")
        path.write_text("\n".join([f"def function{number}(value):", *lines, ""]))
        made.append(path)
    (directory / ".gitignore").write_text("*.log\nbuild/\n")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "All")):
        subprocess.run(["git", *identity, *command], cwd=directory, check=True)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=FILES)
    given = parser.parse_args(arguments)
    given.directory.mkdir(parents=True)
    make_repository(given.directory, files=given.files)


if __name__ == "__main__":
    main()
