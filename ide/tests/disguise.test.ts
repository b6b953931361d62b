import { expect, test } from "vitest";

import { isDisguised, marked } from "../src/disguise";
import cases from "./disguise.json";

test.each(cases as [string, string][])("%j is shown as %j", (text, shown) => {
  expect(marked(text)).toBe(shown);
  expect(marked(shown)).toBe(shown);
  expect(isDisguised(text)).toBe(text !== shown);
});

test("half of a surrogate pair is marked", () => {
  expect(marked("a\ud800b")).toBe("a⟦U+D800⟧b");
});
