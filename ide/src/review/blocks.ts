/** Splits a file's diff into the rows to show, up to a limit. */
import { type Change, type HunkLine, type Part, type Patch, piecesOf } from "../diff/hunks";
import { type Looks, type Row, rowsOf } from "../diff/rows";

export interface Block {
  /** The index of the part. */
  part: number;
  kind: Part["kind"];
  rows: Row[];
  /** The index of the change, from 0; set for changes. */
  nth: number;
  change: Change | null;
  /** The number of lines that are still hidden, or null if unknown; set for gaps. */
  hidden: number | null;
}

/** The number of rows at first: about what a browser draws without a pause. */
export const FIRST_ROWS = 800;
export const MORE_ROWS = 2000;
export const GAP_ROWS = 100;

/** Returns the lines on disk if they match the new side of the diff: then gaps can be opened. */
export function linesBetween(patch: Patch, disk: string | null): string[] | null {
  if (disk === null) return null;
  const pieces = piecesOf(disk);
  const isSame = (line: HunkLine) => line.new === null || pieces[line.new - 1] === line.raw;
  const isWhole = patch.parts.every((part) => part.kind === "gap" || (part.kind === "same" ? part.lines : part.change.lines).every(isSame));
  return isWhole ? pieces : null;
}

/** `opened` has the number of shown lines of a gap by part. `isFolded` says which changes are hidden. */
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
      // It is then unknown whether there are more lines at the end.
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
    // A change needs room for its first line; a folded one needs none.
    if (left > 0) blocks.push(block);
    left -= rows.length;
  });
  return { blocks, left: hidden };
}

/** Whether a binary file of this name is shown as an image. */
export function looksLikeImage(path: string): boolean {
  return /\.(png|jpe?g|gif|webp)$/i.test(path);
}
