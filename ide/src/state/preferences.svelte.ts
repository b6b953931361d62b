/** The display preferences of this browser. */
import { readStored, store } from "../browser-storage";

export type Theme = "auto" | "light" | "dark";

const KEY = "gadget.preferences";

export class Preferences {
  theme = $state<Theme>("auto");
  grouping = $state<"project" | "date">("project");
  notify = $state(false);
  /** Whether the sidebar is shown, if there is room. */
  sidebar = $state(true);

  constructor() {
    const stored = readStored<Partial<Pick<Preferences, "theme" | "grouping" | "notify" | "sidebar">>>(KEY, {});
    this.theme = stored.theme ?? "auto";
    this.grouping = stored.grouping ?? "project";
    this.notify = stored.notify ?? false;
    this.sidebar = stored.sidebar ?? true;
  }

  /** Applies and stores the preferences. */
  apply(): void {
    document.documentElement.style.colorScheme = this.theme === "auto" ? "" : this.theme;
    store(KEY, { theme: this.theme, grouping: this.grouping, notify: this.notify, sidebar: this.sidebar });
  }

  toggleTheme(): void {
    const isDark = this.theme === "dark" || (this.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.theme = isDark ? "light" : "dark";
    this.apply();
  }
}
