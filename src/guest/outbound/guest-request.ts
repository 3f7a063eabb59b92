import { OutboundRequestInvalidError } from '../../errors/errors.ts'
import { GUEST_LIMITS } from '../../platform/guest-limits.ts'
import { isHeader, printable } from '../../platform/text.ts'

/** The HTTP request of a guest. */
export interface GuestRequest {
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
}

const { httpJsonBytes: MAX_JSON, httpHeaders: MAX_HEADERS, httpUrl: MAX_URL } = GUEST_LIMITS

/**
 * Parses the JSON argument of Extism's `http_request`: `{ "url", "method"?, "headers"? }`. Like Extism, it accepts
 * `header` for `headers`, and treats `null` as absent. {@link checkRequest} decides whether the request can be sent.
 *
 * @throws {@link OutboundRequestInvalidError} if it has another form.
 */
export function parseGuestRequest(json: Uint8Array): GuestRequest {
  return readGuestRequest(parseRequestObject(json))
}

/** The HTTP request of a guest that writes the body and reads the answer piece by piece. */
export interface GuestStreamRequest extends GuestRequest {
  /** The size of the body in bytes, if the guest knows it. */
  readonly length: number | undefined
  /** Whether redirects are followed, or given to the guest. */
  readonly followsRedirects: boolean
}

/**
 * Parses the JSON argument of `http_open`: that of {@link parseGuestRequest}, with `"length"?` and `"redirect"?`, which is
 * `follow` or `manual`.
 *
 * @throws {@link OutboundRequestInvalidError} if it has another form.
 */
export function parseGuestStreamRequest(json: Uint8Array): GuestStreamRequest {
  const request = parseRequestObject(json)
  const length = request.length ?? undefined
  const redirect = request.redirect ?? 'follow'
  if (length !== undefined && !isLength(length))
    throw new OutboundRequestInvalidError('"length" must be a number of bytes')
  if (redirect !== 'follow' && redirect !== 'manual')
    throw new OutboundRequestInvalidError('"redirect" must be "follow" or "manual"')
  return { ...readGuestRequest(request), length, followsRedirects: redirect === 'follow' }
}

function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function parseRequestObject(json: Uint8Array): Record<string, unknown> {
  if (json.length > MAX_JSON) throw new OutboundRequestInvalidError(`it is larger than ${MAX_JSON} bytes`)
  const request = parseRequestJson(json)
  if (!isPlainObject(request)) throw new OutboundRequestInvalidError('it is not a JSON object')
  return request
}

function readGuestRequest({ url, method, headers, header }: Record<string, unknown>): GuestRequest {
  if (typeof url !== 'string') throw new OutboundRequestInvalidError('"url" must be text')
  if (url.length > MAX_URL)
    throw new OutboundRequestInvalidError(`"url" is longer than ${MAX_URL} characters`)
  if (typeof (method ?? '') !== 'string') throw new OutboundRequestInvalidError('"method" must be text')
  return { url, method: String(method ?? 'GET'), headers: readRequestHeaders(headers ?? header ?? {}) }
}

function parseRequestJson(json: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json))
  } catch (error) {
    throw new OutboundRequestInvalidError('it is not JSON in UTF-8', { cause: error })
  }
}

function readRequestHeaders(headers: unknown): Record<string, string> {
  if (!isPlainObject(headers)) throw new OutboundRequestInvalidError('"headers" must be an object')
  const sent = Object.entries(headers)
  if (sent.length > MAX_HEADERS)
    throw new OutboundRequestInvalidError(`"headers" has more than ${MAX_HEADERS} entries`)
  const entries = sent.map(([name, value]): [string, string] => {
    if (typeof value === 'string') return [name, value]
    throw new OutboundRequestInvalidError(`header ${quoteGuestText(name)} must be text`)
  })
  return Object.fromEntries(entries) // makes `__proto__` a key like any other
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A validated request, ready to send. */
export interface SendableRequest {
  readonly url: URL
  /** In upper case. */
  readonly method: string
  /** The headers by their names in lower case; only those that guests may set. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: Uint8Array | undefined
}

/**
 * Checks the request of a guest, and leaves out headers of the connection. Calls share connections, so a guest must not
 * choose the framing of the body or the end of the connection.
 *
 * @param body - Refused with GET and HEAD: a server that does not expect it would take it for the next request.
 * @throws {@link OutboundRequestInvalidError}
 */
export function checkRequest(request: GuestRequest, body: Uint8Array | undefined): SendableRequest {
  const method = request.method.toUpperCase()
  if (!/^[A-Z-]{1,32}$/.test(method) || UNSENDABLE_METHODS.has(method))
    throw new OutboundRequestInvalidError(`the method ${quoteGuestText(request.method)} is not allowed`)
  if (!URL.canParse(request.url))
    throw new OutboundRequestInvalidError('"url" must be a whole URL, such as https://example.com/')
  const hasBody = body !== undefined && body.length > 0
  if (hasBody && (method === 'GET' || method === 'HEAD'))
    throw new OutboundRequestInvalidError(`a ${method} request must not have a body`)
  return {
    url: new URL(request.url),
    method,
    headers: checkHeaders(request.headers),
    body: hasBody ? body : undefined,
  }
}

const UNSENDABLE_METHODS: ReadonlySet<string> = new Set(['CONNECT', 'TRACE'])

/** Headers that describe a connection, or that Node.js writes itself. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function checkHeaders(headers: Readonly<Record<string, string>>): Map<string, string> {
  const all = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    if (!isHeader(name, value))
      throw new OutboundRequestInvalidError(`header ${quoteGuestText(name)} has invalid characters`)
    all.set(name.toLowerCase(), value)
  }
  const connection = all.get('connection') ?? ''
  const named = new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
  for (const name of all.keys()) {
    if (CONNECTION_HEADERS.has(name) || name.startsWith('proxy-') || named.has(name)) all.delete(name)
  }
  return all
}

/** Text from a guest, for a message. */
function quoteGuestText(text: string): string {
  return printable(JSON.stringify(text.slice(0, 64)))
}
