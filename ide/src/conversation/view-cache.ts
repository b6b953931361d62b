/** Keeps the views of the sessions that were opened last, so that going back shows them unchanged. */
import type { App } from "../state/app.svelte";
import { SessionView } from "./session.svelte";

const MAX_SESSIONS = 8;
const views = new WeakMap<App, SessionView[]>();

export function viewOf(app: App, id: string): SessionView {
  const known = views.get(app) ?? [];
  const view = known.find((one) => one.id === id) ?? new SessionView(id, app.connection);
  views.set(app, [view, ...known.filter((one) => one !== view)].slice(0, MAX_SESSIONS));
  return view;
}
