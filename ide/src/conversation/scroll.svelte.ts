/** A scroller that stays at its end while what is in it grows, until its user scrolls up. */

const NEAR = 48; // px from the end that count as the end

export function pinned(scroller: () => HTMLElement | undefined) {
  let isPinned = $state(true);
  let lastTop = 0;
  let lastHeight = 0;

  function toEnd(): void {
    const element = scroller();
    if (element === undefined) return;
    element.scrollTop = element.scrollHeight;
    isPinned = true;
  }

  function moved(): void {
    const element = scroller();
    if (element === undefined) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR;
    // What shrinks moves the scroller too, and nobody scrolled.
    const wentUp = scrollTop < lastTop - 1 && scrollHeight >= lastHeight;
    if (isAtEnd) isPinned = true;
    else if (wentUp) isPinned = false;
    lastTop = scrollTop;
    lastHeight = scrollHeight;
  }

  function follow(content: HTMLElement): () => void {
    const observer = new ResizeObserver(() => {
      if (isPinned) toEnd();
    });
    observer.observe(content);
    const outer = scroller();
    if (outer !== undefined) observer.observe(outer);
    return () => observer.disconnect();
  }

  return {
    get isPinned() {
      return isPinned;
    },
    toEnd,
    moved,
    follow,
  };
}
