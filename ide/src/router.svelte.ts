/** Decides which page is shown, by the address bar. */

export type Route =
  | { page: "home" | "new" | "welcome" | "drones" | "providers" | "usage" | "rules" | "users" | "account" }
  | { page: "session"; id: string };

const PLAIN = ["new", "welcome", "drones", "providers", "usage", "rules", "users", "account"] as const;

export function parse(path: string): Route {
  const [first = "", second = ""] = path.split("/").filter(Boolean);
  if (first === "s" && second !== "") return { page: "session", id: decodeURIComponent(second) };
  const plain = PLAIN.find((page) => page === first);
  return { page: plain ?? "home" };
}

export function pathOf(route: Route): string {
  if (route.page === "session") return `/s/${encodeURIComponent(route.id)}`;
  return route.page === "home" ? "/" : `/${route.page}`;
}

export class Router {
  route = $state.raw<Route>({ page: "home" });

  /** Follows the address bar and the links within the page, until the page closes. */
  start(): void {
    this.route = parse(location.pathname);
    addEventListener("popstate", () => (this.route = parse(location.pathname)));
    document.addEventListener("click", (event) => {
      const link = (event.target as Element).closest?.("a[href^='/']");
      const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
      if (!(link instanceof HTMLAnchorElement) || !isPlain || link.target === "_blank" || link.hasAttribute("download")) return;
      if (link.pathname.startsWith("/api/")) return;
      event.preventDefault();
      this.go(parse(link.pathname));
    });
  }

  go(route: Route, how: "push" | "replace" = "push"): void {
    const path = pathOf(route);
    if (path !== location.pathname) history[how === "push" ? "pushState" : "replaceState"](null, "", path);
    this.route = route;
  }
}
