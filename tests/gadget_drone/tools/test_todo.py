from tests.gadget_drone.tools.conftest import Run


async def test_the_list_is_answered_as_it_is_now(run: Run) -> None:
    items = [{"text": "a\nb", "status": "done"}, {"text": "c", "status": "inProgress"}, {"text": "d"}]
    assert (await run("todo", items=items)).content == "[x] a b\n[>] c\n[ ] d\n(1 of 3 done)"
    assert (await run("todo", items=[])).content == "The list is empty."


async def test_a_list_that_is_none_is_refused(run: Run) -> None:
    assert (await run("todo", items=[{"text": "a", "status": "started"}])).is_error
    assert (await run("todo", items=[{"text": ""}])).is_error
    assert (await run("todo", items=[{"text": "a"}] * 101)).is_error
