/* Bytes and text. */

/** The bytes of a text, an ArrayBuffer or a view of one. */
export function bytesOf(data, what = 'data') {
  if (typeof data === 'string') return host.encode(data.toWellFormed())
  if (data instanceof ArrayBuffer) return new Uint8Array(data)
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  throw new TypeError(`${what} must be a text, an ArrayBuffer or a view of one, not ${typeNameOf(data)}`)
}

const typeNameOf = (value) => (value === null ? 'null' : typeof value)

export class TextEncoder {
  get encoding() {
    return 'utf-8'
  }
  encode(text = '') {
    return bytesOf(String(text))
  }
  encodeInto(text, target) {
    let read = 0
    let written = 0
    for (const character of String(text)) {
      const bytes = bytesOf(character)
      if (written + bytes.length > target.length) break
      target.set(bytes, written)
      written += bytes.length
      read += character.length
    }
    return { read, written }
  }
}

const ENCODINGS = new Map(
  Object.entries({
    'utf-8': ['utf-8', 'utf8', 'unicode-1-1-utf-8'],
    'utf-16le': ['utf-16le', 'utf-16', 'unicode', 'ucs-2'],
    'windows-1252': ['latin1', 'iso-8859-1', 'ascii', 'us-ascii', 'windows-1252'],
  }).flatMap(([encoding, labels]) => labels.map((label) => [label, encoding])),
)

export class TextDecoder {
  #rest = new Uint8Array()
  #isStarted = false
  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    const encoding = ENCODINGS.get(String(label).trim().toLowerCase())
    if (!encoding) throw new RangeError(`the encoding ${label} is not supported`)
    Object.assign(this, { encoding, fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM) })
  }
  decode(data = new Uint8Array(), { stream = false } = {}) {
    const bytes = joined(this.#rest, bytesOf(data))
    const end = stream ? wholeEnd(bytes, this.encoding) : bytes.length
    this.#rest = bytes.slice(end)
    let text = decoders[this.encoding](bytes.subarray(0, end), this.fatal)
    if (text === undefined || text === null) throw new TypeError(`the data is not valid ${this.encoding}`)
    if (!this.#isStarted && !this.ignoreBOM && text.startsWith('\ufeff')) text = text.slice(1)
    this.#isStarted = stream && (this.#isStarted || end > 0)
    return text
  }
}

const decoders = {
  'utf-8': (bytes, fatal) => host.decode(bytes, fatal),
  'utf-16le': (bytes, fatal) => {
    let text = ''
    for (let at = 0; at + 1 < bytes.length; at += 2)
      text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8))
    if (bytes.length % 2) text += '\ufffd'
    return fatal && (bytes.length % 2 || !text.isWellFormed()) ? undefined : text.toWellFormed()
  },
  'windows-1252': (bytes) =>
    Array.from(bytes, (byte) => WINDOWS_1252[byte - 128] ?? String.fromCharCode(byte)).join(''),
}
const WINDOWS_1252 = [...'€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ']

/** The end of the last character that is whole. */
function wholeEnd(bytes, encoding) {
  if (encoding === 'utf-16le') return bytes.length & ~1
  if (encoding !== 'utf-8') return bytes.length
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]
    if (byte >= 0xc0)
      return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? bytes.length - back : bytes.length
    if (byte < 0x80) break
  }
  return bytes.length
}

function joined(first, second) {
  if (first.length === 0) return second
  const bytes = new Uint8Array(first.length + second.length)
  bytes.set(first)
  bytes.set(second, first.length)
  return bytes
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
export const BASE64_VALUES = new Map([...BASE64].map((character, value) => [character, value]))

export function base64Of(bytes) {
  let text = ''
  for (let at = 0; at < bytes.length; at += 3) {
    const bits = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
    text += BASE64[bits >> 18] + BASE64[(bits >> 12) & 63]
    text += at + 1 < bytes.length ? BASE64[(bits >> 6) & 63] : '='
    text += at + 2 < bytes.length ? BASE64[bits & 63] : '='
  }
  return text
}

export function fromBase64(text) {
  const digits = String(text).replace(/[\t\n\f\r ]/g, '')
  const length = digits.length % 4 === 0 ? digits.replace(/={1,2}$/, '').length : digits.length
  if (length % 4 === 1) throw new DOMException('the text is not base64', 'InvalidCharacterError')
  const bytes = new Uint8Array(Math.floor((length * 3) / 4))
  let bits = 0
  for (let at = 0, end = 0; at < length; at++) {
    const value = BASE64_VALUES.get(digits[at])
    if (value === undefined) throw new DOMException('the text is not base64', 'InvalidCharacterError')
    bits = (bits << 6) | value
    if (at % 4 > 0) bytes[end++] = bits >> (6 - 2 * (at % 4))
  }
  return bytes
}

export function btoa(text) {
  const bytes = Uint8Array.from(String(text), (character) => {
    const code = character.charCodeAt(0)
    if (code > 255 || character.length > 1)
      throw new DOMException('the text has characters beyond Latin-1', 'InvalidCharacterError')
    return code
  })
  return base64Of(bytes)
}

export function atob(text) {
  return Array.from(fromBase64(text), (byte) => String.fromCharCode(byte)).join('')
}
