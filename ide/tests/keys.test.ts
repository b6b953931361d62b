/// <reference types="vite/client" />
/** Svelte fails a part of the page when two keys of one `each` are equal. Labels, names, texts and paths can be equal:
 * the key is an id, the object itself, a position, or a constant of the page. */
import { expect, test } from "vitest";

/** Models and images are named by what they are, so a list can hold the same one twice. */
const IDS = /^(?!model\.|image\.).*\.(_id|id|key|steerId|command|part|first)$|^promptOf\(turn\)$/;
const POSITIONS = /^(n|k|side)$/;
/** Each is the object itself, or one of a list that is written in the page's own source. */
const THEMSELVES = /^(file|image|model|one|key|value|level|page)$/;

const sources = import.meta.glob<string>("../src/**/*.svelte", { query: "?raw", import: "default", eager: true });
const keys = Object.entries(sources).flatMap(([path, source]) =>
  [...source.matchAll(/\{#each [^}]*? as .*? \(([^{}]*?)\)\}/g)].map((found) => ({ path, key: found[1]! })),
);

test("every keyed each has a key that only one entry can have", () => {
  expect(keys.length).toBeGreaterThan(40);
  const known = [IDS, POSITIONS, THEMSELVES];
  expect(keys.filter(({ key }) => !known.some((kind) => kind.test(key)))).toEqual([]);
});
