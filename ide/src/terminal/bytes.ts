/** Converts the bytes of a terminal from and to base64 and UTF-8. */

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  // In pieces, because the number of arguments of a call is limited.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Converts a binary string, whose characters are bytes. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

/** Drops the first line, because it may begin within a character or an escape sequence. */
export function fromLine(bytes: Uint8Array): Uint8Array {
  const end = bytes.subarray(0, 4096).indexOf(10);
  return end < 0 ? bytes : bytes.subarray(end + 1);
}
