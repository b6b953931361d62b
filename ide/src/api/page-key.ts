/** The second half of the page's sign-in. The cookie has the first half, and goes to every port of this host; storage
 * belongs to one origin. The service takes both together, and neither alone. */

const KEPT = "gadget.page";
export const PAGE_HEADER = "X-Gadget-Page";

/** What this page was loaded or signed in with: two accounts never mix in one page. */
let key = read();

/** Null where this browser has none: nobody is signed in. */
export function pageKey(): string | null {
  return key;
}

/** Keeps the half of `token` that is the page's. */
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
    // It was never kept.
  }
}

/** Another tab has signed in or out: this page begins anew. */
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
