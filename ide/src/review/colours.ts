/** Highlights the lines of a diff. It parses each section as a whole, the old and the new side separately. */
import { type HunkLine, type Patch, shownText, type Side } from "../diff/hunks";
import { highlightedLines, knows, type Span } from "../markdown/highlight";

export type Colours = ReadonlyMap<HunkLine, Span[]>;

/** Returns the colours by line; empty for an unknown language. */
export async function coloursOf(path: string, patch: Patch): Promise<Colours> {
  const colours = new Map<HunkLine, Span[]>();
  const language = /\.([^./]+)$/.exec(path)?.[1] ?? "";
  if (!knows(language)) return colours;
  for (const stretch of stretchesOf(patch)) {
    for (const side of ["old", "new"] as Side[]) {
      const lines = stretch.filter((line) => line[side] !== null);
      const spans = await highlightedLines(lines.map((line) => shownText(line.raw)).join("\n"), language);
      lines.forEach((line, n) => {
        const found = spans?.[n];
        if (found !== undefined) colours.set(line, found);
      });
    }
  }
  return colours;
}

/** Splits a diff into sections at its gaps. */
function stretchesOf(patch: Patch): HunkLine[][] {
  const stretches: HunkLine[][] = [[]];
  for (const part of patch.parts) {
    if (part.kind === "gap") stretches.push([]);
    else stretches.at(-1)!.push(...(part.kind === "change" ? part.change.lines : part.lines));
  }
  return stretches.filter((stretch) => stretch.length);
}
