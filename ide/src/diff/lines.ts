/** Computes line diffs of two texts, and parses unified diffs. */

export interface DiffLine {
  kind: "same" | "added" | "removed" | "hunk";
  text: string;
  /** Line numbers from 1 in the old and the new text; null if the line is only in the other one. */
  old: number | null;
  new: number | null;
}

const MAX_CELLS = 4_000_000; // of the table: 2,000 x 2,000 lines, 30 ms

/** Returns the diff from `before` to `after`, with all unchanged lines. */
export function diffOf(before: string, after: string): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = longest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const lines: DiffLine[] = [];
  let oldAt = 0;
  let newAt = 0;
  const put = (kind: DiffLine["kind"], text: string) => {
    const inOld = kind !== "added";
    const inNew = kind !== "removed";
    lines.push({ kind, text, old: inOld ? ++oldAt : null, new: inNew ? ++newAt : null });
  };
  a.slice(0, start).forEach((line) => put("same", line));
  middle.forEach(([kind, line]) => put(kind, line));
  a.slice(a.length - end).forEach((line) => put("same", line));
  return lines;
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Diffs by the longest common subsequence. If the texts are too large for that, removes all lines and adds all lines. */
export function longest(a: string[], b: string[]): ["same" | "added" | "removed", string][] {
  if (a.length * b.length > MAX_CELLS) {
    return [...a.map((l) => ["removed", l] as const), ...b.map((l) => ["added", l] as const)].map(([k, l]) => [k, l]);
  }
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] =
        a[i] === b[j]
          ? table[(i + 1) * width + j + 1]! + 1
          : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!);
    }
  }
  const made: ["same" | "added" | "removed", string][] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      made.push(["same", a[i]!]);
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || table[(i + 1) * width + j]! >= table[i * width + j + 1]!)) {
      made.push(["removed", a[i++]!]);
    } else {
      made.push(["added", b[j++]!]);
    }
  }
  return made;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** Parses a unified diff of one or more files. Headers get the kind `hunk` and keep their text: no line is lost. */
export function parseUnified(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let oldAt = 0;
  let newAt = 0;
  // A line that begins with `---` is a header or a removed line: the hunk's line counts decide.
  let oldLeft = 0;
  let newLeft = 0;
  for (const line of linesOf(diff)) {
    const sign = line[0] ?? " ";
    if ((oldLeft > 0 || newLeft > 0) && " +-".includes(sign)) {
      const text = line.slice(1);
      if (sign === "+") lines.push({ kind: "added", text, old: null, new: newAt++ });
      else if (sign === "-") lines.push({ kind: "removed", text, old: oldAt++, new: null });
      else lines.push({ kind: "same", text, old: oldAt++, new: newAt++ });
      if (sign !== "+") oldLeft -= 1;
      if (sign !== "-") newLeft -= 1;
      continue;
    }
    const hunk = HUNK.exec(line);
    if (hunk !== null) {
      oldAt = Number(hunk[1]);
      oldLeft = Number(hunk[2] ?? 1);
      newAt = Number(hunk[3]);
      newLeft = Number(hunk[4] ?? 1);
    }
    lines.push({ kind: "hunk", text: line, old: null, new: null });
  }
  return lines;
}

const HEADER = /^(?:diff --git |index |--- |(?:new|old|new file|deleted file) mode |(?:similarity|rename|copy) )/;

/** Splits a patch by file. It is a unified diff, or stands between `*** Begin Patch` and `*** End Patch`. */
export function parsePatch(patch: string): { path: string; lines: DiffLine[] }[] {
  const files: { path: string; lines: DiffLine[] }[] = [];
  const isUnified = looksUnified(patch);
  const marked = (line: string): DiffLine => {
    const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "hunk" : "same";
    return { kind, text: kind === "hunk" ? line : line.slice(1), old: null, new: null };
  };
  const lines = isUnified ? parseUnified(patch) : linesOf(patch).map(marked);
  const header = isUnified ? /^\+\+\+ (?:b\/)?(.+)$/ : /^\*\* (?:Update|Add|Delete) File: (.+)$/;
  for (const line of lines) {
    const path = header.exec(line.text)?.[1];
    if (path !== undefined && (isUnified ? line.kind === "hunk" : line.kind === "same")) files.push({ path, lines: [] });
    else if (line.kind !== "hunk" || !HEADER.test(line.text)) files.at(-1)?.lines.push(line);
  }
  for (const file of files) file.lines = file.lines.filter((line) => isUnified || !/^\*\* (?:End|Move|Begin)/.test(line.text));
  return files;
}

/** Whether a tool's patch is a unified diff. Approvals do not need it: an inquiry has `isDiff`. */
function looksUnified(text: string): boolean {
  return /^(?:diff --git |--- )/m.test(text) && /^@@ -\d/m.test(text);
}

export function tally(lines: DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === "added") added += 1;
    else if (line.kind === "removed") removed += 1;
  }
  return { added, removed };
}
