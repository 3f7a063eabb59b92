import type { Schema } from '../src/options/schema.ts'

/**
 * TypeScript types of options schemas, for users of the package, who then need no TypeBox.
 *
 * @param schemas - By the name that their types have in `src/options/options-schema.ts`, without `Data`.
 */
export function optionTypes(schemas: Readonly<Record<string, object>>): string {
  const plain: Record<string, Schema> = JSON.parse(JSON.stringify(schemas))
  return Object.entries(plain)
    .flatMap(([name, schema]) => [
      `export interface ${name}Data ${objectType(schema, false, '')}\n`,
      `/** After the check: what has a default is there. */\n`,
      `export interface Checked${name}Data ${objectType(schema, true, '')}\n`,
    ])
    .join('')
}

function objectType({ properties = {}, required = [] }: Schema, isChecked: boolean, indent: string): string {
  const inner = `${indent}  `
  const members = Object.entries(properties).map(([name, schema]) => {
    const isThere = required.includes(name) || (isChecked && schema.default !== undefined)
    const description = [schema.description, defaultOf(schema)].filter(Boolean).join(' ')
    const comment = description ? `${inner}/** ${description.replaceAll('*/', '*\\/')} */\n` : ''
    return `${comment}${inner}${name}${isThere ? '' : '?'}: ${typeOf(schema, inner)}\n`
  })
  return `{\n${members.join('')}${indent}}`
}

function defaultOf({ default: value }: Schema): string | undefined {
  return value === undefined ? undefined : `Default: ${JSON.stringify(value)}.`
}

function typeOf(schema: Schema, indent: string): string {
  if (schema.pluginSource || schema.hostFunctions) return 'string | object'
  if (schema.callHook) return 'object'
  if (schema.threadCount) return "number | 'auto'"
  if (schema.nameOrContract) return [...literals(schema.nameOrContract), 'object'].join(' | ')
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, indent)).join(' | ')
  if (schema.enum) return literals(schema.enum).join(' | ')
  switch (schema.type) {
    case 'integer':
      return 'number'
    case 'string':
    case 'boolean':
      return schema.type
    case 'array':
      return schema.items ? `(${typeOf(schema.items, indent)})[]` : unknownType(schema)
    case 'object': {
      if (schema.properties) return objectType(schema, false, indent)
      const [values] = Object.values(schema.patternProperties ?? {})
      return `{ [key: string]: ${values ? typeOf(values, indent) : 'unknown'} }`
    }
    default:
      return unknownType(schema)
  }
}

function literals(names: readonly unknown[]): string[] {
  return names.map((name) => `'${name}'`)
}

function unknownType(schema: Schema): never {
  throw new Error(`a schema has no type that is known here: ${JSON.stringify(schema)}`)
}
