/** What turns used, added up. */
import type { ChatTurn } from "../api/types";

export interface Sum {
  key: string;
  turns: number;
  input: number;
  cached: number;
  output: number;
  /** US dollars; null where no price is known. */
  cost: number | null;
}

const DAY_MS = 86_400_000;

/** The day of a moment by this place's calendar: `2026-11-21`. */
export function dayOf(moment: Date): string {
  const two = (part: number) => String(part).padStart(2, "0");
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
}

/** Each of the last `days` days, today included, those without a turn too. */
export function lastDays(days: number, now = new Date()): string[] {
  const noon = new Date(now.getFullYear(), now.getMonth(), now.getDate(), 12).getTime();
  return Array.from({ length: days }, (_, n) => dayOf(new Date(noon - (days - 1 - n) * DAY_MS)));
}

export function sums(turns: ChatTurn[], keyOf: (turn: ChatTurn) => string): Sum[] {
  const byKey = new Map<string, Sum>();
  for (const turn of turns) {
    const key = keyOf(turn);
    const sum = byKey.get(key) ?? { key, turns: 0, input: 0, cached: 0, output: 0, cost: null };
    sum.turns += 1;
    sum.input += turn.stats.inputTokens;
    sum.cached += turn.stats.cachedInputTokens;
    sum.output += turn.stats.responseTokens;
    if (turn.stats.cost !== null) sum.cost = (sum.cost ?? 0) + turn.stats.cost;
    byKey.set(key, sum);
  }
  return [...byKey.values()];
}
