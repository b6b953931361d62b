/** What is shown of a file's diff, in order: its parts as rows, no more of them than a page takes. */
import { type Change, type HunkLine, type Part, type Patch, piecesOf } from "../diff/hunks";
import { type Looks, type Row, rowsOf } from "../diff/rows";

export interface Block {
  /** The index of its part. */
  part: number;
  kind: Part["kind"];
  rows: Row[];
  /** Of a change: which one it is, from 0. */
  nth: number;
  change: Change | null;
  /** Of a gap: how many lines are still left out; null where that is not known. */
  hidden: number | null;
}

/** How many rows a file begins with; about what is drawn without a pause. */
export const FIRST_ROWS = 800;
export const MORE_ROWS = 2000;
export const GAP_ROWS = 100;

/** The lines on disk, where they are what the diff says is new: then what it leaves out can be shown. */
export function linesBetween(patch: Patch, disk: string | null): string[] | null {
  if (disk === null) return null;
  const pieces = piecesOf(disk);
  const isSame = (line: HunkLine) => line.new === null || pieces[line.new - 1] === line.raw;
  const isWhole = patch.parts.every((part) => part.kind === "gap" || (part.kind === "same" ? part.lines : part.change.lines).every(isSame));
  return isWhole ? pieces : null;
}

/** `opened` says how many lines of a gap are shown, by its part; `isFolded` which changes are not. */
export function blocksOf(
  patch: Patch,
  looks: Looks,
  between: string[] | null,
  opened: ReadonlyMap<number, number>,
  isFolded: (nth: number) => boolean,
  most: number,
): { blocks: Block[]; left: number } {
  const blocks: Block[] = [];
  let left = most;
  let hidden = 0;
  let nth = 0;
  patch.parts.forEach((part, n) => {
    let rows: Row[] = [];
    const block: Block = { part: n, kind: part.kind, rows, nth, change: null, hidden: null };
    if (part.kind === "gap") {
      const count = part.count ?? (between === null ? null : between.length - part.at.new);
      // Whether something comes after the last lines is not known then.
      if (count === 0 || count === null) return;
      const shown = between === null ? 0 : Math.min(opened.get(n) ?? 0, count);
      rows = Array.from({ length: shown }, (_, k) => {
        const line: HunkLine = { kind: "same", raw: between![part.at.new + k]!, old: part.at.old + k + 1, new: part.at.new + k + 1 };
        return { old: line, new: line };
      });
      block.hidden = count - shown;
    } else if (part.kind === "same") {
      rows = rowsOf(part.lines, looks);
    } else {
      block.change = part.change;
      if (!isFolded(nth)) rows = rowsOf(part.change.lines, looks);
      nth += 1;
    }
    block.rows = rows.slice(0, Math.max(0, left));
    hidden += rows.length - block.rows.length;
    // A change is listed as long as there is room for its first line; a folded one needs none.
    if (left > 0) blocks.push(block);
    left -= rows.length;
  });
  return { blocks, left: hidden };
}

/** Whether files of this name are shown as images, where they are binary. */
export function looksLikeImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp)$/i.test(path);
}
