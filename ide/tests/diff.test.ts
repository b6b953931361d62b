import { expect, test } from "vitest";

import { diffOf, looksUnified, parseUnified, tally } from "../src/diff/lines";

const shown = (lines: ReturnType<typeof diffOf>) =>
  lines.map((line) => `${{ same: " ", added: "+", removed: "-", hunk: "@" }[line.kind]}${line.text}`);

test("a diff of two texts keeps what is the same, with line numbers of both", () => {
  const lines = diffOf("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n");
  expect(shown(lines)).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
  expect(lines.at(-1)).toMatchObject({ old: null, new: 5 });
  expect(tally(lines)).toEqual({ added: 2, removed: 1 });
});

test("a new file is all added, one that is emptied all removed", () => {
  expect(shown(diffOf("", "a\nb"))).toEqual(["+a", "+b"]);
  expect(shown(diffOf("a\r\nb\r\n", ""))).toEqual(["-a", "-b"]);
  expect(diffOf("same", "same")).toHaveLength(1);
});

test("texts that are too large to compare are shown all the same", () => {
  const many = (letter: string) => Array.from({ length: 3000 }, (_, n) => `${letter}${n}`).join("\n");
  expect(tally(diffOf(many("a"), many("b")))).toEqual({ added: 3000, removed: 3000 });
});

test("a unified diff is read with its line numbers", () => {
  const diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@ def f():\n same\n-old\n+new\n\\ No newline at end of file\n";
  expect(looksUnified(diff)).toBe(true);
  const lines = parseUnified(diff);
  expect(shown(lines).slice(1)).toEqual([" same", "-old", "+new"]);
  expect(lines[2]).toMatchObject({ old: 4, new: null });
  expect(looksUnified("rm -rf --- a")).toBe(false);
});
