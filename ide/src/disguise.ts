/** Characters that make a text look like another one, shown as marks. The tables are those of gadget_api/disguise.py,
 * which says what they are; a test compares both. */

type Ranges = readonly (readonly [number, number])[];

export const HIDDEN: Ranges = [
  [0x0000, 0x0008], [0x000B, 0x001F], [0x007F, 0x009F], [0x00AD, 0x00AD], [0x034F, 0x034F], [0x061C, 0x061C],
  [0x115F, 0x1160], [0x17B4, 0x17B5], [0x180B, 0x180F], [0x200B, 0x200F], [0x2028, 0x202E], [0x2060, 0x206F],
  [0x2800, 0x2800], [0x3164, 0x3164], [0xD800, 0xDFFF], [0xFE00, 0xFE0F], [0xFEFF, 0xFEFF], [0xFFA0, 0xFFA0],
  [0xFFF0, 0xFFFB], [0x13430, 0x1345F], [0x1BCA0, 0x1BCA3], [0x1D173, 0x1D17A], [0xE0000, 0xE0FFF],
];
export const EMOJI: Ranges = [
  [0x00A9, 0x00A9], [0x00AE, 0x00AE], [0x203C, 0x203C], [0x2049, 0x2049], [0x2122, 0x2122], [0x2139, 0x2139],
  [0x2190, 0x21FF], [0x2300, 0x23FF], [0x24C2, 0x24C2], [0x25A0, 0x27BF], [0x2900, 0x297F], [0x2B00, 0x2BFF],
  [0x3030, 0x3030], [0x303D, 0x303D], [0x3297, 0x3297], [0x3299, 0x3299], [0x1F000, 0x1FAFF],
];
export const JOINED: Ranges = [[0x0600, 0x06FF], [0x0750, 0x077F], [0x08A0, 0x08FF], [0x0900, 0x0DFF], [0x1780, 0x17FF]];
export const FOREIGN: Ranges = [[0x0400, 0x052F], [0x0531, 0x0587], [0x13A0, 0x13FF]];
export const WIDE: Ranges = [[0xFF21, 0xFF3A], [0xFF41, 0xFF5A], [0x1D400, 0x1D7FF]];
export const LOOKALIKES =
  "АВЕКМНОРСТУХЅІЈԌԚԜаеорсухѕіјһԁԛԝӏүґЬѴѵ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιανρυϲϳ" + "ՕՍօսոցհզԼ" + "ᎪᎬᎢᎥᎷᏂᏃᏌᏚᏞᏟᏢᏴ" + "ı";

const point = (code: number) => `\\u{${code.toString(16)}}`;
const inClass = (ranges: Ranges) => ranges.map(([first, last]) => `${point(first)}-${point(last)}`).join("");

const emoji = inClass(EMOJI);
const joined = inClass(JOINED);
const emojiThen = `[${emoji}][\\u{1F3FB}-\\u{1F3FF}\\uFE0E\\uFE0F]?`;
const flags = ["gbeng", "gbsct", "gbwls"].map((name) => [...name].map((c) => point(0xe0000 + c.codePointAt(0)!)).join("")).join("|");
const fine = [
  `\\u{1F3F4}(?:${flags})\\u{E007F}`,
  `${emojiThen}(?:\\u200D${emojiThen})*`,
  "[0-9#*]\\uFE0F\\u20E3",
  "\\r\\n",
  `[${joined}][\\u200C\\u200D](?=[${joined}])`,
].join("|");
const SEEN = new RegExp(`(?<fine>${fine})|[${inClass(HIDDEN)}]`, "gu");
const LOOKALIKE = new RegExp(`[${LOOKALIKES}${inClass(WIDE)}]`, "gu");
const MIXED = new RegExp(`[${LOOKALIKES}${inClass(WIDE)}${inClass(FOREIGN)}]`, "gu");
const WORD = /[^\s/\\:@'"()<>|&;,=?#[\]{}⟦⟧]+/gu;
const PLAIN = /^[\x20-\x7e\n\t]*$/;

/** `text` with a mark such as `⟦U+202E⟧` for each character that hides, turns what follows, or looks like a Latin letter
 * beside Latin ones. */
export function marked(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(WORD, unmixed).replace(SEEN, (found, isFine: string | undefined) => isFine ?? mark(found));
}

/** Whether something in one of them is marked. */
export function isDisguised(...texts: string[]): boolean {
  return texts.some((text) => marked(text) !== text);
}

function mark(character: string): string {
  return `⟦U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

function unmixed(word: string): string {
  return /[A-Za-z]/.test(word) ? word.split(".").map(unmixedLabel).join(".") : word;
}

function unmixedLabel(label: string): string {
  if (label.replace(/[0-9_-]/g, "").replace(LOOKALIKE, "") === "") return label.replace(LOOKALIKE, mark);
  return label.replace(/[^-_]+/g, (part) => (/[A-Za-z]/.test(part) ? part.replace(MIXED, mark) : part));
}
