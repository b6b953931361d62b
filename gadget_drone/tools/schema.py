"""The JSON Schema of a tool's arguments, as short as it can be: every model call pays for it.

No titles, no `$ref` (some servers of local models do not follow them), no "or null" where leaving out says the same.
"""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def compact_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Raises TypeError where a model contains itself."""
    schema = arguments.model_json_schema(schema_generator=_Untitled)
    definitions: dict[str, Any] = schema.pop("$defs", {})
    compacted: dict[str, Any] = _compact(schema, definitions, ())
    return compacted


def _compact(part: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(part, list):
        return [_compact(item, definitions, within) for item in part]
    if not isinstance(part, dict):
        return part
    if (reference := part.get("$ref")) is not None:
        name = reference.removeprefix("#/$defs/")
        if name in within:
            raise TypeError(f"the arguments of a tool cannot contain themselves, as {name} does")
        rest = {key: value for key, value in part.items() if key != "$ref"}
        return _compact(definitions[name] | rest, definitions, (*within, name))
    if part.get("default", ...) is None and len(others := _not_null(part.get("anyOf", ()))) == 1:
        rest = {key: value for key, value in part.items() if key not in ("anyOf", "default")}
        return _compact(others[0] | rest, definitions, within)
    return {
        # Below "properties" the keys are names that somebody chose: "title" may be one of them.
        key: {name: _compact(value[name], definitions, within) for name in value}
        if key == "properties"
        else _compact(value, definitions, within)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str))
    }


def _not_null(options: Any) -> list[Any]:
    return [option for option in options if option != {"type": "null"}]
