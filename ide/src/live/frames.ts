/** Gathers what comes in, and hands it over once a frame: rendering keeps up with any stream. */

const HIDDEN_MS = 250; // a page that is not shown has no frames

export class FrameBatch<Item> {
  private waiting: Item[] = [];
  private planned = false;

  constructor(
    private readonly flush: (items: Item[]) => void,
    private readonly plan: (run: () => void) => void = nextFrame,
  ) {}

  push(item: Item): void {
    this.waiting.push(item);
    if (this.planned) return;
    this.planned = true;
    this.plan(() => this.flushNow());
  }

  /** Hands over what waits, before anything that has to come after it. */
  flushNow(): void {
    this.planned = false;
    const items = this.waiting;
    if (!items.length) return;
    this.waiting = [];
    this.flush(items);
  }
}

export function nextFrame(run: () => void): void {
  if (document.hidden) {
    setTimeout(run, HIDDEN_MS);
    return;
  }
  // A page that is hidden in between gets no frame: whichever comes first.
  let done = false;
  const once = () => {
    if (!done) {
      done = true;
      run();
    }
  };
  requestAnimationFrame(once);
  setTimeout(once, HIDDEN_MS);
}
