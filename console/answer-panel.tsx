import type { RouteAnswer } from './admin-api.ts'
import { formatBytes, formatMs, fromBase64, toHex, toText } from './format.ts'

/** A text of any length. */
export function ScrolledText({ label, children }: { readonly label: string; readonly children: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
    <section class="scrolled" tabIndex={0} aria-label={label}>
      {children}
    </section>
  )
}

/** Status, time, body and headers of an answer. */
export function AnswerPanel({ answer: { status, headers, body, ms } }: { readonly answer: RouteAnswer }) {
  const bytes = fromBase64(body) ?? new Uint8Array()
  return (
    <div class="answer">
      <p class="status">
        <StatusBadge status={status} />
        <span>{formatMs(ms)}</span>
        <span>{formatBytes(bytes.length)}</span>
        <LogLink headers={headers} />
      </p>
      <h3>Body</h3>
      <ScrolledText label="Response body">
        {readable(bytes, String(headers['content-type'] ?? ''))}
      </ScrolledText>
      {bytes.length > 0 && <SaveButton bytes={bytes} />}
      <HeaderList title="Headers" headers={headers} />
    </div>
  )
}

/** The status of an answer. */
export function StatusBadge({ status }: { readonly status: number }) {
  return <strong class={`badge ${status < 400 ? 'good' : status < 500 ? 'warn' : 'bad'}`}>{status}</strong>
}

interface HeadersProps {
  readonly headers: RouteAnswer['headers']
}

/** A link to the log lines of the request. */
export function LogLink({ headers }: HeadersProps) {
  const id = headers['x-request-id']
  return typeof id === 'string' ? (
    <a href={`#/log/${encodeURIComponent(id)}`}>Log lines of this request</a>
  ) : null
}

/** Headers or trailers below a title; nothing without any. */
export function HeaderList({ title, headers }: HeadersProps & { readonly title: string }) {
  const lines = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
  if (lines.length === 0) return null
  return (
    <>
      <h3>{title}</h3>
      <dl class="headers">
        {lines.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </>
  )
}

/** Maximum length of a displayed body. The complete body can be saved. */
const SHOWN_BYTES = 4_096
const SHOWN_CHARACTERS = 100_000

/** A complete body as text: JSON indented, and bytes that are no text in hex. */
export function readable(bytes: Uint8Array, type: string): string {
  if (bytes.length === 0) return '(empty)'
  const text = toText(bytes)
  if (text === undefined) {
    const more = bytes.length - SHOWN_BYTES
    return toHex(bytes.subarray(0, SHOWN_BYTES)) + (more > 0 ? `\n… ${formatBytes(more)} more` : '')
  }
  const pretty = /\bjson\b/.test(type) || /^[[{]/.test(text) ? indented(text) : text
  return pretty.length > SHOWN_CHARACTERS ? `${pretty.slice(0, SHOWN_CHARACTERS)}\n…` : pretty
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text // not valid JSON after all
  }
}

/** A button that saves a body as a file. */
export function SaveButton({ bytes }: { readonly bytes: Uint8Array<ArrayBuffer> }) {
  return (
    <button class="quiet" type="button" onClick={() => save(bytes)}>
      Save the body
    </button>
  )
}

function save(bytes: Uint8Array<ArrayBuffer>): void {
  const href = URL.createObjectURL(new Blob([bytes]))
  Object.assign(document.createElement('a'), { href, download: 'response' }).click()
  setTimeout(() => URL.revokeObjectURL(href), 1_000)
}
