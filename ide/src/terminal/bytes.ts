/** Base64 and UTF-8: what a terminal says and is told is bytes. */

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  // In pieces: a call takes so many arguments only.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** A string of which each character is one byte. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

/** Without the half of a character or of an escape sequence that it may begin with: from its second line on. */
export function fromLine(bytes: Uint8Array): Uint8Array {
  const end = bytes.subarray(0, 4096).indexOf(10);
  return end < 0 ? bytes : bytes.subarray(end + 1);
}
