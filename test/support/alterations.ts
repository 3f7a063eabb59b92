/** A JSON value with one change. */
export interface Alteration {
  /** Where: keys and indices, joined by dots; and how, after a space. */
  readonly name: string
  readonly value: unknown
}

/** A value of JSON that is not `null`, a boolean, a number or a string. */
type Container = Readonly<Record<string, unknown>> | readonly unknown[]

/**
 * Changes each part of a JSON value once: each text in its first, middle and last character, or emptied; each number,
 * boolean and null; each field and element removed, doubled, or replaced by another type; an unknown field added.
 */
export function* alterations(value: unknown, path = ''): Generator<Alteration> {
  for (const [how, changed] of changesOf(value)) yield { name: `${path} ${how}`, value: changed }
  if (!isContainer(value)) return
  for (const [key, child] of Object.entries(value)) {
    const at = path === '' ? key : `${path}.${key}`
    yield { name: `${at} removed`, value: without(value, key) }
    for (const { name, value: changed } of alterations(child, at))
      yield { name, value: withValue(value, key, changed) }
  }
}

function* changesOf(value: unknown): Generator<[how: string, value: unknown]> {
  if (typeof value === 'string') {
    for (const at of new Set([0, value.length >> 1, value.length - 1]))
      if (at >= 0 && value !== '') yield [`changed at ${at}`, withCharacter(value, at)]
    yield ['extended', `${value}A`]
    if (value !== '') yield ['emptied', '']
  }
  if (typeof value === 'number') yield* [['larger', value + 1] as [string, unknown], ['text', String(value)]]
  if (typeof value === 'boolean') yield ['negated', !value]
  if (value !== null) yield ['null', null]
  if (value === null) yield ['text', 'null']
  if (Array.isArray(value) && value.length > 0) yield ['doubled', [...value, ...value]]
  if (Array.isArray(value)) yield ['object', { ...value }]
  else if (isContainer(value))
    yield* [['array', [value]] as [string, unknown], ['with a field', { ...value, x: 1 }]]
}

function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null
}

/** Another character of base64, hex and names. */
function withCharacter(text: string, at: number): string {
  const other = text[at] === '1' ? '2' : '1'
  return `${text.slice(0, at)}${other}${text.slice(at + 1)}`
}

function without(value: Container, key: string): Container {
  return Array.isArray(value)
    ? value.filter((_, i) => String(i) !== key)
    : Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
}

function withValue(value: Container, key: string, changed: unknown): Container {
  return Array.isArray(value)
    ? value.map((child, i) => (String(i) === key ? changed : child))
    : { ...value, [key]: changed }
}
