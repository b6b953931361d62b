/** The display preferences of this browser. */

export type Theme = "auto" | "light" | "dark";

const KEY = "gadget.preferences";

interface Kept {
  theme: Theme;
  grouping: "project" | "date";
  notify: boolean;
  sidebar: boolean;
}

export class Preferences {
  theme = $state<Theme>("auto");
  grouping = $state<"project" | "date">("project");
  notify = $state(false);
  /** Whether the sidebar is shown, if there is room. */
  sidebar = $state(true);

  constructor() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Kept>;
      this.theme = kept.theme ?? "auto";
      this.grouping = kept.grouping ?? "project";
      this.notify = kept.notify ?? false;
      this.sidebar = kept.sidebar ?? true;
    } catch {
      // The stored preferences are unreadable. Use the defaults.
    }
  }

  /** Applies and stores the preferences. */
  apply(): void {
    document.documentElement.style.colorScheme = this.theme === "auto" ? "" : this.theme;
    const kept: Kept = { theme: this.theme, grouping: this.grouping, notify: this.notify, sidebar: this.sidebar };
    try {
      localStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // Without storage, they last until the page closes.
    }
  }

  toggleTheme(): void {
    const isDark = this.theme === "dark" || (this.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    this.theme = isDark ? "light" : "dark";
    this.apply();
  }
}
