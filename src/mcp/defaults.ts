import { type JsonText, jsonMembers, jsonOf } from '../platform/json-parts.ts'
import { isObject } from '../platform/json-text.ts'
import type { Members } from './json-rpc.ts'
import { resolveRef } from './schema.ts'

/** Arguments, and their own text. */
interface Arguments extends JsonText {
  readonly value: Members
}

/**
 * Makes a function that adds the properties that arguments lack, and for which the schema has a `default`. Objects within objects get
 * theirs, too. What was given stays as it was written.
 */
export function fillerOf(schema: Members): (args: Arguments) => Arguments {
  if (!JSON.stringify(schema).includes('"default":')) return (args) => args
  return (args) => {
    const text = filled(args.value, args.text, schema, schema)
    return text === args.text ? args : { value: JSON.parse(text), text }
  }
}

function filled(value: Members, text: string, schema: Members, root: Members): string {
  const { properties } = schema
  if (!isObject(properties)) return text
  const members = new Map(jsonMembers(text))
  let isSame = true
  for (const [name, given] of Object.entries(properties)) {
    if (!isObject(given)) continue
    const property = { ...asObject(resolveRef(root, given.$ref)), ...given }
    const before = members.get(name)
    const after = Object.hasOwn(value, name)
      ? filledMember(value[name], before ?? '', property, root)
      : 'default' in property
        ? JSON.stringify(property.default)
        : undefined
    if (after === undefined || after === before) continue
    members.set(name, after)
    isSame = false
  }
  return isSame ? text : jsonOf(members)
}

function filledMember(value: unknown, text: string, schema: Members, root: Members): string {
  return isObject(value) ? filled(value, text, schema, root) : text
}

function asObject(value: unknown): Members {
  return isObject(value) ? value : {}
}
