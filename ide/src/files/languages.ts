/** Finds a file's language by its name. The page loads a language with its first file. */
import type { LanguageSupport } from "@codemirror/language";

type Load = () => Promise<LanguageSupport>;

const python: Load = async () => (await import("@codemirror/lang-python")).python();
const script = (config: { typescript?: boolean; jsx?: boolean }): Load => async () =>
  (await import("@codemirror/lang-javascript")).javascript(config);
const json: Load = async () => (await import("@codemirror/lang-json")).json();
const css: Load = async () => (await import("@codemirror/lang-css")).css();
const html: Load = async () => (await import("@codemirror/lang-html")).html();
const rust: Load = async () => (await import("@codemirror/lang-rust")).rust();
const go: Load = async () => (await import("@codemirror/lang-go")).go();
const cpp: Load = async () => (await import("@codemirror/lang-cpp")).cpp();
const java: Load = async () => (await import("@codemirror/lang-java")).java();
const yaml: Load = async () => (await import("@codemirror/lang-yaml")).yaml();
const markdown: Load = async () => (await import("@codemirror/lang-markdown")).markdown();

const BY_ENDING: Record<string, Load> = {
  ...{ py: python, pyi: python, js: script({}), mjs: script({}), cjs: script({}), jsx: script({ jsx: true }) },
  ...{ ts: script({ typescript: true }), mts: script({ typescript: true }), cts: script({ typescript: true }) },
  ...{ tsx: script({ typescript: true, jsx: true }), json, jsonc: json, webmanifest: json, css, html, htm: html },
  ...{ svelte: html, vue: html, xml: html, svg: html, rs: rust, go, java, yaml, yml: yaml, md: markdown },
  ...{ markdown, c: cpp, h: cpp, cpp, cc: cpp, cxx: cpp, hpp: cpp, hh: cpp },
};

/** Returns null for an unknown language. */
export async function languageOf(path: string): Promise<LanguageSupport | null> {
  const ending = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  return (await BY_ENDING[ending]?.()) ?? null;
}
