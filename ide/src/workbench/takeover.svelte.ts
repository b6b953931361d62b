/** Who has the workspace, and how the user gets it. */
import type { SessionView } from "../conversation/session.svelte";
import { t } from "../text";

const STOP_MS = 30_000; // a drone kills what does not end by itself well before

/** Stops the turn that runs, waits until it has, and takes the workspace. Raises ApiError, and Error when it goes on. */
export async function stopAndTake(session: SessionView): Promise<void> {
  const { running } = session;
  if (running === null) throw new Error(t.workspace.elsewhere);
  await session.cancel(running);
  if (!(await when(() => session.running !== running && session.workspaceMode !== "agent", STOP_MS))) {
    throw new Error(t.workspace.stillWorks);
  }
  await session.setMode("user");
}

/** Waits until it is so; false when it is not in time. */
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
