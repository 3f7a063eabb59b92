import { isObject } from '../platform/json-text.ts'
import type { Members } from './json-rpc.ts'

/*
 * The parts of MCP that plug-ins write themselves. Official clients refuse a whole list, and with it the entries of other plug-ins, if
 * one member of one entry has a wrong type.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/schema
 */

/** Whether a value is what MCP defines. */
type Shape = (value: unknown) => boolean

const text: Shape = (value) => typeof value === 'string'
const number: Shape = (value) => typeof value === 'number'
const flag: Shape = (value) => typeof value === 'boolean'
/** No two parts of the pattern match the same character: its time grows with the length of a guest's text, not with its square. */
const base64: Shape = (value) => typeof value === 'string' && /^[A-Za-z0-9+/\s]*(?:=\s*){0,2}$/.test(value)
const anyObject: Shape = isObject

const oneOf =
  (...values: readonly string[]): Shape =>
  (value) =>
    values.some((each) => each === value)

const listOf =
  (item: Shape): Shape =>
  (value) =>
    Array.isArray(value) && value.every(item)

const mapOf =
  (item: Shape): Shape =>
  (value) =>
    isObject(value) && Object.values(value).every(item)

/** @param members - Those whose names end in `?` may be missing. */
function object(members: Readonly<Record<string, Shape>>): Shape {
  const wanted = Object.entries(members).map(([key, shape]) => {
    const isOptional = key.endsWith('?')
    return { name: isOptional ? key.slice(0, -1) : key, shape, isOptional }
  })
  return (value) =>
    isObject(value) &&
    wanted.every(({ name, shape, isOptional }) =>
      Object.hasOwn(value, name) ? shape(value[name]) : isOptional,
    )
}

const role = oneOf('user', 'assistant')

const annotated = {
  'annotations?': object({ 'audience?': listOf(role), 'priority?': number, 'lastModified?': text }),
  '_meta?': anyObject,
}

const icons = listOf(
  object({ src: text, 'mimeType?': text, 'sizes?': listOf(text), 'theme?': oneOf('light', 'dark') }),
)

const described = {
  name: text,
  'title?': text,
  'description?': text,
  'icons?': icons,
  ...annotated,
}

const contents = { uri: text, 'mimeType?': text, '_meta?': anyObject }
const textContents = object({ ...contents, text })
const blobContents = object({ ...contents, blob: base64 })
const resourceContents: Shape = (value) => textContents(value) || blobContents(value)

const media = object({ data: base64, mimeType: text, ...annotated })

/** Shapes of content by `type`. */
const CONTENT: Readonly<Record<string, Shape>> = {
  text: object({ text, ...annotated }),
  image: media,
  audio: media,
  resource: object({ resource: resourceContents, ...annotated }),
  resource_link: object({ ...described, uri: text, 'mimeType?': text, 'size?': number }),
}

/** @param shapes - By the value of `type`. */
function isOneOf(shapes: Readonly<Record<string, Shape>>, value: unknown): boolean {
  const { type } = isObject(value) ? value : {}
  return typeof type === 'string' && Object.hasOwn(shapes, type) && shapes[type]?.(value) === true
}

const content: Shape = (value) => isOneOf(CONTENT, value)

const titled = { 'title?': text, 'description?': text }
const choices = listOf(object({ const: text, title: text }))
const limits = { 'minimum?': number, 'maximum?': number }

/** Shapes of what a form asks for, by `type`: a schema with other parts is none that clients can show. */
const FIELDS: Readonly<Record<string, Shape>> = {
  string: object({
    ...{ ...titled, 'minLength?': number, 'maxLength?': number, 'default?': text },
    'format?': oneOf('email', 'uri', 'date', 'date-time'),
    ...{ 'enum?': listOf(text), 'enumNames?': listOf(text), 'oneOf?': choices },
  }),
  number: object({ ...titled, ...limits, 'default?': number }),
  integer: object({ ...titled, ...limits, 'default?': number }),
  boolean: object({ ...titled, 'default?': flag }),
  array: object({
    ...{ ...titled, 'minItems?': number, 'maxItems?': number, 'default?': listOf(text) },
    items: (value) => untitledItems(value) || titledItems(value),
  }),
}

const untitledItems = object({ type: oneOf('string'), enum: listOf(text) })
const titledItems = object({ anyOf: choices })

const formElicitation = object({
  'mode?': oneOf('form'),
  message: text,
  requestedSchema: object({
    type: oneOf('object'),
    properties: mapOf((value) => isOneOf(FIELDS, value)),
    'required?': listOf(text),
  }),
})

const elicitation: Shape = (value) => formElicitation(value) || urlElicitation(value)

const urlElicitation = object({
  ...{ mode: oneOf('url'), message: text },
  url: (value) => typeof value === 'string' && URL.canParse(value),
})

/** Shapes of what a message to a model has. */
const SAMPLED: Readonly<Record<string, Shape>> = {
  ...{ text: object({ text, ...annotated }), image: media, audio: media },
  tool_use: object({ id: text, name: text, input: anyObject }),
  tool_result: object({ toolUseId: text, content: listOf(content), 'isError?': flag }),
}

const sampled: Shape = (value) => isOneOf(SAMPLED, value)

const share: Shape = (value) => typeof value === 'number' && value >= 0 && value <= 1

const sampling = object({
  messages: listOf(object({ role, content: (value) => sampled(value) || listOf(sampled)(value) })),
  maxTokens: Number.isSafeInteger,
  ...{
    'systemPrompt?': text,
    'temperature?': number,
    'stopSequences?': listOf(text),
    'metadata?': anyObject,
  },
  'includeContext?': oneOf('none', 'thisServer', 'allServers'),
  'modelPreferences?': object({
    ...{ 'costPriority?': share, 'speedPriority?': share, 'intelligencePriority?': share },
    'hints?': listOf(object({ 'name?': text })),
  }),
  'tools?': listOf(object({ name: text, inputSchema: object({ type: oneOf('object') }) })),
  'toolChoice?': object({ 'mode?': oneOf('auto', 'required', 'none') }),
})

/** Parts that {@link read} knows. */
export const SHAPES = {
  /** A schema of an object. */
  schema: object({
    'properties?': mapOf((value) => isObject(value) || flag(value)),
    'required?': listOf(text),
  }),
  toolAnnotations: object({
    'title?': text,
    'readOnlyHint?': flag,
    'destructiveHint?': flag,
    'idempotentHint?': flag,
    'openWorldHint?': flag,
  }),
  icons,
  resources: object({ ...described, uri: text, 'mimeType?': text, 'size?': number }),
  resourceTemplates: object({ ...described, uriTemplate: text, 'mimeType?': text }),
  prompts: object({
    ...described,
    'arguments?': listOf(object({ name: text, 'title?': text, 'description?': text, 'required?': flag })),
  }),
  content,
  resourceContents,
  promptMessage: object({ role, content }),
  /** The params of `elicitation/create`. */
  elicitation,
  /** The params of `sampling/createMessage`. */
  sampling,
  /** The params of `roots/list`. */
  roots: anyObject,
} as const

/**
 * A part that a plug-in has written. Members that are null count as missing, as for hyper-mcp.
 *
 * @returns undefined if it is not what MCP defines.
 */
export function read(value: unknown, shape: Shape): Members | undefined {
  const given = withoutNulls(value)
  return isObject(given) && shape(given) ? given : undefined
}

/** The parts of a list that are what MCP defines. */
export function readFitting(list: readonly unknown[], shape: Shape): readonly Members[] {
  return list.map((item) => read(item, shape)).filter((part) => part !== undefined)
}

/** The parts of a list. @returns undefined if it is no list, or one of them is not what MCP defines. */
export function readAll(list: unknown, shape: Shape): readonly Members[] | undefined {
  if (!Array.isArray(list)) return undefined
  const parts = readFitting(list, shape)
  return parts.length === list.length ? parts : undefined
}

/** The `_meta` of what a plug-in has written, if it is an object. Programs of clients read it, such as user interfaces of tools. */
export function metaOf({ _meta }: Members): { readonly _meta?: Members } {
  return isObject(_meta) ? { _meta } : {}
}

/** A value without members that are null. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isObject(value)) return value
  const present = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(present.map(([key, member]) => [key, withoutNulls(member)]))
}
