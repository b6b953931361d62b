"""Files that drones have written stay readable: each shape that was ever released is a golden file here."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from gadget_api.model import WireModel
from gadget_api.workspace_files import WORKSPACE_VERSION, WorkOrderFile, WorkspaceFile

GOLDEN = Path(__file__).with_name("golden")


def kind_of(path: Path) -> type[WireModel]:
    return WorkspaceFile if path.name.startswith("workspace-") else WorkOrderFile


def golden_files() -> list[Path]:
    return sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("path", golden_files(), ids=lambda path: path.stem)
def test_a_golden_file_is_read_without_loss(path: Path) -> None:
    written = json.loads(path.read_text())
    assert kind_of(path).model_validate(written).to_wire() == written


def test_each_kind_of_file_has_a_golden_file_of_the_current_version() -> None:
    names = {path.stem for path in golden_files()}
    assert {f"workspace-{WORKSPACE_VERSION}", f"work-order-{WORKSPACE_VERSION}"} <= names


def test_the_golden_workspace_shows_every_field() -> None:
    file = WorkspaceFile.model_validate_json((GOLDEN / f"workspace-{WORKSPACE_VERSION}.json").read_text())
    assert all(value not in (None, ()) for _, value in file)
    assert file.chat_session is not None
    assert file.chat_session.name == "Mend the parser"
    assert file.projects[0].slug == "parser"


def test_the_files_have_the_fields_of_the_contract() -> None:
    workspace = {field.alias for field in WorkspaceFile.model_fields.values()}
    assert workspace == {
        "version",
        "workspaceId",
        "createdAt",
        "hostname",
        "workspaceDir",
        "chatSession",
        "lockedProject",
        "projects",
        "registration",
    }
    order = {field.alias for field in WorkOrderFile.model_fields.values()}
    assert order == {
        "turnId",
        "chatSessionId",
        "projectId",
        "workOrderId",
        "receivedAt",
        "prompt",
        "status",
        "error",
    }


def test_a_work_order_on_disk_has_no_field_for_a_key() -> None:
    written = json.loads((GOLDEN / "work-order-1.json").read_text())
    with pytest.raises(ValidationError):
        WorkOrderFile.model_validate({**written, "apiKey": "sk-hunter2"})
    with pytest.raises(ValidationError):
        WorkOrderFile.model_validate({**written, "provider": {"apiKey": "sk-hunter2"}})


@pytest.mark.parametrize("missing", ["workspaceId", "createdAt", "hostname", "workspaceDir"])
def test_a_workspace_file_without_its_required_fields_is_refused(missing: str) -> None:
    written = json.loads((GOLDEN / "workspace-1.json").read_text())
    del written[missing]
    with pytest.raises(ValidationError):
        WorkspaceFile.model_validate(written)
