/// <reference types="vite/client" />
/** Svelte fails if two keys of an `each` are equal. Labels, names, texts and paths can be equal, so a key is an id, the
 * object itself, a position, or a constant of the page. */
import { expect, test } from "vitest";

/** The ids of models and images are not unique in a list. */
const IDS = /^(?!model\.|image\.).*\.(_id|id|key|steerId|command|part|first)$|^promptOf\(turn\)$/;
const POSITIONS = /^(n|k|side)$/;
/** These keys are the object itself, or a constant in the source of the page. */
const THEMSELVES = /^(file|image|model|one|key|value|level|page)$/;

const sources = import.meta.glob<string>("../src/**/*.svelte", { query: "?raw", import: "default", eager: true });
const keys = Object.entries(sources).flatMap(([path, source]) =>
  [...source.matchAll(/\{#each [^}]*? as .*? \(([^{}]*?)\)\}/g)].map((found) => ({ path, key: found[1]! })),
);

test("every keyed each has unique keys", () => {
  expect(keys.length).toBeGreaterThan(40);
  const known = [IDS, POSITIONS, THEMSELVES];
  expect(keys.filter(({ key }) => !known.some((kind) => kind.test(key)))).toEqual([]);
});
