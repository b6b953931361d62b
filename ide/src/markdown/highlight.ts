/** Highlights code with Lezer's parsers. The page loads a language when it is first shown. */
import { classHighlighter, highlightCode, highlightTree } from "@lezer/highlight";
import type { Parser } from "@lezer/common";

type Load = () => Promise<Parser>;

const python: Load = async () => (await import("@lezer/python")).parser;
const javascript: Load = async () => (await import("@lezer/javascript")).parser;
const typescript: Load = async () => (await import("@lezer/javascript")).parser.configure({ dialect: "ts" });
const tsx: Load = async () => (await import("@lezer/javascript")).parser.configure({ dialect: "ts jsx" });
const jsx: Load = async () => (await import("@lezer/javascript")).parser.configure({ dialect: "jsx" });
const json: Load = async () => (await import("@lezer/json")).parser;
const css: Load = async () => (await import("@lezer/css")).parser;
const html: Load = async () => (await import("@lezer/html")).parser;
const rust: Load = async () => (await import("@lezer/rust")).parser;
const go: Load = async () => (await import("@lezer/go")).parser;
const cpp: Load = async () => (await import("@lezer/cpp")).parser;
const java: Load = async () => (await import("@lezer/java")).parser;
const yaml: Load = async () => (await import("@lezer/yaml")).parser;

const LANGUAGES: Record<string, Load> = {
  ...{ python, py: python, javascript, js: javascript, mjs: javascript, typescript, ts: typescript, tsx, jsx },
  ...{ json, jsonc: json, css, html, svelte: html, vue: html, xml: html, rust, rs: rust, go, yaml, yml: yaml },
  ...{ c: cpp, h: cpp, cpp, "c++": cpp, cc: cpp, hpp: cpp, java },
};
const MAX_LENGTH = 100_000; // characters: 30 ms

/** Returns the code with spans for its colours; null for an unknown language. */
export async function highlighted(code: string, language: string): Promise<DocumentFragment | null> {
  const load = LANGUAGES[language.toLowerCase()];
  if (load === undefined || code.length > MAX_LENGTH) return null;
  const tree = (await load()).parse(code);
  const fragment = document.createDocumentFragment();
  let at = 0;
  highlightTree(tree, classHighlighter, (from, to, classes) => {
    if (from > at) fragment.append(code.slice(at, from));
    const span = document.createElement("span");
    span.className = classes;
    span.textContent = code.slice(from, to);
    fragment.append(span);
    at = to;
  });
  fragment.append(code.slice(at));
  return fragment;
}

export interface Span {
  text: string;
  /** Empty for text without a colour. */
  classes: string;
}

/** Returns the coloured parts of each line. */
export async function highlightedLines(code: string, language: string): Promise<Span[][] | null> {
  const load = LANGUAGES[language.toLowerCase()];
  if (load === undefined || code.length > MAX_LENGTH) return null;
  const lines: Span[][] = [[]];
  const put = (text: string, classes: string) => lines.at(-1)!.push({ text, classes });
  highlightCode(code, (await load()).parse(code), classHighlighter, put, () => lines.push([]));
  return lines;
}

export function knows(language: string): boolean {
  return language.toLowerCase() in LANGUAGES;
}
