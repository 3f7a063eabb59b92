import { bytesOf, TextDecoder } from './bytes.js'
import { headersOf, send } from './extism.js'
import { URL, URLSearchParams } from './url.js'

export class Headers {
  #values = new Map()
  constructor(from = {}) {
    const pairs = Symbol.iterator in from ? from : Object.entries(from)
    for (const [name, value] of pairs) this.append(name, value)
  }
  append(name, value) {
    const key = headerName(name)
    this.#values.set(key, [...(this.#values.get(key) ?? []), headerValue(value)])
  }
  delete(name) {
    this.#values.delete(headerName(name))
  }
  get(name) {
    return this.#values.get(headerName(name))?.join(', ') ?? null
  }
  getSetCookie() {
    return [...(this.#values.get('set-cookie') ?? [])]
  }
  has(name) {
    return this.#values.has(headerName(name))
  }
  set(name, value) {
    this.#values.set(headerName(name), [headerValue(value)])
  }
  forEach(each, self) {
    for (const [name, value] of this) each.call(self, value, name, this)
  }
  *entries() {
    for (const name of [...this.#values.keys()].sort()) yield [name, this.get(name)]
  }
  *keys() {
    for (const [name] of this) yield name
  }
  *values() {
    for (const [, value] of this) yield value
  }
  [Symbol.iterator]() {
    return this.entries()
  }
}

function headerValue(value) {
  const text = String(value).trim()
  if (/[\0\r\n]|[^\0-\xff]/.test(text)) throw new TypeError('the value of a header is not valid')
  return text
}

function headerName(name) {
  if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(String(name)))
    throw new TypeError(`the name of a header is not valid: ${name}`)
  return String(name).toLowerCase()
}

let keptBody

/** What requests and responses have in common. */
class Body {
  #bytes
  #isUsed = false
  constructor(body, headers) {
    if (body === undefined || body === null) return
    if (body instanceof URLSearchParams && !headers.has('content-type'))
      headers.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8')
    const data = body instanceof URLSearchParams ? String(body) : body
    if (typeof data === 'string' && !headers.has('content-type'))
      headers.set('content-type', 'text/plain;charset=UTF-8')
    this.#bytes = bytesOf(data, 'a body').slice()
  }
  get bodyUsed() {
    return this.#isUsed
  }
  #take() {
    if (this.#isUsed) throw new TypeError('the body was read before')
    this.#isUsed = this.#bytes !== undefined
    return this.#bytes ?? new Uint8Array()
  }
  async bytes() {
    return this.#take()
  }
  async arrayBuffer() {
    return this.#take().buffer
  }
  async text() {
    return new TextDecoder().decode(this.#take())
  }
  async json() {
    return JSON.parse(await this.text())
  }
  static {
    keptBody = (body) => body.#bytes
  }
}

export class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined
    const headers = new Headers(init.headers ?? from?.headers ?? {})
    const method = String(init.method ?? from?.method ?? 'GET').toUpperCase()
    const body = init.body ?? (from && keptBody(from))
    if (body !== undefined && body !== null && (method === 'GET' || method === 'HEAD'))
      throw new TypeError(`a ${method} request has no body`)
    super(body, headers)
    Object.assign(this, { url: from ? from.url : new URL(input).href, method, headers })
  }
  clone() {
    return new Request(this)
  }
}

const HAVE_NO_BODY = [204, 205, 304]

export class Response extends Body {
  constructor(body, { status = 200, statusText = '', headers = {} } = {}) {
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new RangeError(`the status of a response must be from 200 to 599, not ${status}`)
    if (body !== undefined && body !== null && HAVE_NO_BODY.includes(status))
      throw new TypeError(`a response with the status ${status} has no body`)
    const own = new Headers(headers)
    super(body, own)
    Object.assign(this, { status, statusText, headers: own, url: '', type: 'default', redirected: false })
  }
  get ok() {
    return this.status >= 200 && this.status <= 299
  }
  clone() {
    return new Response(keptBody(this), this)
  }
  static json(value, init = {}) {
    const headers = new Headers(init.headers)
    if (!headers.has('content-type')) headers.set('content-type', 'application/json')
    return new Response(JSON.stringify(value), { ...init, headers })
  }
  static redirect(url, status = 302) {
    return new Response(null, { status, headers: { location: new URL(url).href } })
  }
}

export async function fetch(input, init) {
  init?.signal?.throwIfAborted()
  const request = new Request(input, init)
  const { status, headers, body } = send(
    request.url,
    request.method,
    Object.fromEntries(request.headers),
    keptBody(request),
  )
  if (status === 0) throw new TypeError(`fetch failed: ${host.decode(body, false) || request.url}`)
  const response = new Response(HAVE_NO_BODY.includes(status) ? null : body, {
    status,
    headers: headersOf(headers),
  })
  return Object.assign(response, { url: request.url })
}
