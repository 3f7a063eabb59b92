import { Host } from '@extism/as-pdk'

/** Greets whoever the input names. */
export function hello(): i32 {
  const json = `{"message":"🦀 Hello ${escaped(Host.inputString())}"}`
  // `Host.outputString` takes UTF-16 units for bytes, and fails on what is not ASCII (as-pdk 1.0.0).
  Host.output(Uint8Array.wrap(String.UTF8.encode(json)))
  return 0
}

/** Text as it stands in a JSON string: at most six units for one. */
function escaped(text: string): string {
  const units = new Uint16Array(6 * text.length)
  let length = 0
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
  return String.UTF16.decode(units.buffer.slice(0, 2 * length))
}

// build.sh names it; asc's own would be imported from `env`.
function abort(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  // The trap that follows says enough.
}
