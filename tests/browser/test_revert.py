"""Going back to before a prompt, and forward again, in the page: what it would do first, then the files on the drone's
disk and the conversation."""

from playwright.sync_api import Route, expect

from tests.browser.test_conversation import log_of
from tests.browser.test_review import AFTER, BEFORE, OpenPage, Site
from tests.browser.test_review import site as site


def test_a_prompt_is_taken_back_with_its_files_and_both_come_again(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    expect(log_of(page)).to_contain_text("Changed.")
    assert site.text("app.py") == AFTER
    page.get_by_role("button", name="Go back to before this prompt").click()
    ask = page.get_by_role("dialog", name="Go back to before this prompt?")
    expect(ask.get_by_text("app.py", exact=True)).to_be_visible()
    expect(ask.get_by_text("sub/new.py", exact=True)).to_be_visible()
    assert site.text("app.py") == AFTER, "a preview changes nothing"
    ask.get_by_role("button", name="Go back", exact=True).click()
    expect(ask).to_be_hidden()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("Change things.")
    assert site.text("app.py") == BEFORE
    assert not (site.project / "sub" / "new.py").exists()
    assert site.text("gone.txt") == "one\r\ntwo"
    page.get_by_role("button", name="Bring back").click()
    expect(page.get_by_role("button", name="Bring back")).to_be_hidden()
    assert site.text("app.py") == AFTER
    assert site.text("sub/new.py") == "fresh\n"
    assert not (site.project / "gone.txt").exists()


def test_the_files_alone_are_taken_back(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    page.get_by_role("button", name="Go back to before this prompt").click()
    ask = page.get_by_role("dialog", name="Go back to before this prompt?")
    ask.get_by_label("Take back").select_option("files")
    expect(ask.get_by_text("app.py", exact=True)).to_be_visible()
    ask.get_by_role("button", name="Go back", exact=True).click()
    expect(ask).to_be_hidden()
    assert site.text("app.py") == BEFORE
    expect(log_of(page)).to_contain_text("Changed.")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("")


def test_what_it_would_do_is_of_the_scope_that_is_chosen(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.user, site.path)
    held: list[Route] = []
    page.route("**/revert", lambda route: held.append(route), times=1)
    page.get_by_role("button", name="Go back to before this prompt").click()
    ask = page.get_by_role("dialog", name="Go back to before this prompt?")
    ask.get_by_label("Take back").select_option("conversation")
    expect(ask.get_by_role("button", name="Go back", exact=True)).to_be_enabled()
    with page.expect_response("**/revert") as late:
        held.pop().continue_()
    late.value.finished()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(ask.get_by_text("app.py", exact=True)).to_be_hidden()
