import { expect, test } from "vitest";

import { GrowingMarkdown } from "../src/markdown/blocks";

const TEXT = `# Title

A paragraph that
goes on.

- one
- two

  still two

\`\`\`python
def f():

    return "# no heading"
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

> quoted

The end.`;

function sourcesOf(pieces: string[]): string[] {
  const growing = new GrowingMarkdown();
  for (const piece of pieces) growing.push(piece);
  growing.end();
  return growing.frozen.map((block) => block.source.trim());
}

test("the blocks do not depend on how the text is split into deltas", () => {
  const whole = sourcesOf([TEXT]);
  expect(whole).toHaveLength(7);
  for (const size of [1, 2, 3, 5, 7, 50]) {
    const pieces = TEXT.match(new RegExp(`[\\s\\S]{1,${size}}`, "g"))!;
    expect(sourcesOf(pieces), `pieces of ${size}`).toEqual(whole);
  }
});

test("frozen blocks keep their content and id", () => {
  const growing = new GrowingMarkdown();
  growing.push("One.\n\nTwo.");
  const [first] = growing.frozen;
  expect(first!.source.trim()).toBe("One.");
  growing.push(" goes on.\n\nThree.");
  expect(growing.frozen[0]).toBe(first);
  expect(growing.frozen.map((block) => block.id)).toEqual([0, 1]);
  expect(growing.tail.source).toBe("Three.");
});

test("an open fence is the tail, as plain code, until it is closed", () => {
  const growing = new GrowingMarkdown();
  growing.push("Look:\n\n```ts\nconst a = 1;\n\n# b");
  expect(growing.tail.fence).toEqual({ language: "ts", code: "const a = 1;\n\n# b" });
  growing.push("\n```\n\nDone.");
  expect(growing.tail.fence).toBeNull();
  expect(growing.frozen.at(-1)!.source).toContain("# b");
});

test("only a fence of the same kind closes a long fence", () => {
  const growing = new GrowingMarkdown();
  growing.push("````md\n```\ninside\n```\n");
  expect(growing.tail.fence?.code).toBe("```\ninside\n```\n");
  growing.push("````\n");
  expect(growing.tail.fence).toBeNull();
});
