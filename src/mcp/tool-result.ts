import { isUtf8 } from 'node:buffer'
import { GuestError, ToolResultInvalidError } from '../errors/errors.ts'
import { type JsonText, jsonAt, onOneLine } from '../platform/json-parts.ts'
import { hasKeyTwice, isObject } from '../platform/json-text.ts'
import type { KnownError } from '../route/error-response.ts'
import type { ToolDescription } from './description.ts'
import { isTooDeep, MAX_DEPTH, type Members } from './json-rpc.ts'
import type { Check } from './schema.ts'
import { readAll, SHAPES } from './shapes.ts'

/** The result of `tools/call`. */
export type ToolResult = {
  readonly content: readonly Content[]
  /** The guest's own text on one line. Of revisions with `initialize` only if it is an object. */
  readonly structured?: JsonText
  readonly isError?: true
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** A text and nothing else, which most tools answer: its JSON needs no object. */
class TextResult implements ToolResult {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  get content(): readonly Content[] {
    return [{ type: 'text', text: this.#text }]
  }

  /** The member `content`, as JSON. */
  get contentJson(): string {
    return `[{"type":"text","text":${JSON.stringify(this.#text)}}]`
  }
}

/** A part of a result. */
type Content =
  | Members
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image' | 'audio'; readonly data: string; readonly mimeType: string }
  | { readonly type: 'resource'; readonly resource: BlobResource }

/** An object that a guest has written. */
export interface GuestAnswer extends JsonText {
  readonly value: Members
}

interface BlobResource {
  readonly uri: string
  readonly mimeType: string
  readonly blob: string
}

/**
 * Converts the output of a guest: text is text, images and audio are what they are, other bytes are a resource. With an
 * output schema the output must be JSON that fits it, and is structured content too.
 *
 * @throws {@link ToolResultInvalidError} if it does not fit the schema.
 */
export function resultOf(
  output: Uint8Array,
  { name, contentType }: Pick<ToolDescription, 'name' | 'contentType'>,
  check: Check | undefined,
): ToolResult {
  if (check) return structuredResult(output, name, check)
  const bytes = Buffer.from(output.buffer, output.byteOffset, output.byteLength)
  const isTyped = contentType !== undefined
  if ((!isTyped || isText(contentType)) && isUtf8(bytes)) return new TextResult(bytes.toString('utf8'))
  const mimeType = contentType ?? imageType(bytes)
  const data = bytes.toString('base64')
  const [, medium] = /^(image|audio)\//i.exec(mimeType) ?? []
  if (medium !== undefined)
    return { content: [{ type: medium.toLowerCase() === 'image' ? 'image' : 'audio', data, mimeType }] }
  return { content: [{ type: 'resource', resource: { uri: `tool:${name}`, mimeType, blob: data } }] }
}

function structuredResult(output: Uint8Array, tool: string, check: Check): ToolResult {
  let text: string
  let value: unknown
  try {
    text = utf8.decode(output)
    value = JSON.parse(text)
  } catch {
    throw new ToolResultInvalidError(tool, 'it is not JSON')
  }
  const problem = problemWith(value, text) ?? check(value)
  if (problem !== undefined) throw new ToolResultInvalidError(tool, problem)
  return { content: [{ type: 'text', text }], structured: { value, text: onOneLine(text) } }
}

function problemWith(value: unknown, text: string): string | undefined {
  if (isTooDeep(value)) return `it is nested deeper than ${MAX_DEPTH} levels`
  return hasKeyTwice(value, text) ? 'an object has a key twice' : undefined
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function isText(mimeType: string): boolean {
  return /^text\/|^application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b/i.test(mimeType)
}

/** First bytes of image formats. */
const SIGNATURES: readonly (readonly [type: string, bytes: string])[] = [
  ['image/png', '\x89PNG\r\n\x1a\n'],
  ['image/jpeg', '\xff\xd8\xff'],
  ['image/gif', 'GIF8'],
]

/** The content type of an output that is no text and has no configured type. */
function imageType(bytes: Buffer): string {
  const start = bytes.toString('latin1', 0, 12)
  const found = SIGNATURES.find(([, signature]) => start.startsWith(signature))
  if (found) return found[0]
  return start.startsWith('RIFF') && start.endsWith('WEBP') ? 'image/webp' : 'application/octet-stream'
}

/**
 * The result that a guest has written itself.
 *
 * @throws {@link ToolResultInvalidError} if it is none.
 */
export function guestResult({ value, text }: GuestAnswer, tool: string): ToolResult {
  const { content, structuredContent, isError, _meta } = value
  const parts = readAll(content, SHAPES.content)
  if (!parts) throw new ToolResultInvalidError(tool, 'it has no valid content')
  return {
    content: parts,
    ...(structuredContent !== undefined &&
      structuredContent !== null && {
        structured: {
          value: structuredContent,
          text: onOneLine(jsonAt(text, 'structuredContent') ?? 'null'),
        },
      }),
    ...(isError === true && { isError }),
    ...(isObject(_meta) && { _meta: { ..._meta, [CODE_KEY]: undefined } }),
  }
}

/** The key of `_meta` with the code of a failure of the server. Guests do not have it. */
const CODE_KEY = 'wasm-serve/code'

/** A failed call as a result, so that a model can read the reason. The guest's own message is passed on unchanged. */
export function failedResult(error: KnownError): ToolResult {
  const { message, code } = error
  const text = error instanceof GuestError ? message : `${message} (${code})`
  return { content: [{ type: 'text', text }], isError: true, _meta: { [CODE_KEY]: code } }
}

/**
 * The members of a result but `_meta` as JSON, without braces.
 *
 * @param isModern - Revisions with `initialize` know only objects as structured content.
 */
export function renderMembers(result: Members | ToolResult, isModern: boolean): string {
  if (result instanceof TextResult) return `"content":${result.contentJson}`
  const { structured, _meta, ...others }: Members & Pick<ToolResult, 'structured'> = result
  const json = JSON.stringify(others).slice(1, -1)
  if (!structured || !(isModern || isObject(structured.value))) return json
  return `${json},"structuredContent":${structured.text}`
}
