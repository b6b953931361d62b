/** Exports a conversation as Markdown, which the service renders: to the clipboard, or to a file. */
import { download, text } from "../api/http";

const pathOf = (session: string) => `/sessions/${session}/export`;

export function sessionMarkdown(session: string): Promise<string> {
  return text(pathOf(session));
}

export function downloadMarkdown(session: string): Promise<void> {
  return download(pathOf(session));
}
