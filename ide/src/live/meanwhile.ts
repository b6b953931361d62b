/** An answer is as old as its question: what was pushed while it was on its way is newer, and stays. */
export class Meanwhile {
  private readonly asks = new Set<Set<string>>();

  /** What goes by this name, or has this id, was pushed. */
  pushed(what: string): void {
    for (const newer of this.asks) newer.add(what);
  }

  /** The answer, and what was pushed while it was on its way. */
  async during<Answer>(ask: Promise<Answer>): Promise<[Answer, ReadonlySet<string>]> {
    const newer = new Set<string>();
    this.asks.add(newer);
    try {
      return [await ask, newer];
    } finally {
      this.asks.delete(newer);
    }
  }
}
