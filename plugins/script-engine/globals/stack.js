import { BASE64_VALUES } from './bytes.js'

/* Stacks with the lines of the files that a script was made of. */

/** What the script is: see `Script` of wasm-serve. */
let about = {}

export function setAbout(script) {
  about = script
}

/** The frames of a stack that are the script's, with its own lines. */
export function framesOf(error) {
  const lines = typeof error.stack === 'string' ? error.stack.split('\n') : []
  return lines.flatMap((line) => {
    const frame = /^\s*at (?:(.*) \()?([^()]*?)(?::(\d+))?(?::(\d+))?\)?$/.exec(line)
    if (!frame || frame[2] === 'wasm-serve') return []
    const [, name, file, row, column] = frame
    if (row === undefined) return [{ text: name ? `${name} (${file})` : file }]
    const place = original({ file, line: Number(row), column: Number(column ?? 1) })
    const shown = `${place.file}:${place.line}:${place.column}`
    return [{ text: name ? `${name} (${shown})` : shown, ...place }]
  })
}

/** The place in the source file of a place in a script that was bundled. */
function original(place) {
  const { map, file } = about
  if (!map || place.file !== file) return place
  const state = [0, 0, 0, 0, 0]
  let found
  const rows = map.mappings.split(';')
  for (let row = 0; row < place.line; row++) {
    state[0] = 0
    for (const segment of (rows[row] ?? '').split(',')) {
      let field = 0
      for (let at = 0; at < segment.length; ) {
        let value = 0
        for (let shift = 0, more = true; more; shift += 5, at++) {
          const digit = BASE64_VALUES.get(segment[at]) ?? 0
          value |= (digit & 31) << shift
          more = digit > 31
        }
        state[field++] += value & 1 ? -(value >> 1) : value >> 1
      }
      if (row === place.line - 1 && field > 1 && state[0] <= place.column - 1)
        found = { file: map.sources[state[1]] ?? file, line: state[2] + 1, column: state[3] + 1 }
    }
  }
  return found ?? place
}
