"""What calls reach that more than one tool reaches."""

from gadget_api.permissions import Access, Capability


def reads_path(path: str, **_: object) -> list[Access]:
    """Of a tool that reads the file, or what is in the directory, at its argument `path`."""
    return [Access(capability=Capability.READ, target=path)]


def reaches_nothing(**_: object) -> list[Access]:
    """Of a tool that reaches nothing but the user and the model."""
    return []
