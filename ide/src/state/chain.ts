/** One change after the other: each is made of what the one before it left, and no late answer takes a newer one's place. */
export class Chain {
  private last: Promise<unknown> = Promise.resolve();

  /** Does it when all that was asked for before is done, or has failed. */
  do<Result>(action: () => Promise<Result>): Promise<Result> {
    const done = this.last.then(action);
    this.last = done.catch(() => {}); // whoever asked for it is told
    return done;
  }
}
