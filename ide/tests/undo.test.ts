import { expect, test } from "vitest";

import { patchOf } from "../src/diff/hunks";
import { replaceSide, planOf, standing, undoAll } from "../src/review/undo";

/** Builds git's diff of one file from its hunks. */
const patch = (...hunks: string[]) => patchOf(`diff --git a/f b/f\n--- a/f\n+++ b/f\n${hunks.join("\n")}\n`);
const only = (...hunks: string[]) => {
  const { changes } = patch(...hunks);
  expect(changes).toHaveLength(1);
  return changes[0]!;
};
/** Undoes the new text to the old one, checks the state of both, and applies the change again. */
function goesBothWays(before: string, after: string, ...hunks: string[]) {
  const change = only(...hunks);
  expect(standing(after, change)).toBe("there");
  expect(replaceSide(after, change, "new")).toEqual({ text: before });
  expect(standing(before, change)).toBe("undone");
  expect(replaceSide(before, change, "old")).toEqual({ text: after });
  // A second undo fails.
  expect(replaceSide(before, change, "new")).toEqual({ refusal: "changed" });
  expect(replaceSide(after, change, "old")).toEqual({ refusal: "changed" });
}

test("a change in the middle, of the first line, of the last line", () => {
  goesBothWays("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c");
  goesBothWays("a\nb\n", "x\ny\nb\n", "@@ -1,2 +1,3 @@\n-a\n+x\n+y\n b");
  goesBothWays("a\nb\n", "a\n", "@@ -1,2 +1 @@\n a\n-b");
  goesBothWays("b\n", "a\nb\n", "@@ -1 +1,2 @@\n+a\n b");
  goesBothWays("a\nb\n", "b\n", "@@ -1,2 +1 @@\n-a\n b");
  goesBothWays("a\n", "a\nb\n", "@@ -1 +1,2 @@\n a\n+b");
});

test("a last line without a line break, on one side and on both", () => {
  const none = "\\ No newline at end of file";
  goesBothWays("a\nb", "a\nb\n", `@@ -1,2 +1,2 @@\n a\n-b\n${none}\n+b`);
  goesBothWays("a\nb\n", "a\nc", `@@ -1,2 +1,2 @@\n a\n-b\n+c\n${none}`);
  goesBothWays("a\nb", "a\nc", `@@ -1,2 +1,2 @@\n a\n-b\n${none}\n+c\n${none}`);
  goesBothWays("x\nb", "y\nb", `@@ -1,2 +1,2 @@\n-x\n+y\n b\n${none}`);
  // Another line follows: the old last line, without a line break, would join it.
  const change = only(`@@ -1,2 +1,2 @@\n a\n-b\n${none}\n+b`);
  expect(replaceSide("a\nb\nmore\n", change, "new")).toEqual({ refusal: "changed" });
});

test("carriage returns are part of their lines", () => {
  goesBothWays("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r");
  goesBothWays("a\r\n", "a\n", "@@ -1 +1 @@\n-a\r\n+a");
});

test("an empty file, and an emptied file", () => {
  goesBothWays("", "a\n", "@@ -0,0 +1 @@\n+a");
  goesBothWays("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b");
  const emptied = only("@@ -1,2 +0,0 @@\n-a\n-b");
  expect(replaceSide("something else\n", emptied, "new")).toEqual({ refusal: "changed" });
});

test("moved lines are found by their text, unless they are there twice or their context changed", () => {
  const change = only("@@ -1,3 +1,3 @@\n a\n-b\n+x\n c");
  expect(replaceSide("new\nnew\na\nx\nc\n", change, "new")).toEqual({ text: "new\nnew\na\nb\nc\n" });
  expect(replaceSide("0\na\nx\nc\na\nx\nc\n", change, "new")).toEqual({ refusal: "twice" });
  // The expected place wins over another match.
  expect(replaceSide("a\nx\nc\na\nx\nc\n", change, "new")).toEqual({ text: "a\nb\nc\na\nx\nc\n" });
  for (const text of ["A\nx\nc\n", "a\nx\nC\n", "a\ny\nc\n", ""]) {
    expect(replaceSide(text, change, "new")).toEqual({ refusal: "changed" });
    expect(standing(text, change)).toBe("changed");
  }
});

const TWO = "@@ -1,7 +1,8 @@\n a\n-b\n+x\n+y\n c\n d\n-e\n f\n g\n h";

test("two or more lines separate the changes of a hunk, which share them as context", () => {
  const { changes, parts } = patch(TWO);
  expect(parts.map((part) => part.kind)).toEqual(["same", "change", "same", "change", "same", "gap"]);
  const [one, other] = changes as [(typeof changes)[0], (typeof changes)[0]];
  expect([one.at, other.at]).toEqual([{ old: 1, new: 1 }, { old: 4, new: 5 }]);
  expect(one.after).toBe(other.before);
  expect(patch("@@ -1,3 +1,3 @@\n-a\n+x\n b\n-c\n+y").changes).toHaveLength(1);
});

test("overlapping changes are undone one by one in any order, and all at once", () => {
  const { changes } = patch(TWO);
  const [before, after] = ["a\nb\nc\nd\ne\nf\ng\nh\n", "a\nx\ny\nc\nd\nf\ng\nh\n"];
  for (const order of [changes, changes.toReversed()]) {
    let text = after;
    for (const change of order) {
      const result = replaceSide(text, change, "new");
      expect(result.refusal).toBeUndefined();
      text = result.refusal === undefined ? result.text : "";
    }
    expect(text).toBe(before);
  }
  expect(undoAll(after, changes)).toEqual({ text: before });
  const half = replaceSide(after, changes[0]!, "new");
  expect(undoAll(half.refusal === undefined ? half.text : "", changes)).toEqual({ text: before });
  expect(undoAll("a\nx\ny\nc\nd\nF\ng\nh\n", changes)).toEqual({ refusal: "changed" });
});

test("an added file is deleted, unless it changed since", () => {
  const came = patchOf("diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
  const file = { path: "f", status: "added" };
  expect(planOf(file, came, "a\nb\n")).toEqual({ act: "delete" });
  expect(planOf(file, came, "a\nb\nc\n")).toEqual({ act: "refuse", refusal: "changed" });
  expect(planOf(file, came, null)).toEqual({ act: "nothing" });
  const empty = patchOf("diff --git a/f b/f\nnew file mode 100644\n");
  expect(planOf(file, empty, "")).toEqual({ act: "delete" });
  expect(planOf(file, empty, "x")).toEqual({ act: "refuse", refusal: "changed" });
});

test("a deleted file is written again, unless another file is there", () => {
  const went = patchOf("diff --git a/f b/f\ndeleted file mode 100755\n--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n");
  const file = { path: "f", status: "deleted" };
  expect(went.mode).toEqual({ old: "100755", new: null });
  expect(planOf(file, went, null)).toEqual({ act: "create", text: "a\nb\n" });
  expect(planOf(file, went, "a\nb\n")).toEqual({ act: "nothing" });
  expect(planOf(file, went, "other\n")).toEqual({ act: "refuse", refusal: "there" });
  expect(planOf(file, patchOf("deleted file mode 100644\n"), null)).toEqual({ act: "create", text: "" });
});

test("a renamed file gets its name and lines back, and a symlink stays", () => {
  const moved = patch("@@ -1,2 +1,2 @@\n a\n-b\n+c");
  const file = { path: "new", oldPath: "old", status: "renamed" };
  expect(planOf(file, moved, "a\nc\n")).toEqual({ act: "rename", to: "old", text: "a\nb\n" });
  expect(planOf(file, patchOf(""), "a\n")).toEqual({ act: "rename", to: "old", text: "a\n" });
  expect(planOf(file, moved, null)).toEqual({ act: "refuse", refusal: "gone" });
  const link = patchOf("new file mode 120000\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n");
  expect(planOf({ path: "f", status: "added" }, link, "target")).toEqual({ act: "refuse", refusal: "symlink" });
  expect(planOf({ path: "f", status: "modified" }, patchOf("old mode 100644\nnew mode 100755\n"), "x")).toEqual({
    act: "refuse",
    refusal: "kind",
  });
});
