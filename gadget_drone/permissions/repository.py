"""The rules that a repository brings in `.gadget.json`: `{"rules": [{"decision": "deny", "capability": "read"}]}`."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gadget_api.model import WireModel
from gadget_api.permissions import Rules
from gadget_drone.disk.confined import open_file
from gadget_drone.errors import ToolError

FILE = ".gadget.json"
MAX_BYTES = 256 * 1024


class _File(WireModel):
    rules: Rules = ()


@dataclass(frozen=True)
class RepositoryRules:
    rules: Rules = ()
    error: str | None = None
    """Why the file does not count, in one sentence; none of its rules does then."""


def repository_rules(project_dir: Path) -> RepositoryRules:
    """What `.gadget.json` says; nothing when there is none. Blocks. They count once the user has trusted them."""
    try:
        with open_file(project_dir, FILE) as file:
            data = file.read(MAX_BYTES + 1)
    except ToolError as error:
        is_missing = isinstance(error.__cause__, FileNotFoundError)
        return RepositoryRules() if is_missing else RepositoryRules(error=f"{FILE} cannot be read: {error.message}")
    if len(data) > MAX_BYTES:
        return RepositoryRules(error=f"{FILE} is larger than {MAX_BYTES // 1024} KiB: make it smaller.")
    try:
        found = _File.model_validate(json.loads(data))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return RepositoryRules(error=f"{FILE} is not JSON: correct it.")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return RepositoryRules(error=f"{FILE} is not as it should be at {where}: {first['msg']}.")
    return RepositoryRules(found.rules)
