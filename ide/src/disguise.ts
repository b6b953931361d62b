/** Characters that make a text look like another one, shown as marks. The tables are those of gadget_api/disguise.py,
 * which says what they are; a test compares both. */

/** From and to, in hexadecimal. */
export const HIDDEN =
  "0-8 b-1f 7f-9f ad-ad 34f-34f 61c-61c 115f-1160 17b4-17b5 180b-180f 200b-200f 2028-202e 2060-206f 2800-2800 " +
  "3164-3164 d800-dfff fe00-fe0f feff-feff ffa0-ffa0 fff0-fffb 13430-1345f 1bca0-1bca3 1d173-1d17a " +
  "e0000-e0fff";
export const SHAPELESS = "a0-a0 1680-1680 2000-200a 202f-202f 205f-205f e000-f8ff fffc-fffc f0000-10ffff";
export const BESIDE = "2ba-2ba 2010-2011 2033-2033 2212-2212 3000-3000 ff02-ff02";
export const EMOJI =
  "a9-a9 ae-ae 203c-203c 2049-2049 2122-2122 2139-2139 2190-21ff 2300-23ff 24c2-24c2 25a0-27bf 2900-297f " +
  "2b00-2bff 3030-3030 303d-303d 3297-3297 3299-3299 1f000-1faff";
export const JOINED = "600-6ff 750-77f 8a0-8ff 900-dff 1780-17ff";
export const FOREIGN =
  "400-52f 531-587 10a0-10ff 13a0-13ff 1400-16ff 1c80-1cbf 2c80-2dff a4d0-a4ff a640-a69f ab70-abbf " +
  "10280-1031f 10400-1052f 118a0-118ff 16f00-16f9f";
export const WIDE =
  "2102-2102 210a-210e 2110-2113 2115-2115 2119-211d 2124-2124 2128-2128 212a-212a 212c-212d 212f-2131 " +
  "2133-2134 2145-2149 2160-217f ff21-ff3a ff41-ff5a 1d400-1d7ff";
export const SIGNS =
  "2024-2024 2044-2044 2215-2216 2236-2236 29f5-29f5 29f8-29f9 3002-3002 a789-a789 fe52-fe52 fe55-fe55 " +
  "fe68-fe68 ff0e-ff0f ff20-ff20 ff3c-ff3c ff61-ff61";
export const LOOKALIKES =
  "АВЕКМНОРСТУХЅІЈԌԚԜаеорсухѕіјһԁԛԝӏүґЬѴѵ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιανρυϲϳ" + "ՕՍօսոցհզԼ" + "ᎪᎬᎢᎥᎷᏂᏃᏌᏚᏞᏟᏢᏴ" +
  "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ" + "ⲂⲎⲒⲓⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲨⲩⲬⲭ" + "ıȷɑɡɩɪʋʏᴄᴏᴜᴠᴡᴢꜱꝛꞮ";

const point = (code: number) => `\\u{${code.toString(16)}}`;
const inClass = (ranges: string) => ranges.replace(/[0-9a-f]+/g, "\\u{$&}").replaceAll(" ", "");

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
const beside = `[${inClass(BESIDE)}]+`;
const SEEN = new RegExp(
  `(?<fine>${fine})|[${inClass(HIDDEN)}${inClass(SHAPELESS)}]|(?<=[!-~])${beside}|${beside}(?=[!-~])`,
  "gu",
);
const LOOKALIKE = new RegExp(`[${LOOKALIKES}${inClass(WIDE)}]`, "gu");
const MIXED = new RegExp(`[${LOOKALIKES}${inClass(WIDE)}${inClass(FOREIGN)}]`, "gu");
const SIGN = new RegExp(`(?<=[A-Za-z0-9_-])[${inClass(SIGNS)}]+(?=[A-Za-z0-9_-])`, "gu");
const WORD = /[^\s/\\:@'"()<>|&;,=?#[\]{}⟦⟧]+/gu;
const PLAIN = /^[\x20-\x7e\n\t]*$/;

/** `text` with a mark such as `⟦U+202E⟧` for each character that hides, turns what follows, or looks like a Latin letter
 * beside Latin ones. */
export function marked(text: string): string {
  if (PLAIN.test(text)) return text;
  return text.replace(WORD, unmixed).replace(SEEN, (found, isFine: string | undefined) => isFine ?? marks(found));
}

/** Whether something in one of them is marked. */
export function isDisguised(...texts: string[]): boolean {
  return texts.some((text) => marked(text) !== text);
}

function mark(character: string): string {
  return `⟦U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟧`;
}

function marks(characters: string): string {
  return [...characters].map(mark).join("");
}

function unmixed(word: string): string {
  if (!/[A-Za-z]/.test(word)) return word;
  const shown = word.replace(SIGN, marks);
  return shown.split(".").map(unmixedLabel).join(".");
}

function unmixedLabel(label: string): string {
  if (label.replace(/[0-9_-]/g, "").replace(LOOKALIKE, "") === "") return label.replace(LOOKALIKE, mark);
  return label.replace(/[^-_]+/g, (part) => (/[A-Za-z]/.test(part) ? part.replace(MIXED, mark) : part));
}
