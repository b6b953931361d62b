/** The commands of the keyboard and the palette. Each part of the page registers its own. */
import { createContext, untrack } from "svelte";

export interface Command {
  id: string;
  label: string;
  /** Such as `Mod+K` (Ctrl, or Cmd on a Mac), `Ctrl+X` (Ctrl on a Mac, too), `Alt+N`, `?`. */
  keys?: string;
  act: () => void;
}

export class CommandSet {
  all = $state.raw<Command[]>([]);

  /** Registers commands. Returns a function that removes them. */
  add(commands: Command[]): () => void {
    // Effects register commands, and must not run again when others do.
    this.all = [...untrack(() => this.all), ...commands];
    return () => {
      this.all = untrack(() => this.all).filter((command) => !commands.includes(command));
    };
  }

  press(event: KeyboardEvent): void {
    if (event.defaultPrevented || document.querySelector("dialog[open], :popover-open") !== null) return;
    const command = this.all.findLast((one) => one.keys !== undefined && matchesKeys(event, one.keys));
    if (command === undefined) return;
    event.preventDefault();
    command.act();
  }
}

export const isMac = typeof navigator !== "undefined" && navigator.platform.startsWith("Mac");

export function matchesKeys(event: KeyboardEvent, keys: string): boolean {
  const parts = keys.split("+");
  const key = parts.pop()!;
  const wantsMod = parts.includes("Mod") || (!isMac && parts.includes("Ctrl"));
  const wantsOther = isMac && parts.includes("Ctrl");
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const otherMod = isMac ? event.ctrlKey : event.metaKey;
  if (mod !== wantsMod || otherMod !== wantsOther || event.altKey !== parts.includes("Alt")) return false;
  const isTyped = key.length === 1 && !wantsMod && !wantsOther && !parts.includes("Alt");
  // A plain character in a text field is input, not a command.
  if (isTyped && isTyping(event.target)) return false;
  if (!isTyped && event.shiftKey !== parts.includes("Shift")) return false;
  // With Alt, some layouts produce another character, so the physical key counts.
  const code = key === "`" ? "Backquote" : `Key${key.toUpperCase()}`;
  return event.key.toLowerCase() === key.toLowerCase() || event.code === code;
}

function isTyping(target: EventTarget | null): boolean {
  return ((target as Element | null)?.closest?.("input, textarea, select, [contenteditable]") ?? null) !== null;
}

/** Formats a key for display on this system, such as `⌘K` or `Ctrl+K`. */
export function formatKeys(keys: string): string[] {
  return keys.split("+").map((key) => {
    if (key === "Mod") return isMac ? "⌘" : "Ctrl";
    if (key === "Alt") return isMac ? "⌥" : "Alt";
    return { ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" }[key] ?? key;
  });
}

export const [useCommands, provideCommands] = createContext<CommandSet>();
