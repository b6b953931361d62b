import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gadget_api.projects import NewProject, ProjectChanges, is_local_git_url, is_remote_git_url


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/psf/requests",
        "https://github.com/psf/requests.git",
        "https://git.example.org:8443/team/sub/project.git",
        "https://git.example.org/~ada/project",
        "https://git.example.org/projet-été.git",
        "https://192.0.2.7/project.git",
        "https://[2001:db8::7]:8443/project.git",
        "HTTPS://git.example.org/project",
        "ssh://git@git.example.org/project.git",
        "ssh://git@git.example.org:2222/project.git",
        "ssh://git.example.org/srv/git/project.git",
        "git@github.com:psf/requests.git",
        "git@git.example.org:/srv/git/project.git",
        "git@git.example.org:~ada/project.git",
        "first.last_2@host-1.example.org:project",
    ],
)
def test_a_remote_repository_is_accepted(url: str) -> None:
    assert is_remote_git_url(url)
    assert not is_local_git_url(url)
    assert NewProject(name="P", slug="p", git_url=url).git_url == url


@pytest.mark.parametrize("url", ["/srv/git/project.git", "/srv/git/prøject", "file:///srv/git/project.git"])
def test_a_local_repository_is_recognised(url: str) -> None:
    assert is_local_git_url(url)
    assert not is_remote_git_url(url)
    assert NewProject(name="P", slug="p", git_url=url).git_url == url


@pytest.mark.parametrize(
    "url",
    [
        # runs a program, or another helper of git's
        "ext::sh -c 'touch /tmp/x'",
        "ext::sh",
        "ext::https://git.example.org/project",
        "fd::17/project",
        "git@host:ext::x",
        "transport::address",
        # an option instead of an address
        "--upload-pack=touch",
        "-oProxyCommand=touch@host:project",
        "-u@host:project",
        "git@-oProxyCommand=touch:project",
        "git@host:-project",
        "ssh://-oProxyCommand=touch/project",
        "ssh://-oProxyCommand=touch@host/project",
        "ssh://git@-host/project",
        "https://-host/project",
        # a password, or a name that is one
        "https://ada:secret@git.example.org/project",
        "https://token@git.example.org/project",
        "https://:secret@git.example.org/project",
        "https://@git.example.org/project",
        "ssh://git:secret@git.example.org/project",
        "ssh://git:@git.example.org/project",
        # a user that ssh would hand to a shell
        "ssh://$(touch)@host/project",
        "ssh://a;b@host/project",
        "ssh://a`b`@host/project",
        "ssh://git%0a@host/project",
        "ssh://a@b@host/project",
        "$(touch)@host:project",
        # a host that is none
        "https://host;touch/project",
        "https://host%2f/project",
        "https://host\\@elsewhere/project",
        "https://hôte.example.org/project",
        "https:///project",
        "https:project",
        "https://host:/project",
        "https://host:99999/project",
        "https://host:-1/project",
        "https://host:port/project",
        "https://[2001:db8::7/project",
        "ssh://[fe80::1%25eth0]/project",
        # no repository
        "",
        "https://host",
        "https://host/",
        "host:project",
        "project",
        "../project",
        "./project",
        "~/project",
        # not encrypted, or not known
        "http://git.example.org/project",
        "git://git.example.org/project",
        "ftp://git.example.org/project",
        "file://host/project",
        "file:project",
        # more than is seen
        "https://host/project\n",
        "https://host/project\r\nHost: elsewhere",
        "https://host/pro\tject",
        "https://host/pro ject",
        " https://host/project",
        "https://host/project\x00",
        "https://host/project\x7f",
        "https://host/project\x1b[2J",
        "https://host/project\u00a0",
        "https://host/project\u2028",
        "https://host/\u202egpj.tcejorp",
        "https://host/\u200bproject",
        "git@host:project\n",
        "git@host:pro\u202eject",
        "/srv/git/project\n",
        "/srv/git/\u202eproject",
        "/srv/git/pro\x00ject",
        "https://host/" + "a" * 2000,
        "/" + "a" * 2000,
    ],
)
def test_an_unclear_git_url_is_refused(url: str) -> None:
    assert not is_remote_git_url(url)
    assert not is_local_git_url(url)
    with pytest.raises(ValidationError, match="must be https://host/path"):
        NewProject(name="P", slug="p", git_url=url)
    with pytest.raises(ValidationError):
        ProjectChanges(git_url=url)


@given(st.text())
def test_an_accepted_git_url_is_one_printable_line(url: str) -> None:
    if is_remote_git_url(url) or is_local_git_url(url):
        assert url.isprintable()
        assert not url.startswith("-")
        assert "::" not in url.partition("/")[0]


@given(
    st.sampled_from(["https://", "ssh://git@", "git@", "/", "file:///"]),
    st.sampled_from(["\n", "\r", "\t", "\0", " ", "\u202e", "\u2066", "\ufeff", "\ud800"]),
    st.text(max_size=10),
    st.text(max_size=10),
)
def test_a_blank_is_refused_anywhere_in_a_git_url(start: str, hidden: str, before: str, after: str) -> None:
    url = f"{start}{before}{hidden}{after}"
    assert not is_remote_git_url(url)
    assert not is_local_git_url(url)


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(ValidationError) as caught:
        NewProject(name="P", slug="p", git_url="https://ada:hunter2@git.example.org/project")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("slug", ["a", "7", "gadget-code", "my_project.v2", "a..b", "x" * 100])
def test_a_slug_names_a_directory(slug: str) -> None:
    assert NewProject(name="P", slug=slug, git_url="https://host/project").slug == slug


@pytest.mark.parametrize(
    "slug",
    ["", ".", "..", ".git", ".gadget", "-rf", "_x", "a/b", "../a", "a\\b", "A", "ä", "a b", "a\n", "a\0", "x" * 101],
)
def test_a_slug_cannot_lead_out_of_the_workspace_or_hide_in_it(slug: str) -> None:
    with pytest.raises(ValidationError):
        NewProject(name="P", slug=slug, git_url="https://host/project")


@given(st.text(max_size=20))
def test_an_accepted_slug_is_one_visible_path_component(slug: str) -> None:
    try:
        NewProject(name="P", slug=slug, git_url="https://host/project")
    except ValidationError:
        return
    assert slug.isascii()
    assert slug.isprintable()
    assert not {"/", "\\", "\0"} & set(slug)
    assert not slug.startswith((".", "-"))


@pytest.mark.parametrize("name", ["", "   ", "\n", "x" * 201])
def test_a_project_has_a_name_that_can_be_read(name: str) -> None:
    with pytest.raises(ValidationError):
        NewProject(name=name, slug="p", git_url="https://host/project")


def test_a_name_is_stripped() -> None:
    assert NewProject(name="  Gadget Code \n", slug="p", git_url="https://host/project").name == "Gadget Code"
