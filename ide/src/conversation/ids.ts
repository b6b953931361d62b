/** Returns a random id of 24 hexadecimal digits. */
export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
