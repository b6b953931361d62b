/** Batches items and flushes them once per animation frame, so that rendering keeps up with a fast stream. */

const HIDDEN_MS = 250; // a hidden page gets no animation frames

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

  /** Flushes the waiting items now. Call it before anything that must come after them. */
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
  // A page that becomes hidden gets no frame, so a timer runs as well. The first of the two counts.
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
