/** Records pushes during a request. Such a push is newer than the reply, so the reply must not overwrite it. */
export class PushTracker {
  private readonly asks = new Set<Set<string>>();

  /** Records a push for a field name or document id. */
  pushed(what: string): void {
    for (const newer of this.asks) newer.add(what);
  }

  /** Waits for the reply. Returns it with the names and ids that were pushed in the meantime. */
  async track<Answer>(ask: Promise<Answer>): Promise<[Answer, ReadonlySet<string>]> {
    const newer = new Set<string>();
    this.asks.add(newer);
    try {
      return [await ask, newer];
    } finally {
      this.asks.delete(newer);
    }
  }
}
