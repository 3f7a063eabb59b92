import { useRef, useState } from 'preact/hooks'
import type { RouteAnswer, ShownRoute } from './admin-api.ts'
import { AnswerPanel, ScrolledText } from './answer-panel.tsx'
import { LabelledControl, LabelledInput, useAttempt } from './form.tsx'
import { formatCount, fromBase64, toBase64 } from './format.ts'
import { addressOf, type ViewProps } from './live-server.ts'
import { usePage, useResource, useSettled } from './resources.ts'
import { StreamPanel } from './stream-panel.tsx'
import { openStreamedCall } from './streamed-call.ts'

const ALL_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']

/** The number of routes to choose from; a search finds others. */
const LISTED_ROUTES = 50

/** A form that calls a route. The rest of the address is the id of the preselected route. */
export function CallView({ server, rest }: ViewProps) {
  const [kept, setKept] = useState<Draft>()
  const [problem, setProblem] = useState<string>()
  const attempt = useAttempt()
  const [search, setSearch] = useState('')
  const query = new URLSearchParams({ limit: `${LISTED_ROUTES}`, search: useSettled(search.trim()) })
  const found = usePage<ShownRoute>(server, `/api/routes?${query}`)
  // Routes may appear and disappear while the user types.
  const wanted = kept?.routeId ?? rest
  const known = useResource<ShownRoute>(
    server,
    wanted === '' ? undefined : `/api/routes/${encodeURIComponent(wanted)}`,
  )
  const listed = found?.items.find(({ id }) => id === wanted)
  const isNone = wanted === '' || known === null
  const route = known ?? listed ?? (isNone ? found?.items[0] : undefined)
  const draft = route && (kept?.routeId === route.id ? kept : draftFor(route, kept))
  if (!route || !draft) {
    return (
      <div>
        <h1>Call a function</h1>
        {found && isNone && <p class="empty">There is no route to call.</p>}
      </div>
    )
  }
  const others = found?.items ?? []
  const routes = others.some(({ id }) => id === route.id) ? others : [route, ...others]
  const set = (change: Partial<Draft>) => {
    setProblem(undefined)
    setKept({ ...draft, ...change })
  }
  const setMethod = (method: string) =>
    set(METHODS_WITHOUT_BODY.has(method) ? { method, kind: 'none' } : { method })
  const send = async (event: Event) => {
    event.preventDefault()
    const found = problemWithBody(draft)
    setProblem(found)
    if (found !== undefined) return
    await attempt.run(async () => {
      const request = { method: draft.method, url: draft.path, headers: headersOf(draft) }
      if (route.streams) {
        const call = await openStreamedCall(server.api, { ...request, body: blobOfBody(draft) })
        return <StreamPanel call={call} />
      }
      const body = await bytesOfBody(draft)
      const answer = await server.api.send<RouteAnswer>('POST', '/api/call', {
        ...request,
        ...(body !== undefined && { body: toBase64(body) }),
      })
      return <AnswerPanel answer={answer} />
    }, 'The request was not sent.')
  }
  const { url = location.origin } = server.history.last ?? {}
  return (
    <div>
      <h1>Call a function</h1>
      <div class="columns call">
        <form class="card form" onSubmit={(event) => void send(event)}>
          <h2>Request</h2>
          {found && (search !== '' || found.next !== undefined) && (
            <div class="tools">
              <LabelledInput
                id="call-search"
                label="Search the routes"
                type="search"
                maxLength={200}
                placeholder="URL or name"
                value={search}
                onInput={(event) => {
                  setKept(draft) // a search does not choose another route
                  setSearch(event.currentTarget.value)
                }}
              />
              <output class="note" for="call-search">
                {formatCount(found.total)} {found.total === 1 ? 'route' : 'routes'}
              </output>
            </div>
          )}
          <LabelledControl id="call-route" label="Route">
            <select
              id="call-route"
              value={route.id}
              onChange={({ currentTarget: { value } }) => {
                const chosen = routes.find(({ id }) => id === value)
                if (chosen) set(draftFor(chosen, draft))
              }}
            >
              {routes.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.methods.join(', ')} {addressOf(one)} – {one.plugin}, {one.function}
                </option>
              ))}
            </select>
          </LabelledControl>
          <div class="fields line">
            <LabelledControl id="call-method" label="Method">
              <select
                id="call-method"
                value={draft.method}
                onChange={(event) => setMethod(event.currentTarget.value)}
              >
                {methodsOf(route).map((method) => (
                  <option key={method}>{method}</option>
                ))}
              </select>
            </LabelledControl>
            <LabelledInput
              id="call-path"
              label="Path and query"
              required
              pattern="/.*"
              value={draft.path}
              onInput={(event) => set({ path: event.currentTarget.value })}
            />
          </div>
          <BodyFields draft={draft} problem={problem} set={set} />
          <LabelledControl id="call-headers" label="Headers, one per line">
            <textarea
              id="call-headers"
              rows={2}
              spellcheck={false}
              placeholder="accept: text/plain"
              value={draft.headers}
              onInput={(event) => set({ headers: event.currentTarget.value })}
            />
          </LabelledControl>
          <button class="primary" type="submit" aria-disabled={attempt.isBusy}>
            Send
          </button>
          <CurlLine text={renderCurl(reachableUrl(url), draft, route.streams)} />
        </form>
        <section class="card">
          <h2>Response</h2>
          {attempt.outcome(<p class="empty">No request has been sent yet.</p>)}
        </section>
      </div>
    </div>
  )
}

interface Draft extends CallRequest {
  readonly routeId: string
}

const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD'])

/** @param before - The previous request, whose body and headers are kept. */
function draftFor(route: ShownRoute, before?: Draft): Draft {
  const methods = methodsOf(route)
  const method = methods.includes('POST') ? 'POST' : (methods[0] ?? 'POST')
  return {
    headers: '',
    text: '',
    ...before,
    routeId: route.id,
    method,
    path: addressOf({ ...route, host: '' }).replace(/\*$/, ''),
    host: route.host,
    kind: METHODS_WITHOUT_BODY.has(method) ? 'none' : (before?.kind ?? 'text'),
  }
}

function methodsOf({ methods }: ShownRoute): readonly string[] {
  return methods.includes('*') ? ALL_METHODS : methods
}

/** Replaces a wildcard address by the host of this page. */
function reachableUrl(url: string): string {
  return url.replace(/\/\/(?:0\.0\.0\.0|\[::\])(?=:)/, `//${location.hostname}`)
}

interface BodyFieldsProps {
  readonly draft: Draft
  readonly problem: string | undefined
  readonly set: (change: Partial<Draft>) => void
}

function BodyFields({ draft, problem, set }: BodyFieldsProps) {
  return (
    <fieldset>
      <legend>Body</legend>
      <div class="choices">
        {BODY_KIND_NAMES.map((kind) => (
          <label key={kind} for={`kind-${kind}`}>
            <input
              id={`kind-${kind}`}
              type="radio"
              name="kind"
              checked={kind === draft.kind}
              onChange={() => set({ kind })}
            />{' '}
            {BODY_KINDS[kind].label}
          </label>
        ))}
      </div>
      {/* Hidden, not left out: a browser lets no script choose the file again. */}
      <div hidden={draft.kind !== 'file'}>
        <LabelledInput
          id="body-file"
          label="Body"
          type="file"
          aria-describedby="body-problem"
          onChange={(event) => set({ file: event.currentTarget.files?.[0] })}
        />
      </div>
      {draft.kind !== 'file' && draft.kind !== 'none' && (
        <LabelledControl id="body" label="Body">
          <textarea
            id="body"
            rows={6}
            spellcheck={false}
            aria-describedby="body-problem"
            aria-invalid={problem === undefined ? undefined : true}
            value={draft.text}
            onInput={(event) => set({ text: event.currentTarget.value })}
          />
        </LabelledControl>
      )}
      <output id="body-problem" class="problem">
        {problem}
      </output>
    </fieldset>
  )
}

const BODY_KIND_NAMES = ['text', 'json', 'base64', 'file', 'none'] as const satisfies BodyKind[]

function CurlLine({ text }: { readonly text: string }) {
  const line = useRef<HTMLDivElement>(null)
  const [label, setLabel] = useState('Copy')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setLabel('Copied')
    } catch {
      if (line.current) getSelection()?.selectAllChildren(line.current) // the clipboard API needs localhost or TLS
      setLabel('Selected')
    }
    setTimeout(() => setLabel('Copy'), 2_000)
  }
  return (
    <>
      <div class="head">
        <h3>Same request with curl</h3>
        <button class="quiet" type="button" onClick={() => void copy()}>
          {label}
        </button>
      </div>
      <div ref={line}>
        <ScrolledText label="The same request with curl">{text}</ScrolledText>
      </div>
    </>
  )
}

/** The kinds of body that the form offers, with their labels and content types. */
const BODY_KINDS = {
  text: { label: 'Text', type: 'text/plain; charset=utf-8' },
  json: { label: 'JSON', type: 'application/json' },
  base64: { label: 'Base64', type: 'application/octet-stream' },
  file: { label: 'File', type: 'application/octet-stream' },
  none: { label: 'None', type: undefined },
} as const

type BodyKind = keyof typeof BODY_KINDS

/** The request in the form. */
export interface CallRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  /** The host name of a virtual host. */
  readonly host?: string | undefined
  /** The text of the form: one header per line. */
  readonly headers: string
  readonly kind: BodyKind
  /** The body, unless it is a file. */
  readonly text: string
  readonly file?: File | undefined
}

/** The reason that the body cannot be sent; undefined if it can. */
export function problemWithBody({ kind, text, file }: CallRequest): string | undefined {
  if (kind === 'file' && !file) return 'Choose a file first.'
  if (kind === 'base64' && !fromBase64(text)) return 'This is not base64.'
  if (kind !== 'json') return undefined
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : error}`
  }
}

/** The body; undefined if it has none. A file is not read. */
function blobOfBody({ kind, text, file }: CallRequest): Blob | undefined {
  if (kind === 'none') return undefined
  if (kind === 'file') return file
  return new Blob([kind === 'base64' ? (fromBase64(text) ?? '') : text])
}

/** The bytes of the body; undefined if it has none. */
export async function bytesOfBody(request: CallRequest): Promise<Uint8Array | undefined> {
  const blob = blobOfBody(request)
  return blob && new Uint8Array(await blob.arrayBuffer())
}

/** Headers by name. Those from the form override the host and the content type of the body. */
export function headersOf({ host, kind, file, headers }: CallRequest): Record<string, string> {
  const type = (kind === 'file' && file?.type) || BODY_KINDS[kind].type
  const found: Record<string, string> = {}
  if (host !== undefined) found.host = host
  if (type !== undefined) found['content-type'] = type
  for (const line of headers.split('\n')) {
    const [, name, value = ''] = /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line) ?? []
    if (name !== undefined) found[name.toLowerCase()] = value
  }
  return found
}

const UNIX_SCHEME = 'unix:'

/**
 * The command line that sends the request from a POSIX shell.
 *
 * @param server - `http://127.0.0.1:8080`, or `unix:/run/plugins.sock`.
 * @param streams - Whether the answer is to be printed as it comes.
 */
export function renderCurl(server: string, request: CallRequest, streams = false): string {
  const { method, path, kind, text, file } = request
  const words = ['curl', streams ? '-iN' : '-i']
  if (method === 'HEAD') words.push('--head')
  else if (method !== (kind === 'none' ? 'GET' : 'POST')) words.push('-X', method)
  if (server.startsWith(UNIX_SCHEME))
    words.push('--unix-socket', quoteForShell(server.slice(UNIX_SCHEME.length)))
  words.push(quoteForShell((server.startsWith(UNIX_SCHEME) ? 'http://localhost' : server) + path))
  for (const [name, value] of Object.entries(headersOf(request)))
    words.push('-H', quoteForShell(value === '' ? `${name};` : `${name}: ${value}`)) // "name:" removes the header
  if (kind === 'text' || kind === 'json') words.push('--data-raw', quoteForShell(text))
  if (kind === 'file') words.push('--data-binary', quoteForShell(`@${file?.name ?? 'FILE'}`))
  if (kind !== 'base64') return words.join(' ')
  const digits = quoteForShell(text.replaceAll(/\s/g, ''))
  return `printf %s ${digits} | base64 -d | ${words.join(' ')} --data-binary @-`
}

function quoteForShell(word: string): string {
  return /^[\w:/.%~@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
