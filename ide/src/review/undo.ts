/** Removes changes from a file's text and applies them again: by position, or by their text if lines moved. */
import { type Change, linesOf, type Patch, piecesOf, type Side } from "../diff/hunks";

/** Why an undo fails. `changed`: the text differs from the diff. `twice`: the lines are there more than once. */
export type Refusal = "changed" | "twice" | "notText" | "symlink" | "gone" | "there" | "kind";

export type Result = { text: string; refusal?: undefined } | { refusal: Refusal };

/** Whether a text has the new side of a change, the old side, or neither. */
export type Standing = "there" | "undone" | "changed";

/** Replaces the `from` side of a change by its other side. */
export function replaceSide(text: string, change: Change, from: Side): Result {
  const pieces = piecesOf(text);
  const place = placeOf(pieces, change, from);
  if (typeof place !== "number") return { refusal: place };
  const to = linesOf(change, from === "new" ? "old" : "new").map((line) => line.raw);
  const made = pieces.toSpliced(place, linesOf(change, from).length, ...to);
  // The last line has no line break, but would now have a line after it: two lines would become one.
  if (made.slice(0, -1).some((piece) => !piece.endsWith("\n"))) return { refusal: "changed" };
  return { text: made.join("") };
}

export function standing(text: string, change: Change): Standing {
  const pieces = piecesOf(text);
  if (placeOf(pieces, change, "new") !== "changed") return "there";
  return placeOf(pieces, change, "old") === "changed" ? "changed" : "undone";
}

/** Undoes several changes of one diff, given in its order. Skips those that were undone before. */
export function undoAll(text: string, changes: Change[]): Result {
  let left = text;
  // From the last to the first, so that positions stay valid.
  for (const change of changes.toReversed()) {
    const result = replaceSide(left, change, "new");
    if (result.refusal === undefined) left = result.text;
    else if (standing(left, change) !== "undone") return result;
  }
  return { text: left };
}

/** Returns the index of a side's first line in `pieces`. The context must match, too. */
function placeOf(pieces: string[], change: Change, side: Side): number | "changed" | "twice" {
  const { before, after } = change;
  const around = (of: Side) => [...before, ...linesOf(change, of), ...after].map((line) => line.raw);
  const wanted = around(side);
  // An empty side without context only fits an empty text.
  if (!wanted.length) return pieces.length ? "changed" : 0;
  const other = around(side === "new" ? "old" : "new");
  const has = (at: number, lines: string[]) => at >= 0 && lines.every((raw, n) => pieces[at + n] === raw);
  // At the edge of a file the shorter side is a part of the longer one: if the longer one matches, the shorter one does not.
  const isAt = (at: number) =>
    has(at, wanted) &&
    (other.length <= wanted.length || !(has(at, other) || has(at + wanted.length - other.length, other)));
  const expected = change.at[side] - before.length;
  if (isAt(expected)) return expected + before.length;
  let found: number | null = null;
  for (let at = 0; at + wanted.length <= pieces.length; at++) {
    if (!isAt(at)) continue;
    if (found !== null) return "twice";
    found = at;
  }
  return found === null ? "changed" : found + before.length;
}

/** The steps that undo all changes of a file. */
export type FilePlan =
  | { act: "save" | "create"; text: string }
  | { act: "delete" | "nothing" }
  | { act: "rename"; to: string; text: string }
  | { act: "refuse"; refusal: Refusal };

export interface ChangedFile {
  path: string;
  oldPath?: string | null;
  status: string;
}

/** Plans the undo of a whole file. `disk` is its current text; null if there is no file. */
export function planOf(file: ChangedFile, patch: Patch, disk: string | null): FilePlan {
  const refuse = (refusal: Refusal): FilePlan => ({ act: "refuse", refusal });
  const isLink = patch.mode.old === "120000" || patch.mode.new === "120000";
  if (isLink) return refuse("symlink");
  const side = (from: Side) => patch.changes.flatMap((change) => linesOf(change, from)).map((line) => line.raw).join("");
  if (file.status === "added") {
    if (disk === null) return { act: "nothing" };
    return disk === side("new") ? { act: "delete" } : refuse("changed");
  }
  if (file.status === "deleted") {
    const text = side("old");
    if (disk === null) return { act: "create", text };
    return disk === text ? { act: "nothing" } : refuse("there");
  }
  const isRenamed = file.status === "renamed" && file.oldPath != null;
  if (!isRenamed && (file.status !== "modified" || !patch.changes.length)) return refuse("kind");
  if (disk === null) return refuse("gone");
  const left = undoAll(disk, patch.changes);
  if (left.refusal !== undefined) return refuse(left.refusal);
  if (isRenamed) return { act: "rename", to: file.oldPath!, text: left.text };
  return left.text === disk ? { act: "nothing" } : { act: "save", text: left.text };
}
