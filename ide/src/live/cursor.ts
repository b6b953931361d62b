/**
 * Decides which events of a session's stream count, so that each event counts once and in order.
 *
 * Drops repeats. An event of a later epoch replaces the events from its `seq` on. After a gap, the caller requests the
 * stream again; events that are missing then, too, have expired, and the stream continues without them. See
 * docs/explanation/delivery-guarantees.md.
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
  private requested: { turnId: string; seq: number } | null = null;

  /** Classifies an event, and advances to it if it counts. */
  take(event: Position): Verdict {
    const verdict = this.judge(event);
    if (verdict === "next" || verdict === "replaces") {
      this.last = { turnId: event.turnId, seq: event.seq, epoch: event.epoch };
    } else if (verdict === "gap") {
      this.requested = { turnId: event.turnId, seq: event.seq };
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
    const again = this.requested?.turnId === event.turnId && this.requested.seq === event.seq;
    return again ? "next" : "gap";
  }
}
