/** Keeps a scroll container at its end while its content grows, until the user scrolls up. */

const NEAR = 48; // px: closer than this is "at the end"

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
    // Shrinking content also moves the container, without a scroll by the user.
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
