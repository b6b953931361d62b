/** Takes the workspace over from the agent. */
import type { SessionView } from "../conversation/session.svelte";
import { t } from "../text";

const STOP_MS = 30_000; // a drone kills a command that does not end well before this

/** Stops the running turn, waits for its end, and takes the workspace. Throws ApiError, or Error on a time-out. */
export async function stopAndTake(session: SessionView): Promise<void> {
  const { running } = session;
  if (running === null) throw new Error(t.workspace.elsewhere);
  await session.cancel(running);
  if (!(await when(() => session.running !== running && session.workspaceMode !== "agent", STOP_MS))) {
    throw new Error(t.workspace.stillWorks);
  }
  await session.setMode("user");
}

/** Waits until the condition holds. Returns false on a time-out. */
export function when(isSo: () => boolean, most_ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = $effect.root(() => {
      $effect(() => {
        if (isSo()) end(true);
      });
    });
    const timer = setTimeout(() => end(false), most_ms);
    function end(how: boolean) {
      clearTimeout(timer);
      queueMicrotask(stop);
      resolve(how);
    }
  });
}
