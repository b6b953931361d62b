/** Keeps the files of the sessions that were opened last, so that tabs and edits stay. */
import type { App } from "../state/app.svelte";
import { Files } from "./files.svelte";

const MAX_SESSIONS = 8;
const known = new WeakMap<App, Files[]>();

export function filesIn(app: App, session: string): Files {
  const all = known.get(app) ?? [];
  const found = all.find((one) => one.session === session);
  const files = found ?? Files.of(session);
  if (found === undefined) void files.restore();
  const kept = [files, ...all.filter((one) => one !== files)];
  for (const left of kept.slice(MAX_SESSIONS)) void left.keepAll();
  known.set(app, kept.slice(0, MAX_SESSIONS));
  return files;
}
