import { isObject } from '../../platform/json-text.ts'
/** Maximum bytes of an event's JSON. */
export const EVENT_JSON_MAX = 1_048_576

/**
 * Renders an event of a stream of server-sent events: `{ "data", "event", "id", "retry", "comment" }`. Each field is
 * optional, but one must be present. `data` is a text, or any other value, which is sent as JSON.
 *
 * @returns undefined if it is not such an object, or a field cannot be sent.
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation}
 */
export function renderEvent(json: Uint8Array): Uint8Array | undefined {
  const event = parseObject(json)
  if (!event) return undefined
  const fields: string[] = []
  for (const [name, value] of Object.entries(event)) {
    const rendered = renderField(name, value)
    if (!rendered) return undefined
    fields.push(rendered.join('\n'))
  }
  return fields.length === 0 ? undefined : encoder.encode(`${fields.join('\n')}\n\n`)
}

function parseObject(json: Uint8Array): object | undefined {
  try {
    const parsed: unknown = JSON.parse(decoder.decode(json))
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined // it is not JSON, or not UTF-8, or nested too deeply
  }
}

function renderField(name: string, value: unknown): string[] | undefined {
  switch (name) {
    case 'data':
      return renderData(value)?.map((line) => `data: ${line}`)
    case 'comment':
      return typeof value === 'string' ? splitLines(value).map((line) => `: ${line}`) : undefined
    case 'event':
    case 'id':
      return typeof value === 'string' && !FORBIDDEN.test(value) ? [`${name}: ${value}`] : undefined
    case 'retry':
      return Number.isSafeInteger(value) && Number(value) >= 0 ? [`retry: ${value}`] : undefined
    default:
      return undefined
  }
}

/** @returns undefined if it is nested too deeply: it can be deeper than what can be rendered. */
function renderData(value: unknown): string[] | undefined {
  if (typeof value === 'string') return splitLines(value)
  try {
    return [JSON.stringify(value)]
  } catch {
    return undefined
  }
}

/** Clients end a line at each of these. */
function splitLines(text: string): string[] {
  return text.split(/\r\n|\r|\n/)
}

/** Line ends would add fields, and clients ignore an id with a zero byte. */
const FORBIDDEN = /[\r\n\0]/

const decoder = new TextDecoder('utf-8', { fatal: true })
const encoder = new TextEncoder()
