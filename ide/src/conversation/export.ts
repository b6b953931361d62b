/** A conversation as Markdown, as the service writes it: to copy, or as a file. */
import { text } from "../api/http";

const pathOf = (session: string) => `/sessions/${session}/export`;

export function sessionMarkdown(session: string): Promise<string> {
  return text(pathOf(session));
}

export function downloadMarkdown(session: string): void {
  const link = document.createElement("a");
  link.href = `/api/v1${pathOf(session)}`;
  link.download = ""; // the service names it
  link.click();
}
