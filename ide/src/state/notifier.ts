/** Notifies the user while the page is in the background, if they allowed it. */
import { marked } from "../disguise";
import type { Preferences } from "./preferences.svelte";

export class Notifier {
  constructor(private readonly preferences: Preferences) {}

  tell(title: string, body: string, open: () => void): void {
    const isInFront = document.visibilityState === "visible" && document.hasFocus();
    if (isInFront || !this.preferences.notify || !("Notification" in window)) return;
    if (Notification.permission !== "granted") return;
    const shown = new Notification(marked(title), { body: marked(body), tag: title });
    shown.onclick = () => {
      window.focus();
      open();
      shown.close();
    };
  }
}

/** PageActions the browser for permission. Returns whether it is granted. */
export async function mayNotify(): Promise<boolean> {
  return "Notification" in window && (await Notification.requestPermission()) === "granted";
}
