/** Derives a readable client name from a User-Agent header. */
import { t } from "./text";

// The first match counts, because most browsers also name other browsers.
const BROWSERS = [
  [/\bEdg(?:A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:HeadlessChrome|Chromium|Chrome|CriOS)\//, "Chrome"],
  [/\bSafari\//, "Safari"],
] as const;
const SYSTEMS = [
  [/\bAndroid\b/, "Android"],
  [/\b(?:iPhone|iPad)\b/, "iOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b/, "Linux"],
] as const;

/** Returns a name such as `Firefox on Linux` or `Terminal on laptop`, or the header itself for another client. */
export function clientName(agent: string | null): string {
  if (agent === null || agent === "") return t.account.tokenUnknown;
  const terminal = /^gadget-code\/\S+ on (.+)$/.exec(agent);
  if (terminal !== null) return t.account.tokenTerminal(terminal[1]!);
  const browser = BROWSERS.find(([pattern]) => pattern.test(agent))?.[1];
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  return browser === undefined || system === undefined ? agent : t.account.tokenBrowser(browser, system);
}
