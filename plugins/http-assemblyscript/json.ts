/** Reads JSON as wasm-serve writes it: an object of strings, of arrays of strings, and of objects of those; no spaces. */
export class JsonReader {
  private at: i32 = 0

  constructor(private text: string) {}

  /** Whether another member of the object follows; goes to its key. */
  hasNext(): bool {
    if (this.text.charCodeAt(this.at++) === 0x7d) return false
    if (this.text.charCodeAt(this.at) !== 0x7d) return true
    this.at++ // an empty one
    return false
  }

  readKey(): string {
    const key = this.readString()
    this.at++ // the colon
    return key
  }

  /** An object of strings and arrays of strings. */
  readValues(): Map<string, string[]> {
    const values = new Map<string, string[]>()
    while (this.hasNext()) values.set(this.readKey(), this.readStrings())
    return values
  }

  private readStrings(): string[] {
    if (this.text.charCodeAt(this.at) === 0x22) return [this.readString()]
    const strings: string[] = []
    while (this.text.charCodeAt(this.at++) !== 0x5d) strings.push(this.readString())
    return strings
  }

  readString(): string {
    const parts: string[] = []
    let begin = ++this.at
    for (;;) {
      const unit = this.text.charCodeAt(this.at)
      if (unit === 0x22) break
      if (unit === 0x5c) {
        parts.push(this.text.substring(begin, this.at))
        parts.push(this.readEscaped())
        begin = this.at
      } else {
        this.at++
      }
    }
    parts.push(this.text.substring(begin, this.at++))
    return parts.join('')
  }

  private readEscaped(): string {
    const letter = this.text.charAt(this.at + 1)
    this.at += 2
    if (letter === 'u') {
      this.at += 4
      return String.fromCharCode(<i32>parseInt(this.text.substring(this.at - 4, this.at), 16))
    }
    if (letter === 'n') return '\n'
    if (letter === 'r') return '\r'
    if (letter === 't') return '\t'
    if (letter === 'b') return '\b'
    if (letter === 'f') return '\f'
    return letter
  }
}

/** Text as a string of JSON: at most six units for one. */
export function quoted(text: string): string {
  const units = new Uint16Array(6 * text.length + 2)
  let length = 0
  units[length++] = 0x22
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20) {
      const code = `\\u${unit.toString(16).padStart(4, '0')}`
      for (let j = 0; j < code.length; j++) units[length++] = code.charCodeAt(j)
    } else {
      if (unit === 0x22 || unit === 0x5c) units[length++] = 0x5c
      units[length++] = unit
    }
  }
  units[length++] = 0x22
  return String.UTF16.decode(units.buffer.slice(0, 2 * length))
}
