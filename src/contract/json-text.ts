const NOTHING = 0
const BACKSLASH = 0x5c
/** What the text of a string says; it is known to be UTF-8, and its escapes to be right. */
export function unescaped(text: Buffer): Buffer {
  const { length } = text
  const said = Buffer.allocUnsafe(length) // an escape is longer than what it stands for
  let size = 0
  for (let at = 0; at < length; at++) {
    const byte = text[at] ?? NOTHING
    if (byte !== BACKSLASH) {
      said[size++] = byte
      continue
    }
    const escaped = text[++at] ?? NOTHING
    if (escaped !== LOWER_U) {
      said[size++] = UNESCAPED[escaped] ?? NOTHING
      continue
    }
    let code = hexAt(text, at + 1)
    at += HEX_DIGITS
    if (code >= 0xd800 && code < 0xe000) {
      const isPair = code < 0xdc00 && text[at + 1] === BACKSLASH && text[at + 2] === LOWER_U
      const low = isPair ? hexAt(text, at + 3) : 0
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00)
        at += 2 + HEX_DIGITS
      } else code = 0xfffd // half a character
    }
    size = writeUtf8(said, size, code)
  }
  return said.subarray(0, size)
}

/** @returns behind its last byte. */
function writeUtf8(bytes: Buffer, start: number, code: number): number {
  let at = start
  if (code < 0x80) bytes[at++] = code
  else {
    if (code < 0x800) bytes[at++] = 0xc0 | (code >> 6)
    else {
      if (code < 0x1_0000) bytes[at++] = 0xe0 | (code >> 12)
      else {
        bytes[at++] = 0xf0 | (code >> 18)
        bytes[at++] = 0x80 | ((code >> 12) & 0x3f)
      }
      bytes[at++] = 0x80 | ((code >> 6) & 0x3f)
    }
    bytes[at++] = 0x80 | (code & 0x3f)
  }
  return at
}

/** The number that four hexadecimal digits are. */
function hexAt(bytes: Buffer, at: number): number {
  return (
    (digit(bytes[at]) << 12) |
    (digit(bytes[at + 1]) << 8) |
    (digit(bytes[at + 2]) << 4) |
    digit(bytes[at + 3])
  )
}

function digit(byte: number | undefined): number {
  return HEX[byte ?? NOTHING] ?? 0
}

const LOWER_U = 0x75

/** Digits of an escape such as `\u00e9`. */
const HEX_DIGITS = 4

const HEX = new Uint8Array(256)
for (let value = 0; value < 16; value++) {
  for (const byte of Buffer.from(value.toString(16) + value.toString(16).toUpperCase())) HEX[byte] = value
}

/** What stands for what behind a backslash, but for `u`. */
const UNESCAPED = new Uint8Array(256)
for (const [escaped, said] of Object.entries({
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  '/': '/',
  '"': '"',
  '\\': '\\',
})) {
  UNESCAPED[escaped.charCodeAt(0)] = said.charCodeAt(0)
}
