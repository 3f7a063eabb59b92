const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** With padding. */
export function encodeBase64(bytes: Uint8Array): string {
  const letters = new Uint8Array(((bytes.length + 2) / 3) * 4)
  let at = 0
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i
    const group =
      ((<i32>bytes[i]) << 16) | (left > 1 ? (<i32>bytes[i + 1]) << 8 : 0) | (left > 2 ? <i32>bytes[i + 2] : 0)
    letters[at++] = ALPHABET.charCodeAt(group >> 18)
    letters[at++] = ALPHABET.charCodeAt((group >> 12) & 63)
    letters[at++] = left > 1 ? ALPHABET.charCodeAt((group >> 6) & 63) : 0x3d
    letters[at++] = left > 2 ? ALPHABET.charCodeAt(group & 63) : 0x3d
  }
  return String.UTF8.decode(letters.buffer)
}

/** Of text that is right, and padded. */
export function decodeBase64(text: string): Uint8Array {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  const bytes = new Uint8Array((text.length / 4) * 3 - padding)
  let group = 0
  let at = 0
  for (let i = 0; i < text.length - padding; i++) {
    group = (group << 6) | ALPHABET.indexOf(text.charAt(i))
    if ((i & 3) > 0) bytes[at++] = (group >> (6 - 2 * (i & 3))) & 255
  }
  return bytes
}
