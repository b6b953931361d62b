/** Takes changes out of a file's text, and puts them back: by position, and by their text where lines moved. */
import { type Change, linesOf, type Patch, piecesOf, type Side } from "../diff/hunks";

/** Why nothing was done. `changed`: what is there is not what the diff shows. `twice`: it is there more than once. */
export type Refusal = "changed" | "twice" | "notText" | "symlink" | "gone" | "there" | "kind";

export type Result = { text: string; refusal?: undefined } | { refusal: Refusal };

/** Where a change stands in a text: as the diff shows it, as it was before, or neither. */
export type Standing = "there" | "undone" | "changed";

/** The text with the `from` side of a change replaced by its other side. */
export function exchanged(text: string, change: Change, from: Side): Result {
  const pieces = piecesOf(text);
  const place = placeOf(pieces, change, from);
  if (typeof place !== "number") return { refusal: place };
  const to = linesOf(change, from === "new" ? "old" : "new").map((line) => line.raw);
  const made = pieces.toSpliced(place, linesOf(change, from).length, ...to);
  // A last line without a line break has something after it now: two lines would become one.
  if (made.slice(0, -1).some((piece) => !piece.endsWith("\n"))) return { refusal: "changed" };
  return { text: made.join("") };
}

export function standing(text: string, change: Change): Standing {
  const pieces = piecesOf(text);
  if (placeOf(pieces, change, "new") !== "changed") return "there";
  return placeOf(pieces, change, "old") === "changed" ? "changed" : "undone";
}

/** The text without all of these changes of one diff, in the order of the diff; those undone before are passed over. */
export function withoutAll(text: string, changes: Change[]): Result {
  let left = text;
  // From the last to the first, so that the places of the others stay what they are.
  for (const change of changes.toReversed()) {
    const result = exchanged(left, change, "new");
    if (result.refusal === undefined) left = result.text;
    else if (standing(left, change) !== "undone") return result;
  }
  return { text: left };
}

/** The index of a side's first line in `pieces`. What is around it must be there, too. */
function placeOf(pieces: string[], change: Change, side: Side): number | "changed" | "twice" {
  const { before, after } = change;
  const around = (of: Side) => [...before, ...linesOf(change, of), ...after].map((line) => line.raw);
  const wanted = around(side);
  // Nothing can be looked for in a text that shall be empty.
  if (!wanted.length) return pieces.length ? "changed" : 0;
  const other = around(side === "new" ? "old" : "new");
  const has = (at: number, lines: string[]) => at >= 0 && lines.every((raw, n) => pieces[at + n] === raw);
  // At the edge of a file the shorter side is a part of the longer one: where that is, this is not.
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

/** What a whole file's undo comes to. */
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

/** How a file becomes what it was. `disk` is its text now, null when there is none. */
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
  const left = withoutAll(disk, patch.changes);
  if (left.refusal !== undefined) return refuse(left.refusal);
  if (isRenamed) return { act: "rename", to: file.oldPath!, text: left.text };
  return left.text === disk ? { act: "nothing" } : { act: "save", text: left.text };
}
