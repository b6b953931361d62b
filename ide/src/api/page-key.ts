/** The page key: the second half of a sign-in. The cookie holds the first half, but the browser sends it to every port
 * of the host; localStorage belongs to one origin. The service needs both halves. */

const KEPT = "gadget.page";
export const PAGE_HEADER = "X-Gadget-Page";

/** The key at page load or sign-in. It stays the same, so that one page never mixes two accounts. */
let key = read();

/** Returns the key; null if nobody is signed in. */
export function pageKey(): string | null {
  return key;
}

/** Stores the page's half of `token`. */
export function keepPageKey(token: string): void {
  key = token.split(".")[1] ?? null;
  try {
    if (key !== null) localStorage.setItem(KEPT, key);
  } catch {
    // Without storage, the sign-in lasts as long as this page.
  }
}

export function dropPageKey(): void {
  key = null;
  try {
    localStorage.removeItem(KEPT);
  } catch {
    // Without storage, there is nothing to remove.
  }
}

/** Reloads the page when another tab signs in or out. */
export function followOtherTabs(): void {
  addEventListener("storage", (event) => {
    if (event.key === KEPT || event.key === null) location.reload();
  });
}

function read(): string | null {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
