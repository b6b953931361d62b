/**
 * Which events of a session's stream count, as docs/explanation/delivery-guarantees.md says: each once, in order.
 *
 * A repeat is dropped. An event of a later epoch takes the place of what there is from its number on. Where numbers are
 * missing, the stream is asked for again; what is missing then too has expired, and the stream goes on without it.
 */
export interface Position {
  turnId: string;
  seq: number;
  epoch: number;
}

export type Verdict = "next" | "replaces" | "repeat" | "gap";

export class StreamCursor {
  /** The last event that counted; null before the first. */
  last: Position | null = null;
  private asked: { turnId: string; seq: number } | null = null;

  /** Judges an event, and moves on to it when it counts. */
  take(event: Position): Verdict {
    const verdict = this.judge(event);
    if (verdict === "next" || verdict === "replaces") {
      this.last = { turnId: event.turnId, seq: event.seq, epoch: event.epoch };
    } else if (verdict === "gap") {
      this.asked = { turnId: event.turnId, seq: event.seq };
    }
    return verdict;
  }

  private judge(event: Position): Verdict {
    const have = this.last;
    if (have === null || (have.turnId < event.turnId && event.seq === 1)) return "next";
    if (have.turnId === event.turnId) {
      if (event.epoch < have.epoch) return "repeat";
      if (event.seq === have.seq + 1) return "next";
      if (event.seq <= have.seq) return event.epoch > have.epoch ? "replaces" : "repeat";
    } else if (have.turnId > event.turnId) {
      return "repeat";
    }
    const again = this.asked?.turnId === event.turnId && this.asked.seq === event.seq;
    return again ? "next" : "gap";
  }
}
