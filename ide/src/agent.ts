/** What signed in, from how it names itself, as far as a person needs it to know it again. */
import { t } from "./text";

// The first that fits: most browsers name others as well.
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

/** `Firefox on Linux`, `Terminal on laptop`; what it says itself where that is neither. */
export function clientName(agent: string | null): string {
  if (agent === null || agent === "") return t.account.tokenUnknown;
  const terminal = /^gadget-code\/\S+ on (.+)$/.exec(agent);
  if (terminal !== null) return t.account.tokenTerminal(terminal[1]!);
  const browser = BROWSERS.find(([pattern]) => pattern.test(agent))?.[1];
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  return browser === undefined || system === undefined ? agent : t.account.tokenBrowser(browser, system);
}
