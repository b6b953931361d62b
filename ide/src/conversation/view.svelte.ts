/** How one conversation is shown, for all its parts. */
import { createContext } from "svelte";

import type { SessionView } from "./session.svelte";
import type { TurnView } from "./turn.svelte";

export class View {
  /** Set: every tool card is open, or closed. */
  areToolsOpen = $state<boolean | null>(null);

  constructor(
    readonly session: SessionView,
    /** Puts a text into the composer. */
    readonly compose: (text: string) => void,
    /** Asks whether to go back to before a turn. */
    readonly askRevert: (turn: TurnView) => void,
  ) {}
}

export const [useView, provideView] = createContext<View>();
