import type { Answer } from './admin-api.ts'
import { fromBase64, toHex, toText } from './bytes.ts'
import { element } from './element.ts'
import { formatBytes, formatMs } from './format.ts'

/** Bytes and characters that are shown; all can be saved. */
const SHOWN_BYTES = 4_096
const SHOWN_CHARACTERS = 100_000

/** Shows what a route has answered: status, time, headers, body. */
export function answerPanel({ status, headers, body, ms }: Answer): HTMLElement {
  const bytes = fromBase64(body) ?? new Uint8Array()
  const id = headers['x-request-id']
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((one) => [name, one] as const),
  )
  return element(
    'div',
    { class: 'answer' },
    element(
      'p',
      { class: 'status' },
      element('strong', { class: `badge ${lookOf(status)}` }, String(status)),
      element('span', {}, formatMs(ms)),
      element('span', {}, formatBytes(bytes.length)),
      typeof id === 'string' &&
        element('a', { href: `#/log/${encodeURIComponent(id)}` }, 'Its lines in the log'),
    ),
    element('h3', {}, 'Body'),
    element(
      'pre',
      { class: 'body', tabindex: '0', 'aria-label': 'Body of the answer' },
      readable(bytes, String(headers['content-type'] ?? '')),
    ),
    bytes.length > 0 && saveButton(bytes),
    element('h3', {}, 'Headers'),
    element(
      'dl',
      { class: 'headers' },
      ...lines.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]),
    ),
  )
}

function lookOf(status: number): string {
  if (status < 400) return 'good'
  return status < 500 ? 'warn' : 'bad'
}

function readable(bytes: Uint8Array, type: string): string {
  if (bytes.length === 0) return '(empty)'
  const text = toText(bytes)
  if (text === undefined) {
    const rest = bytes.length - SHOWN_BYTES
    return toHex(bytes.subarray(0, SHOWN_BYTES)) + (rest > 0 ? `\n… ${formatBytes(rest)} more` : '')
  }
  const pretty = /\bjson\b/.test(type) || /^[[{]/.test(text) ? indented(text) : text
  return pretty.length > SHOWN_CHARACTERS ? `${pretty.slice(0, SHOWN_CHARACTERS)}\n…` : pretty
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text // it only looked like JSON
  }
}

function saveButton(bytes: Uint8Array<ArrayBuffer>): HTMLElement {
  const save = () => {
    const href = URL.createObjectURL(new Blob([bytes]))
    element('a', { href, download: 'answer' }).click()
    setTimeout(() => URL.revokeObjectURL(href), 1_000)
  }
  return element('button', { class: 'quiet', type: 'button', onclick: save }, 'Save the body')
}
