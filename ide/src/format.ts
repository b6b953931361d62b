/** Formats numbers and times for the user. */

const units = [
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

/** Formats a count: `950`, `12.3k`, `1.2M`. */
export function count(value: number): string {
  for (const [size, unit] of units) {
    if (value >= size) {
      const scaled = value / size;
      return `${scaled >= 100 ? Math.round(scaled) : Math.floor(scaled * 10) / 10}${unit}`;
    }
  }
  return String(value);
}

/** Formats US dollars, with more digits for small amounts. */
export function usd(value: number): string {
  if (value === 0) return "$0";
  if (value < 0.01) return `$${value.toPrecision(2)}`;
  return `$${value.toFixed(value < 10 ? 2 : value < 1000 ? 1 : 0)}`;
}

/** Formats a duration as the service does, truncated and not rounded: `0.4s`, `12.3s`, `2m 05s`, `3h 07m`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  const two = (part: number) => String(part).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h ${two(Math.floor((seconds % 3600) / 60))}m`;
}

/** Formats bytes in decimal units: `8 MB`. */
export function bytes(value: number): string {
  return value < 1000 ? `${value} B` : `${count(value)}B`.replace("kB", " kB").replace("MB", " MB").replace("BB", " GB");
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

export function timeOfDay(iso: string): string {
  return clock.format(new Date(iso));
}

export function moment(iso: string): string {
  return full.format(new Date(iso));
}

/** Formats an age: `now`, `5m`, `3h`, `2d`, then a date. */
export function ago(iso: string, now = Date.now()): string {
  const seconds = Math.max(0, (now - new Date(iso).getTime()) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)}d`;
  return day.format(new Date(iso));
}

export type Age = "today" | "yesterday" | "week" | "older";

/** Returns the date group of a time, in the local time zone. */
export function age(iso: string, now = new Date()): Age {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const at = new Date(iso).getTime();
  if (at >= midnight) return "today";
  if (at >= midnight - 86_400_000) return "yesterday";
  return at >= midnight - 6 * 86_400_000 ? "week" : "older";
}

/** Returns the last `days` days in UTC, oldest first: `2026-11-21`. */
export function lastDays(days: number, now = Date.now()): string[] {
  return Array.from({ length: days }, (_, n) => new Date(now - (days - 1 - n) * 86_400_000).toISOString().slice(0, 10));
}

export function dateOf(iso: string): string {
  return dayOfYear.format(new Date(iso));
}

/** Returns the last part of a path. */
export function baseName(path: string): string {
  return path.replace(/\/+$/, "").split("/").pop() ?? path;
}

/** Estimates the tokens of a text: four characters each. */
export function guessTokens(text: string): number {
  return Math.ceil(text.length / 4);
}
