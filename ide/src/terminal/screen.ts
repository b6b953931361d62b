/** Configures xterm.js: colours, keys, and no escape sequences with effects outside of the terminal. */
import "@xterm/xterm/css/xterm.css";

import { FitAddon } from "@xterm/addon-fit";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { type ITheme, Terminal as Xterm } from "@xterm/xterm";

import { t } from "../text";
import { latin1, utf8 } from "./bytes";
import type { OutputTarget } from "./stream";

const ANSI = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
const SCROLLBACK_LINES = 5000;
const RESIZE_MS = 120;

export interface ScreenEvents {
  onInput: (data: Uint8Array) => void;
  /** Called with the size that fits, after resizing has stopped. */
  onSize: (columns: number, rows: number) => void;
  /** Called when the user leaves the terminal by keyboard. */
  onLeave: () => void;
}

export class Screen implements OutputTarget {
  private readonly xterm: Xterm;
  private readonly fitting = new FitAddon();
  private readonly observer: ResizeObserver;
  private resizing: ReturnType<typeof setTimeout> | undefined;
  private replaying = 0;

  constructor(
    private readonly place: HTMLElement,
    private readonly events: ScreenEvents,
    size: { columns: number; rows: number },
    isForReader: boolean,
  ) {
    const style = getComputedStyle(place);
    Xterm.strings.promptLabel = t.terminal.input;
    Xterm.strings.tooMuchOutput = t.terminal.tooMuch;
    this.xterm = new Xterm({
      cols: size.columns,
      rows: size.rows,
      fontFamily: style.getPropertyValue("--mono"),
      fontSize: 13,
      lineHeight: 1.15,
      scrollback: SCROLLBACK_LINES,
      theme: themeOf(place),
      minimumContrastRatio: 4.5,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      screenReaderMode: isForReader,
      macOptionIsMeta: true,
      rightClickSelectsWord: false,
      // OSC 8 can link to any address, and xterm's own handler would open it after a question.
      linkHandler: { activate: (_event, address) => visit(address), allowNonHttpProtocols: false },
    });
    // Nothing here enables these escape sequences: clipboard (OSC 52), window title and size.
    this.xterm.loadAddon(this.fitting);
    this.xterm.loadAddon(new WebLinksAddon((_event, address) => visit(address)));
    this.xterm.attachCustomKeyEventHandler((event) => this.press(event));
    this.xterm.onData((text) => this.input(utf8(text)));
    this.xterm.onBinary((text) => this.input(latin1(text)));
    this.xterm.open(place);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(place);
    place.addEventListener("focusin", this.fit);
  }

  write(data: Uint8Array): void {
    this.xterm.write(data);
  }

  replay(data: Uint8Array, isAnew: boolean): void {
    if (isAnew) this.xterm.reset();
    this.replaying++;
    this.xterm.write(data, () => this.replaying--);
  }

  focus(): void {
    this.xterm.focus();
  }

  /** Applies a size that another page has set. */
  adopt(columns: number, rows: number): void {
    if (this.xterm.cols !== columns || this.xterm.rows !== rows) this.xterm.resize(columns, rows);
  }

  /** Fits the terminal to its element, after resizing has stopped. */
  readonly fit = (): void => {
    clearTimeout(this.resizing);
    this.resizing = setTimeout(() => {
      const size = this.place.clientHeight > 0 ? this.fitting.proposeDimensions() : undefined;
      if (size === undefined || Number.isNaN(size.cols) || Number.isNaN(size.rows)) return;
      const columns = Math.min(1000, Math.max(2, size.cols));
      const rows = Math.min(1000, Math.max(1, size.rows));
      this.adopt(columns, rows);
      this.events.onSize(columns, rows);
    }, RESIZE_MS);
  };

  paint(): void {
    this.xterm.options.theme = themeOf(this.place);
  }

  set isForReader(is: boolean) {
    this.xterm.options.screenReaderMode = is;
  }

  set takesInput(does: boolean) {
    this.xterm.options.disableStdin = !does;
  }

  clear(): void {
    this.xterm.clear();
  }

  close(): void {
    clearTimeout(this.resizing);
    this.observer.disconnect();
    this.xterm.dispose();
  }

  private input(data: Uint8Array): void {
    // Programs query the terminal's features. Every page, and every replay, would answer: only the page with the
    // keyboard focus does.
    if (this.replaying || !document.hasFocus() || !this.place.contains(document.activeElement)) return;
    this.events.onInput(data);
  }

  /** Returns whether xterm handles the key. */
  private press(event: KeyboardEvent): boolean {
    if (event.key === "F6" && !event.shiftKey) {
      if (event.type === "keydown") {
        event.preventDefault();
        this.events.onLeave();
      }
      return false;
    }
    if (event.ctrlKey && !event.altKey && event.code === "Backquote") return false;
    if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
      event.preventDefault(); // the browser would open its developer tools
      if (event.type === "keydown" && this.xterm.hasSelection()) {
        void navigator.clipboard?.writeText(this.xterm.getSelection());
      }
      return false;
    }
    return !(event.ctrlKey && event.shiftKey && event.code === "KeyV"); // the browser's own paste
  }
}

function visit(address: string): void {
  if (/^https?:\/\//i.test(address)) window.open(address, "_blank", "noopener,noreferrer");
}

/** Returns the theme from the current CSS colours of `place`. */
function themeOf(place: HTMLElement): ITheme {
  const probe = place.ownerDocument.createElement("span");
  place.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const theme: ITheme = {
    background: colour("term-bg"),
    foreground: colour("text"),
    cursor: colour("accent"),
    cursorAccent: colour("term-bg"),
    selectionBackground: colour("term-selection"),
    selectionInactiveBackground: colour("term-selection"),
    scrollbarSliderBackground: colour("line"),
    scrollbarSliderHoverBackground: colour("line-strong"),
    scrollbarSliderActiveBackground: colour("line-strong"),
  };
  for (const name of ANSI) {
    theme[name] = colour(`ansi-${name}`);
    theme[`bright${name[0]!.toUpperCase()}${name.slice(1)}` as keyof ITheme] = colour(`ansi-bright-${name}`) as never;
  }
  probe.remove();
  return theme;
}
