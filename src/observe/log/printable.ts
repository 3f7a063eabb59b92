// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

/** Escapes what could move a terminal's cursor, turn the text around or forge a line: guests choose names and write into the log. */
export function printable(text: string): string {
  return text.replace(CONTROLS, escapeAll)
}

function escapeAll(controls: string): string {
  let escaped = ''
  for (let i = 0; i < controls.length; i++) escaped += escapeOf(controls.charCodeAt(i))
  return escaped
}

/** Made once for each character: a guest can log many. */
function escapeOf(code: number): string {
  let escaped = ESCAPES.get(code)
  if (escaped === undefined) {
    escaped = `\\u${code.toString(16).padStart(4, '0')}`
    ESCAPES.set(code, escaped)
  }
  return escaped
}

const ESCAPES = new Map<number, string>()
