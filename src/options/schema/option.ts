import { type TOptional, type TProperties, type TSchema, type TUnsafe, Type } from 'typebox'
import type { OptionFacts } from './facts.ts'

/*
 * The words of the schemas of options.
 *
 * `holds` marks options with paths: `path`, `source` (path or URL) or `folders` (the keys are paths), `store` (`lmdb:`
 * and a path), `address` (or a path with a slash in it), `folder` (or a URL; `ro:` may stand before it). In a config file
 * they are relative to the file.
 *
 * `unit` is the unit of a number: `bytes`, `pages` of 64 KiB, `ms`. It decides how its text is parsed.
 *
 * `hint` is the message for a value that the type or the pattern rejects, or for a key that the pattern of keys rejects.
 *
 * `secret` marks values that are never shown; `public` marks texts that every client knows, such as URLs. The values of variables in other texts
 * are hidden.
 */

/** An option with its facts. */
export const option = <const Facts extends OptionFacts, Schema extends TSchema>(
  facts: Facts,
  schema: Schema,
) => Object.assign(schema, { facts })

/** An object without other keys. */
export const only = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })

declare const defaulted: unique symbol

/** Marks an optional option with a `default` in its schema. */
export interface WithDefault {
  readonly [defaulted]: true
}

export const withDefault = <Schema extends TSchema>(schema: Schema) =>
  Type.Optional(schema) as TOptional<Schema> & WithDefault

/** A path or URL in JSON; `pluginSource` is a keyword of our options check, for values that only a library user can pass. */
export const pluginSource = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ pluginSource: true, description })

/** A path in JSON; `hostFunctions` is a keyword of our options check, like `pluginSource`. */
export const hostFunctionsPath = (description: string): TUnsafe<string | object> =>
  Type.Unsafe<string | object>({ hostFunctions: true, description })

/** A function of a library user, which JSON cannot have: `callHook` is a keyword of our options check. */
export const callHook = (description: string): TUnsafe<object> =>
  Type.Unsafe<object>({ callHook: true, description })

/** `threadCount` is a keyword of our options check: a number, or `auto`. */
export const threadCount = (description: string): TUnsafe<number | 'auto'> =>
  Type.Unsafe<number | 'auto'>({ threadCount: true, description })

/** One of these names in JSON; `nameOrContract` is a keyword of our options check, like `pluginSource`. */
export const nameOrContract = <const Names extends readonly string[]>(
  names: Names,
  options: { default: Names[number]; description: string },
): TUnsafe<Names[number] | object> =>
  Type.Unsafe<Names[number] | object>({ nameOrContract: names, ...options })

export const oneOrSeveral = <const Names extends readonly string[]>(names: Names, description: string) =>
  Type.Unsafe<Names[number] | Names[number][]>({
    anyOf: [
      { type: 'string', enum: names },
      { type: 'array', items: { type: 'string', enum: names }, minItems: 1, uniqueItems: true },
    ],
    description,
  })

export const texts = (description: string, values = Type.String()) =>
  withDefault(Type.Record(Type.String(), values, { default: {}, examples: [{ NAME: 'value' }], description }))

/** Hosts; `allowedHost` is a keyword of our options check, which explains invalid ones. */
export const hosts = (description: string) =>
  Type.Optional(Type.Array(Type.Unsafe<string>({ type: 'string', allowedHost: true }), { description }))

export const words = (description: string) =>
  Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description })

/** A text, or a list of them. */
export const wordOrWords = (description: string) =>
  Type.Unsafe<string | string[]>({
    anyOf: [
      { type: 'string', minLength: 1 },
      { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1 },
    ],
    description,
  })

export const pemFile = (description: string) => Type.String({ minLength: 1, holds: 'path', description })

/** Credentials of clients. */
export const key = (description?: string) =>
  Type.String({
    pattern: '^[!-~]{16,}$',
    hint: 'must be 16 characters or more, all visible ASCII characters',
    secret: true,
    ...(description !== undefined && { description }),
  })

export const keys = (description: string) => Type.Array(key(), { minItems: 1, description })

export const ms = (description: string, value: number, minimum = 1) =>
  withDefault(Type.Integer({ minimum, maximum: 2_147_483_647, default: value, unit: 'ms', description }))

/** A number of bytes; as text also a size such as `64KiB`. */
export const bytes = (description: string, value: number, minimum = 1) =>
  withDefault(Type.Integer({ minimum, default: value, unit: 'bytes', description }))

export const countOption = (description: string, value: number) =>
  withDefault(Type.Integer({ minimum: 1, default: value, description }))

/** A limit for each client. @param counted - What is counted, such as `requests per client`. */
export const rate = (counted: string, description: string) =>
  Type.Optional(
    Type.Object(
      {
        max: Type.Integer({ minimum: 1, description: `Maximum number of ${counted} and window.` }),
        timeWindowMs: Type.Integer({
          unit: 'ms',
          minimum: 1,
          maximum: 2_147_483_647,
          description: 'Length of the window, in ms.',
        }),
      },
      { additionalProperties: false, examples: [{ max: 100, timeWindowMs: 60_000 }], description },
    ),
  )

/** A JSON object that the server passes on, such as a JSON Schema. */
export const jsonObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', description })
