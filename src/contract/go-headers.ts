import { headerProblem } from './answer-headers.ts'

/**
 * Headers as Go's `http.Header` has them: names in canonical form (`Content-Type`), all values in arrays. `Host` is no
 * part of it, nor what frames the body.
 *
 * @param raw - Names and values in turn.
 */
export function readGoHeaders(raw: readonly string[]): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null) // a name may be __proto__
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = canonical(String(raw[i]))
    if (name === 'Host' || name === 'Transfer-Encoding' || name === 'Trailer') continue
    headers[name] ??= []
    headers[name].push(decode(String(raw[i + 1])))
  }
  return headers
}

function canonical(name: string): string {
  return name.toLowerCase().replaceAll(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

/** Node takes a byte for a character, Go for a part of UTF-8. */
function decode(value: string): string {
  return Buffer.from(value, 'latin1').toString()
}

/**
 * A value for an answer, as Go would write it: line breaks become spaces.
 *
 * @returns undefined if it is left out: a name that Go leaves out too, or what the server itself has to say.
 */
export function goHeader(name: string, value: string): string | undefined {
  const bytes = Buffer.from(value)
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if ((byte < SPACE && byte !== TAB) || byte === DELETE) bytes[at] = SPACE
  }
  const text = bytes.toString('latin1').trim()
  return headerProblem(name, text) === undefined ? text : undefined
}

const TAB = 0x09
const SPACE = 0x20
const DELETE = 0x7f
