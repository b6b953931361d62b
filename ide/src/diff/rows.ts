/** Arranges the lines of a change as rows: in one column, or old and new side by side. Can hide white space changes. */
import type { Change, HunkLine } from "./hunks";
import { longest } from "./lines";

/** Both are set for a line that is unchanged, or shown as unchanged. */
export interface Row {
  old: HunkLine | null;
  new: HunkLine | null;
}

export interface Looks {
  isSplit: boolean;
  ignoresSpace: boolean;
}

export const kindOf = (row: Row) => (row.old === null ? "added" : row.new === null ? "removed" : "same");

export function rowsOf(lines: HunkLine[], looks: Looks): Row[] {
  const rows: Row[] = [];
  let removed: HunkLine[] = [];
  let added: HunkLine[] = [];
  const flush = () => {
    rows.push(...(looks.ignoresSpace ? withoutSpace(removed, added, looks) : put(removed, added, looks)));
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "removed") removed.push(line);
    else if (line.kind === "added") added.push(line);
    else {
      flush();
      rows.push({ old: line, new: line });
    }
  }
  flush();
  return rows;
}

/** Whether the row has two different lines side by side. */
export function isPair(row: Row): boolean {
  return row.old !== null && row.new !== null && row.old !== row.new && bare(row.old) !== bare(row.new);
}

function put(removed: HunkLine[], added: HunkLine[], { isSplit }: Looks): Row[] {
  if (!isSplit) {
    return [...removed.map((line) => ({ old: line, new: null })), ...added.map((line) => ({ old: null, new: line }))];
  }
  const length = Math.max(removed.length, added.length);
  return Array.from({ length }, (_, n) => ({ old: removed[n] ?? null, new: added[n] ?? null }));
}

function withoutSpace(removed: HunkLine[], added: HunkLine[], looks: Looks): Row[] {
  const rows: Row[] = [];
  let [oldAt, newAt] = [0, 0];
  let [oldFrom, newFrom] = [0, 0];
  const flush = () => {
    rows.push(...put(removed.slice(oldFrom, oldAt), added.slice(newFrom, newAt), looks));
  };
  for (const [kind] of longest(removed.map(bare), added.map(bare))) {
    if (kind === "same") {
      flush();
      rows.push({ old: removed[oldAt]!, new: added[newAt]! });
      oldFrom = oldAt + 1;
      newFrom = newAt + 1;
    }
    if (kind !== "added") oldAt += 1;
    if (kind !== "removed") newAt += 1;
  }
  flush();
  return rows;
}

const bare = (line: HunkLine) => line.raw.replace(/\s+/g, "");

/** Whether only white space differs. */
export function isSpaceOnly(change: Change): boolean {
  const all = (kind: HunkLine["kind"]) =>
    change.lines.filter((line) => line.kind === kind).map(bare).join("");
  return all("added") === all("removed");
}
