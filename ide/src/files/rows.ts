/** The changed files as a flat list of rows, by path. It can take the place of the tree. */
import type { Row } from "./tree.svelte";

export type Listed = Row;

export function changedRows(changed: ReadonlyMap<string, string>): Listed[] {
  const paths = [...changed.keys()].sort();
  return paths.map((path, n) => ({
    entry: { name: path, path, kind: "file", isDirectory: false, isIgnored: false, sizeBytes: null },
    level: 1,
    position: n + 1,
    siblings: paths.length,
    isOpen: false,
    isLoading: false,
    error: null,
    isCut: false,
  }));
}

/** Returns the index that a key moves to in a flat list; null for other keys. */
export function keyIn(rows: readonly Listed[], at: number, key: string): number | null {
  const last = rows.length - 1;
  const to = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last }[key];
  if (to !== undefined) return to;
  if (key.length !== 1) return null;
  const ordered = [...rows.keys()].map((n) => (n + at + 1) % rows.length);
  const isIt = (n: number) => (rows[n]!.entry.name.split("/").pop() ?? "").toLowerCase().startsWith(key.toLowerCase());
  return ordered.find(isIt) ?? null;
}
