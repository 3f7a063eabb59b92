import { endOfString } from './json-text.ts'

/** A value and its own text, in which numbers have digits that JavaScript's do not. */
export interface JsonText {
  readonly value: unknown
  readonly text: string
}

/**
 * The texts of the members of an object. Of a key that is given twice the last one counts, as for `JSON.parse`.
 *
 * @param text - Valid JSON. Nothing else than an object has members.
 */
export function jsonMembers(text: string | undefined): ReadonlyMap<string, string> {
  const members = new Map<string, string>()
  if (text?.trimStart().startsWith('{') !== true) return members
  for (const [key, value] of partsOf(text)) members.set(nameOf(key), value)
  return members
}

/** An object of members with these texts. */
export function jsonOf(members: Iterable<readonly [key: string, text: string]>): string {
  return `{${[...members].map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`
}

/** The texts of the elements of an array. @param text - Valid JSON. */
export function jsonElements(text: string): readonly string[] {
  return [...partsOf(text)].map(([, value]) => value)
}

/** A member of a member, and so on. undefined if there is none. */
export function jsonAt(text: string, ...keys: readonly string[]): string | undefined {
  return keys.reduce<string | undefined>(memberOf, text)
}

/**
 * The text of a member that `JSON.stringify` may have written: then it is found without a scan, and no object in it has a key twice.
 *
 * @param text - Valid JSON that has the member somewhere.
 * @param value - The member's.
 * @returns undefined if it is written otherwise, or several members have this name.
 */
export function plainMember(text: string, name: string, value: object): string | undefined {
  const key = `${JSON.stringify(name)}:`
  const at = text.indexOf(key)
  const written = JSON.stringify(value)
  const isPlain = at >= 0 && text.startsWith(written, at + key.length) && text.lastIndexOf(key) === at
  return isPlain ? written : undefined
}

function memberOf(text: string | undefined, name: string): string | undefined {
  if (text?.trimStart().startsWith('{') !== true) return undefined
  let found: string | undefined
  for (const [key, value] of partsOf(text)) if (nameOf(key) === name) found = value
  return found
}

/** @param key - In quotes. */
function nameOf(key: string): string {
  return key.includes('\\') ? JSON.parse(key) : key.slice(1, -1)
}

/** A text without line breaks, which JSON has only between its parts. */
export function onOneLine(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ')
}

/** The parts between the outer brackets. Elements have no keys. */
function* partsOf(text: string): Generator<readonly [key: string, value: string]> {
  let depth = 0
  let start = 0
  let key = ''
  for (let at = 0; at < text.length; at++) {
    switch (text.charAt(at)) {
      case '"':
        at = endOfString(text, at)
        break
      case '[':
      case '{':
        if (++depth === 1) start = at + 1
        break
      case ':':
        if (depth !== 1) break
        key = text.slice(start, at).trim()
        start = at + 1
        break
      case ']':
      case '}':
        if (--depth > 0) break
        if (text.slice(start, at).trim() !== '') yield [key, text.slice(start, at).trim()]
        break
      case ',':
        if (depth !== 1) break
        yield [key, text.slice(start, at).trim()]
        start = at + 1
    }
  }
}
