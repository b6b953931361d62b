/** Renders Markdown as harmless HTML. The text of a model is not trusted. */
import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";

import { marked } from "../disguise";
import { t } from "../text";

const escaped = (text: string) =>
  text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]!);

const markdown = new Marked({
  gfm: true,
  async: false,
  renderer: {
    // HTML in Markdown is shown as text.
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escaped(text),
    // Loading an image would tell its server that the text was read.
    image: ({ href, text }: Tokens.Image) => {
      const alt = escaped(text || t.conversation.image);
      return isWebLink(href)
        ? `<a href="${escaped(href)}" class="blocked-image">${alt} <small>${escaped(t.conversation.imageBlocked)}</small></a>`
        : `<span class="blocked-image">${alt}</span>`;
    },
    link(link: Tokens.Link) {
      const inner = this.parser.parseInline(link.tokens);
      if (!isWebLink(link.href)) return `<span title="${escaped(link.href)}">${inner}</span>`;
      return `<a href="${escaped(link.href)}" title="${escaped(link.href)}">${inner}</a>`;
    },
    code: ({ text, lang }: Tokens.Code) => {
      const language = (lang ?? "").split(/\s/)[0] ?? "";
      return `<pre data-language="${escaped(language)}"><code>${escaped(text)}\n</code></pre>`;
    },
    checkbox: ({ checked }: Tokens.Checkbox) => (checked ? "☑ " : "☐ "),
    table(table: Tokens.Table) {
      const row = (cells: Tokens.TableCell[], tag: "th" | "td") =>
        `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join("")}</tr>`;
      const body = table.rows.map((cells) => row(cells, "td")).join("");
      return `<div class="table" tabindex="0" role="group" aria-label="${escaped(t.conversation.table)}"><table><thead>${row(table.header, "th")}</thead><tbody>${body}</tbody></table></div>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "span", "small"],
    ...["h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "div"],
  ],
  ALLOWED_ATTR: ["href", "title", "class", "start", "data-language", "tabindex", "role", "aria-label", "rel", "target"],
  ALLOW_DATA_ATTR: false,
};

let isReady = false;

/** Returns safe HTML for whole blocks of Markdown. */
export function toHtml(source: string): string {
  if (!isReady) {
    isReady = true;
    // After parsing, because an entity such as &#x202e; is then a character.
    DOMPurify.addHook("uponSanitizeElement", (node) => {
      if (node.nodeType === Node.TEXT_NODE) node.nodeValue = marked(node.nodeValue ?? "");
    });
    DOMPurify.addHook("afterSanitizeAttributes", (element) => {
      if (element.hasAttribute("title")) element.setAttribute("title", marked(element.getAttribute("title")!));
      if (element.tagName !== "A") return;
      element.setAttribute("rel", "noopener noreferrer nofollow");
      element.setAttribute("target", "_blank");
    });
  }
  return DOMPurify.sanitize(markdown.parse(source) as string, ALLOWED);
}

/** Whether a link is allowed: a web page or an e-mail address, and no script. */
export function isWebLink(href: string): boolean {
  try {
    const url = new URL(href);
    return url.protocol === "https:" || url.protocol === "http:" || url.protocol === "mailto:";
  } catch {
    return false;
  }
}
