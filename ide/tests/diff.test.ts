import { expect, test } from "vitest";

import { diffOf, parsePatch, parseUnified, tally } from "../src/diff/lines";

const shown = (lines: ReturnType<typeof diffOf>) =>
  lines.map((line) => `${{ same: " ", added: "+", removed: "-", hunk: "@" }[line.kind]}${line.text}`);

test("a diff of two texts has unchanged lines, with both line numbers", () => {
  const lines = diffOf("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n");
  expect(shown(lines)).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
  expect(lines.at(-1)).toMatchObject({ old: null, new: 5 });
  expect(tally(lines)).toEqual({ added: 2, removed: 1 });
});

test("a new file has only added lines, an emptied file only removed lines", () => {
  expect(shown(diffOf("", "a\nb"))).toEqual(["+a", "+b"]);
  expect(shown(diffOf("a\r\nb\r\n", ""))).toEqual(["-a", "-b"]);
  expect(diffOf("same", "same")).toHaveLength(1);
});

test("texts that are too large to compare are shown completely", () => {
  const many = (letter: string) => Array.from({ length: 3000 }, (_, n) => `${letter}${n}`).join("\n");
  expect(tally(diffOf(many("a"), many("b")))).toEqual({ added: 3000, removed: 3000 });
});

const UNIFIED = `diff --git a/f b/f
--- a/f
+++ b/f
@@ -3,2 +3,2 @@ def f():
 same
--- old
+new
\\ No newline at end of file
--- a/g
+++ b/g
@@ -0,0 +1 @@
+first
`;

test("a unified diff is parsed with its line numbers, and no line is lost", () => {
  const lines = parseUnified(UNIFIED);
  expect(shown(lines.slice(3, 7))).toEqual(["@@@ -3,2 +3,2 @@ def f():", " same", "--- old", "+new"]);
  expect(lines[5]).toMatchObject({ old: 4, new: null });
  expect(lines).toHaveLength(UNIFIED.trim().split("\n").length);
});

test("a line with an unknown sign is shown unchanged, in a hunk and after it", () => {
  const strange = ["\\touch HIDDEN", "touch HIDDEN", "\\ No newline at end of file; touch HIDDEN"];
  for (const counts of ["-1 +1", "-1,9 +1,9"]) {
    const diff = ["git apply <<'X'", "--- a/f", "+++ b/f", `@@ ${counts} @@`, "-old", "+new", ...strange, "X", ""].join("\n");
    const lines = parseUnified(diff);
    expect(lines.slice(-4)).toMatchObject([...strange, "X"].map((text) => ({ kind: "hunk", text })));
    expect(lines).toHaveLength(10);
  }
});

test("a patch is parsed by file, in both formats", () => {
  expect(parsePatch(UNIFIED).map((file) => [file.path, tally(file.lines)])).toEqual([
    ["f", { added: 1, removed: 1 }],
    ["g", { added: 1, removed: 0 }],
  ]);
  const patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n context\n-old\n+new\n*** Add File: b.py\n+line\n*** End Patch\n";
  const files = parsePatch(patch);
  expect(files.map((file) => file.path)).toEqual(["a.py", "b.py"]);
  expect(shown(files[0]!.lines)).toEqual(["@@@ def f():", " context", "-old", "+new"]);
  expect(shown(files[1]!.lines)).toEqual(["+line"]);
});
