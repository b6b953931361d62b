import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from gadget_api.ids import Id
from gadget_api.model import UtcTime, WireModel, iso, utc_now
from gadget_api.users import Login

moment = TypeAdapter[datetime](UtcTime)


class Parcel(WireModel):
    id: Id = Field(alias="_id")
    sent_at: UtcTime
    weight_grams: int = Field(default=1, ge=1)


SENT = datetime(2026, 11, 21, 8, 0, 0, 123_000, UTC)


def test_json_is_camel_case_and_python_is_snake_case() -> None:
    parcel = Parcel(id="p1", sent_at=SENT)
    assert parcel.to_wire() == {"_id": "p1", "sentAt": "2026-11-21T08:00:00.123000Z", "weightGrams": 1}
    assert json.loads(parcel.model_dump_json()) == parcel.to_wire()


def test_both_names_of_a_field_are_read() -> None:
    assert Parcel.model_validate({"_id": "p1", "sentAt": SENT}) == Parcel.model_validate({"id": "p1", "sent_at": SENT})


def test_a_model_cannot_be_changed() -> None:
    parcel = Parcel(id="p1", sent_at=SENT)
    with pytest.raises(ValidationError, match="frozen"):
        parcel.weight_grams = 2  # type: ignore[misc]  # that it may not is what is tested
    assert parcel.replace(weight_grams=2).weight_grams == 2
    assert parcel.weight_grams == 1


def test_a_change_is_validated() -> None:
    with pytest.raises(ValidationError):
        Parcel(id="p1", sent_at=SENT).replace(weight_grams=0)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Parcel.model_validate({"_id": "p1", "sentAt": SENT, "colour": "red"})


def test_an_error_does_not_show_the_input() -> None:
    with pytest.raises(ValidationError) as caught:
        Login.model_validate({"email": "ada@example.org", "password": ["hunter2-secret"]})
    assert "hunter2-secret" not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        Login.model_validate({"email": "ada@example.org", "passwort": "hunter2-secret"})
    assert "hunter2-secret" not in str(caught.value)


def test_a_secret_is_not_in_the_repr_of_its_model() -> None:
    login = Login(email="ada@example.org", password=SecretStr("hunter2-secret"))
    assert "hunter2" not in repr(login)
    assert "hunter2" not in login.model_dump_json()


@pytest.mark.parametrize("text", ["2026-11-21T08:00:00", "yesterday", ""])
def test_a_time_must_have_a_zone(text: str) -> None:
    with pytest.raises(ValidationError):
        moment.validate_python(text)


@given(
    st.datetimes(min_value=datetime(1970, 1, 3), max_value=datetime(9999, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_time_is_stored_in_utc_and_whole_milliseconds(naive: datetime, offset_minutes: int) -> None:
    given_time = naive.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    kept = moment.validate_python(given_time)
    assert kept.utcoffset() == timedelta(0)
    assert kept.microsecond % 1000 == 0
    assert timedelta(0) <= given_time - kept < timedelta(milliseconds=1)
    assert moment.validate_python(kept) == kept
    assert moment.validate_python(iso(kept)) == kept


def test_utc_now_has_whole_milliseconds() -> None:
    now = utc_now()
    assert moment.validate_python(now) == now
    assert iso(SENT) == "2026-11-21T08:00:00.123Z"
