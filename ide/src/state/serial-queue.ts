/** Runs changes one after the other, so that each starts from the result of the previous one. */
export class SerialQueue {
  private last: Promise<unknown> = Promise.resolve();

  /** Runs `action` after all earlier actions have ended or failed. */
  run<Result>(action: () => Promise<Result>): Promise<Result> {
    const done = this.last.then(action);
    this.last = done.catch(() => {}); // the caller gets the error
    return done;
  }
}
