/** Scores how well `query` matches `text`, letter by letter in order. Higher is better; null if it does not match. */
export function score(query: string, text: string): number | null {
  const letters = query.toLowerCase().replaceAll(" ", "");
  const within = text.toLowerCase();
  let at = 0;
  let points = 0;
  let run = 0;
  for (const letter of letters) {
    const found = within.indexOf(letter, at);
    if (found < 0) return null;
    const startsWord = found === 0 || /[\s/_.:-]/.test(within[found - 1]!);
    run = found === at ? run + 1 : 0;
    points += 1 + run * 2 + (startsWord ? 3 : 0) - Math.min(found - at, 10) * 0.1;
    at = found + 1;
  }
  return points - within.length * 0.01;
}

/** Returns the matching items, best first; all items in their order for an empty query. */
export function search<Item>(query: string, items: Item[], textOf: (item: Item) => string): Item[] {
  if (query.trim() === "") return items;
  return items
    .map((item) => ({ item, points: score(query, textOf(item)) }))
    .filter((found): found is { item: Item; points: number } => found.points !== null)
    .sort((a, b) => b.points - a.points)
    .map((found) => found.item);
}
