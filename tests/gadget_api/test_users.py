import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from gadget_api.users import Email, NewPassword, Password, Registration

email = TypeAdapter[str](Email)
password = TypeAdapter[SecretStr](Password)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("ada@example.org", "ada@example.org"),
        ("Ada.Lovelace+gadget@Example.ORG", "ada.lovelace+gadget@example.org"),
        ("  ada@example.org\n", "ada@example.org"),
        ("ada@localhost", "ada@localhost"),
        ("søren@bücher.example", "søren@bücher.example"),
        ("a" * 242 + "@example.org", "a" * 242 + "@example.org"),
    ],
)
def test_an_email_is_stripped_and_in_lower_case(given: str, kept: str) -> None:
    assert email.validate_python(given) == kept
    assert email.validate_python(kept) == kept


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@b@example.org",
        "eve@example.net,ada@example.org",
        "ada lovelace@example.org",
        "ada@exam ple.org",
        "ada@example.org\nBcc: eve@example.net",
        "ada\x00@example.org",
        "ada@example.org\u202e",
        "ada\u00ad@example.org",
        "a" * 243 + "@example.org",
    ],
)
def test_an_invalid_email_is_refused(address: str) -> None:
    with pytest.raises(ValidationError):
        email.validate_python(address)


@pytest.mark.parametrize("length", [8, 9, 1024])
def test_a_password_of_8_to_1024_characters_is_accepted_unchanged(length: int) -> None:
    assert password.validate_python(" " * length).get_secret_value() == " " * length
    assert len(password.validate_python("ü" * length)) == length


@pytest.mark.parametrize("length", [0, 1, 7, 1025])
def test_a_shorter_or_longer_password_is_refused(length: int) -> None:
    with pytest.raises(ValidationError):
        password.validate_python("x" * length)


def test_the_old_password_may_be_empty_but_not_the_new_one() -> None:
    assert NewPassword.model_validate({"currentPassword": "", "newPassword": "long enough"})
    with pytest.raises(ValidationError):
        NewPassword.model_validate({"currentPassword": "long enough", "newPassword": ""})


def test_a_refused_password_is_not_in_the_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Registration.model_validate({"email": "ada@example.org", "password": "hunter2"})
    assert "hunter2" not in str(caught.value)
