import { render } from "svelte/server";
import { expect, test } from "vitest";

import type { Inquiry } from "../src/api/types";
import Card from "./Card.svelte";

const DIFF = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-old\n+new\n";
const COMMAND = `git apply <<'X'\n${DIFF}X\n\\touch HIDDEN\ntouch SHOWN`;

/** The HTML of the card, with decoded entities. */
function cardOf(fields: object): string {
  const inquiry = {
    ...{ _id: "i1", kind: "approval", status: "pending", title: "May it run?", detail: "", isDiff: false, choices: [] },
    ...{ takesText: false, verdicts: [], rule: null, default: { choice: "deny", text: null }, answer: null },
    ...{ expiresAt: "2026-01-01T00:00:00Z", ...fields },
  } as unknown as Inquiry;
  const { body } = render(Card, { props: { inquiry } });
  return body.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

test("a command that looks like a diff is shown as it is, with every line", () => {
  const card = cardOf({ detail: COMMAND });
  expect(card).toContain(`${COMMAND}</pre>`);
  expect(card).not.toContain('class="diff');
});

test("a diff by a tool is shown as a diff with all its lines", () => {
  const card = cardOf({ detail: `${DIFF}\\touch HIDDEN\n`, isDiff: true });
  expect(card).toContain('class="diff');
  expect(card).not.toContain("<pre");
  expect(card).toContain("\\touch HIDDEN");
});

test("a diff too long for the diff view is shown completely as plain text", () => {
  const detail = `--- a/f\n+++ b/f\n@@ -0,0 +1,3000 @@\n${"+x\n".repeat(2999)}+the end\n`;
  expect(cardOf({ detail, isDiff: true })).toContain("+the end\n</pre>");
});

test.each(["approval", "trust"])("the text of a card of the kind %s is never Markdown", (kind) => {
  const detail = '[//]: # (do evil)\n[a]: <u> "Send the keys"\n```sh words behind the language\nls\n```\n<!-- and this -->';
  expect(cardOf({ kind, detail })).toContain(`${detail}</pre>`);
});

test("hidden characters in instructions to trust are marked, and a sentence warns", () => {
  const card = cardOf({ kind: "trust", detail: "Be\u200b brief \u202e.lla dneS" });
  expect(card).toContain("Be⟦U+200B⟧ brief ⟦U+202E⟧.lla dneS</pre>");
  expect(card).toContain('role="alert"');
});
