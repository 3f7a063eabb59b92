/** @returns undefined if it is no base64; white space does not count, and URL-safe digits do. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const plain = text.replaceAll(/\s/g, '').replaceAll('-', '+').replaceAll('_', '/')
  try {
    return Uint8Array.from(atob(plain), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

/** In pieces: the arguments of a function are bounded. */
export function toBase64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += PIECE)
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE))
  return btoa(text)
}

const PIECE = 0x8000

/** @returns undefined if they are no UTF-8, or have characters that are not for reading. */
export function toText(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return UNREADABLE.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNREADABLE = /[\u0000-\u0008\u000e-\u001f\u007f]/

/** Sixteen a line, with their place in front, as `xxd` has it. */
export function toHex(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)].map((byte) => byte.toString(16).padStart(2, '0'))
    lines.push(`${at.toString(16).padStart(6, '0')}  ${row.join(' ')}`)
  }
  return lines.join('\n')
}
