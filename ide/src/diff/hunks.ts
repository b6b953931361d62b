/** Parses the unified diff of one file into changes: runs of added and removed lines, with their context. */

export interface HunkLine {
  kind: "same" | "added" | "removed";
  /** The line with its line break, byte for byte. The last line of a file may have no line break. */
  raw: string;
  /** Line numbers from 1; null if the line is only in the other text. */
  old: number | null;
  new: number | null;
}

export type Side = "old" | "new";

export interface Change {
  lines: HunkLine[];
  /** The unchanged lines directly above and below, up to the next change. They locate the change. */
  before: HunkLine[];
  after: HunkLine[];
  /** The number of lines before `lines` in each text. */
  at: Record<Side, number>;
}

export type Part =
  | { kind: "change"; change: Change }
  | { kind: "same"; lines: HunkLine[] }
  /** Lines that the diff leaves out, with the lines of the new text before them. The size of the last gap is unknown. */
  | { kind: "gap"; at: Record<Side, number>; count: number | null };

export interface Patch {
  parts: Part[];
  changes: Change[];
  /** The mode, such as 100755 or 120000 (a symlink). A diff has it for added, deleted and mode-changed files. */
  mode: Record<Side, string | null>;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const JOINED = 1; // up to this many unchanged lines between two runs: one change

/** Parses git's diff of one file. Keeps lines byte for byte, with carriage returns. */
export function patchOf(diff: string): Patch {
  const patch: Patch = { parts: [], changes: [], mode: { old: null, new: null } };
  const shown: Record<Side, number> = { old: 0, new: 0 };
  const rows = diff.split("\n");
  if (rows.at(-1) === "") rows.pop();
  for (let n = 0; n < rows.length; n++) {
    const mode = /^(old|new|new file|deleted file) mode (\d+)$/.exec(rows[n]!);
    if (mode !== null) patch.mode[mode[1]!.startsWith("new") ? "new" : "old"] = mode[2]!;
    const head = HUNK.exec(rows[n]!);
    if (head === null) continue;
    const left = { old: Number(head[2] ?? 1), new: Number(head[4] ?? 1) };
    // For an empty side, git gives the line before it.
    const at = { old: Number(head[1]) - (left.old ? 1 : 0), new: Number(head[3]) - (left.new ? 1 : 0) };
    if (at.new > shown.new) patch.parts.push({ kind: "gap", at: { ...shown }, count: at.new - shown.new });
    const lines: HunkLine[] = [];
    while (n + 1 < rows.length && (left.old > 0 || left.new > 0 || rows[n + 1]!.startsWith("\\"))) {
      const row = rows[++n]!;
      if (row.startsWith("\\")) {
        const last = lines.at(-1);
        if (last !== undefined) last.raw = last.raw.slice(0, -1);
        continue;
      }
      const kind = row[0] === "+" ? "added" : row[0] === "-" ? "removed" : "same";
      const line: HunkLine = { kind, raw: `${row.slice(1)}\n`, old: null, new: null };
      if (kind !== "added") left.old -= 1;
      if (kind !== "removed") left.new -= 1;
      if (kind !== "added") line.old = ++at.old;
      if (kind !== "removed") line.new = ++at.new;
      lines.push(line);
    }
    addParts(patch, lines);
    Object.assign(shown, at);
  }
  if (patch.changes.length && shown.new > 0) patch.parts.push({ kind: "gap", at: { ...shown }, count: null });
  return patch;
}

function addParts(patch: Patch, lines: HunkLine[]): void {
  const runs: { isChange: boolean; lines: HunkLine[] }[] = [];
  for (const line of lines) {
    const isChange = line.kind !== "same";
    const last = runs.at(-1);
    if (last?.isChange === isChange) last.lines.push(line);
    else if (isChange && runs.length > 1 && last!.lines.length <= JOINED) {
      runs.pop();
      runs.at(-1)!.lines.push(...last!.lines, line);
    } else runs.push({ isChange, lines: [line] });
  }
  runs.forEach((run, n) => {
    if (!run.isChange) {
      patch.parts.push({ kind: "same", lines: run.lines });
      return;
    }
    const first = run.lines[0]!;
    const before = runs[n - 1]?.lines ?? [];
    const above = before.at(-1);
    const at = {
      old: above?.old ?? (first.old ?? numberAfter(run.lines, "old", lines)) - 1,
      new: above?.new ?? (first.new ?? numberAfter(run.lines, "new", lines)) - 1,
    };
    const change: Change = { lines: run.lines, before, after: runs[n + 1]?.lines ?? [], at };
    patch.changes.push(change);
    patch.parts.push({ kind: "change", change });
  });
}

/** Returns the number of a change's first line on one side, or of the line after it if that side is empty. */
function numberAfter(own: HunkLine[], side: Side, lines: HunkLine[]): number {
  const from = lines.indexOf(own[0]!);
  return lines.slice(from).find((line) => line[side] !== null)?.[side] ?? 1;
}

/** Returns the lines of one side: its added or removed lines, with the unchanged lines between them. */
export function linesOf(change: Change, side: Side): HunkLine[] {
  return change.lines.filter((line) => line[side] !== null);
}

/** Converts a line for display. */
export function shownText(raw: string): string {
  return raw.replace(/\r?\n$/, "");
}

/** Splits a text into lines, each with its line break. */
export function piecesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

export function tallyOf(change: Change): { added: number; removed: number } {
  const count = (kind: HunkLine["kind"]) => change.lines.filter((line) => line.kind === kind).length;
  return { added: count("added"), removed: count("removed") };
}
