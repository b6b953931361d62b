import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from gadget_api.ids import new_id


def test_an_id_has_24_hexadecimal_digits_and_starts_with_the_time() -> None:
    before = datetime.now(UTC).timestamp() * 1000
    made = new_id()
    assert re.fullmatch(r"[0-9a-f]{24}", made)
    assert before - 1 <= int(made[:12], 16) <= datetime.now(UTC).timestamp() * 1000 + 1


def test_ids_sort_in_the_order_they_were_made() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_of_many_threads_are_unique_and_sorted_within_each() -> None:
    def make(_: int) -> list[str]:
        return [new_id() for _ in range(5_000)]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    assert all(ids == sorted(ids) for ids in made)
    assert len({made_id for ids in made for made_id in ids}) == 40_000
