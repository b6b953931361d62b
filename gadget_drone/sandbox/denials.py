"""Says when the sandbox, not the command, said no, and what would help."""

import re

_TAIL_CHARS = 20_000

_NETWORK = re.compile(
    r"Network is unreachable|Temporary failure in name resolution|Could not resolve (?:host|proxy)|ENETUNREACH"
    r"|EAI_AGAIN|getaddrinfo|Name or service not known|nodename nor servname|dns error|failed to lookup address"
    r"|Failed to establish a new connection|No address associated with hostname",
    re.I,
)
_GIT = re.compile(
    r"could not (?:lock|write) config file"
    r"|\.git/(?:config|commondir|hooks|info|modules|worktrees)\S*.*(?:Read-only|busy|denied)",
    re.I,
)
_READ_ONLY = re.compile(r"Read-only file system|EROFS", re.I)
_NOT_PERMITTED = re.compile(r"Operation not permitted|EPERM|must be (?:superuser|root)", re.I)
_SOCKET = re.compile(
    r"(?:docker|podman|dbus|D-Bus|containerd|ssh-agent|SSH_AUTH_SOCK)\S*.{0,200}(?:No such file|connect|sock)",
    re.I | re.S,
)


def denied_by_sandbox(output: str, status: int, *, network: bool) -> str | None:
    """What to add to a failed command's answer, or None. `network`: whether the sandbox let it have the network.

    It goes by what programs say, so it says "probably"; it never fires for a command that succeeded.
    """
    if status == 0:
        return None
    tail = output[-_TAIL_CHARS:]
    if not network and _NETWORK.search(tail):
        return (
            "The sandbox, not the command, probably said no: commands have no network here. What would help: "
            "a rule `allow network *`, made by the user."
        )
    if _GIT.search(tail):
        return (
            "The sandbox, not the command, probably said no: .git/config, hooks, info, modules and worktrees are "
            "read-only. What would help: the user making the change."
        )
    if _READ_ONLY.search(tail):
        return (
            "The sandbox, not the command, probably said no: only the project, the home and /tmp can be changed. What "
            "would help: writing there, or the user switching the sandbox off for this drone."
        )
    if _SOCKET.search(tail):
        return (
            "The sandbox, not the command, probably said no: sockets (docker, D-Bus, SSH agent) are hidden. What "
            "would help: the user switching the sandbox off for this drone."
        )
    if _NOT_PERMITTED.search(tail):
        return (
            "The sandbox, not the command, probably said no: it runs without the rights of an administrator. What "
            "would help: the user running it, or switching the sandbox off for this drone."
        )
    return None
