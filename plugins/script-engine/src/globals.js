// The globals of scripts, and what lib.rs needs of JavaScript: it calls this function with the functions of host.rs.
;(host) => {
  const define = (values) => {
    for (const [name, value] of Object.entries(values))
      Object.defineProperty(globalThis, name, {
        value,
        writable: true,
        configurable: true,
        enumerable: false,
      })
  }

  // ---- Bytes and text

  /** The bytes of a text, an ArrayBuffer or a view of one. */
  function bytesOf(data, what = 'data') {
    if (typeof data === 'string') return host.encode(data.toWellFormed())
    if (data instanceof ArrayBuffer) return new Uint8Array(data)
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    throw new TypeError(`${what} must be a text, an ArrayBuffer or a view of one, not ${typeNameOf(data)}`)
  }

  const typeNameOf = (value) => (value === null ? 'null' : typeof value)

  class TextEncoder {
    get encoding() {
      return 'utf-8'
    }
    encode(text = '') {
      return bytesOf(String(text))
    }
    encodeInto(text, target) {
      let read = 0
      let written = 0
      for (const character of String(text)) {
        const bytes = bytesOf(character)
        if (written + bytes.length > target.length) break
        target.set(bytes, written)
        written += bytes.length
        read += character.length
      }
      return { read, written }
    }
  }

  const ENCODINGS = new Map(
    Object.entries({
      'utf-8': ['utf-8', 'utf8', 'unicode-1-1-utf-8'],
      'utf-16le': ['utf-16le', 'utf-16', 'unicode', 'ucs-2'],
      'windows-1252': ['latin1', 'iso-8859-1', 'ascii', 'us-ascii', 'windows-1252'],
    }).flatMap(([encoding, labels]) => labels.map((label) => [label, encoding])),
  )

  class TextDecoder {
    #rest = new Uint8Array()
    #isStarted = false
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      const encoding = ENCODINGS.get(String(label).trim().toLowerCase())
      if (!encoding) throw new RangeError(`the encoding ${label} is not supported`)
      Object.assign(this, { encoding, fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM) })
    }
    decode(data = new Uint8Array(), { stream = false } = {}) {
      const bytes = joined(this.#rest, bytesOf(data))
      const end = stream ? wholeEnd(bytes, this.encoding) : bytes.length
      this.#rest = bytes.slice(end)
      let text = decoders[this.encoding](bytes.subarray(0, end), this.fatal)
      if (text === undefined || text === null) throw new TypeError(`the data is not valid ${this.encoding}`)
      if (!this.#isStarted && !this.ignoreBOM && text.startsWith('\ufeff')) text = text.slice(1)
      this.#isStarted = stream && (this.#isStarted || end > 0)
      return text
    }
  }

  const decoders = {
    'utf-8': (bytes, fatal) => host.decode(bytes, fatal),
    'utf-16le': (bytes, fatal) => {
      let text = ''
      for (let at = 0; at + 1 < bytes.length; at += 2)
        text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8))
      if (bytes.length % 2) text += '\ufffd'
      return fatal && (bytes.length % 2 || !text.isWellFormed()) ? undefined : text.toWellFormed()
    },
    'windows-1252': (bytes) =>
      Array.from(bytes, (byte) => WINDOWS_1252[byte - 128] ?? String.fromCharCode(byte)).join(''),
  }
  const WINDOWS_1252 = [...'€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ']

  /** The end of the last character that is whole. */
  function wholeEnd(bytes, encoding) {
    if (encoding === 'utf-16le') return bytes.length & ~1
    if (encoding !== 'utf-8') return bytes.length
    for (let back = 1; back <= Math.min(3, bytes.length); back++) {
      const byte = bytes[bytes.length - back]
      if (byte >= 0xc0)
        return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? bytes.length - back : bytes.length
      if (byte < 0x80) break
    }
    return bytes.length
  }

  function joined(first, second) {
    if (first.length === 0) return second
    const bytes = new Uint8Array(first.length + second.length)
    bytes.set(first)
    bytes.set(second, first.length)
    return bytes
  }

  const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  const BASE64_VALUES = new Map([...BASE64].map((character, value) => [character, value]))

  function base64Of(bytes) {
    let text = ''
    for (let at = 0; at < bytes.length; at += 3) {
      const bits = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0)
      text += BASE64[bits >> 18] + BASE64[(bits >> 12) & 63]
      text += at + 1 < bytes.length ? BASE64[(bits >> 6) & 63] : '='
      text += at + 2 < bytes.length ? BASE64[bits & 63] : '='
    }
    return text
  }

  function fromBase64(text) {
    const digits = String(text).replace(/[\t\n\f\r ]/g, '')
    const length = digits.length % 4 === 0 ? digits.replace(/={1,2}$/, '').length : digits.length
    if (length % 4 === 1) throw new DOMException('the text is not base64', 'InvalidCharacterError')
    const bytes = new Uint8Array(Math.floor((length * 3) / 4))
    let bits = 0
    for (let at = 0, end = 0; at < length; at++) {
      const value = BASE64_VALUES.get(digits[at])
      if (value === undefined) throw new DOMException('the text is not base64', 'InvalidCharacterError')
      bits = (bits << 6) | value
      if (at % 4 > 0) bytes[end++] = bits >> (6 - 2 * (at % 4))
    }
    return bytes
  }

  function btoa(text) {
    const bytes = Uint8Array.from(String(text), (character) => {
      const code = character.charCodeAt(0)
      if (code > 255 || character.length > 1)
        throw new DOMException('the text has characters beyond Latin-1', 'InvalidCharacterError')
      return code
    })
    return base64Of(bytes)
  }

  function atob(text) {
    return Array.from(fromBase64(text), (byte) => String.fromCharCode(byte)).join('')
  }

  // ---- Extism's interface

  const Host = {
    inputBytes: () => host.input().buffer,
    inputString: () => textInput(),
    outputBytes: (data) => {
      hasOutput = true
      host.output(bytesOf(data, 'the output'))
      return true
    },
    outputString: (text) => {
      hasOutput = true
      host.outputText(String(text).toWellFormed())
      return true
    },
    arrayBufferToBase64: (data) => base64Of(bytesOf(data)),
    base64ToArrayBuffer: (text) => fromBase64(text).buffer,
    getFunctions: () => {
      throw new Error('Host.getFunctions: scripts cannot import functions of the host')
    },
  }

  function textInput() {
    return host.inputText() ?? host.decode(host.input(), false)
  }

  const Config = { get: (name) => host.config(String(name)) ?? null }

  const Var = {
    getBytes: (name) => host.getVar(String(name))?.buffer ?? null,
    getString: (name) => {
      const bytes = host.getVar(String(name))
      return bytes ? host.decode(bytes, false) : null
    },
    set: (name, value) => host.setVar(String(name), bytesOf(value, 'the value of a variable')),
    remove: (name) => host.setVar(String(name)),
  }

  const Http = {
    request: ({ url, method = 'GET', headers = {} }, body) => {
      const { status, headers: text, body: bytes } = send(url, method, headers, body)
      return { status, body: host.decode(bytes, false), ...(text && { headers: headersOf(text) }) }
    },
  }

  function send(url, method, headers, body) {
    const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
    const about = JSON.stringify({ url: String(url), method: String(method), headers: texts })
    return body === undefined || body === null
      ? host.request(about)
      : host.request(about, bytesOf(body, 'a body'))
  }

  /** Extism hosts give headers as texts, or lists of them. */
  function headersOf(json) {
    const headers = json ? JSON.parse(json) : {}
    return Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, [value].flat().join(', ')]),
    )
  }

  class MemoryHandle {
    constructor(offset, len) {
      Object.assign(this, { offset, len })
    }
    readBytes() {
      return host.read(Number(this.offset)).buffer
    }
    readString() {
      return host.decode(host.read(Number(this.offset)), false)
    }
    readJsonObject() {
      return JSON.parse(this.readString())
    }
    readUInt32() {
      return new DataView(this.readBytes()).getUint32(0, true)
    }
    readUInt64() {
      return new DataView(this.readBytes()).getBigUint64(0, true)
    }
    readFloat32() {
      return new DataView(this.readBytes()).getFloat32(0, true)
    }
    readUFloat64() {
      return new DataView(this.readBytes()).getFloat64(0, true)
    }
    free() {
      host.free(Number(this.offset))
    }
  }

  function blockOf(data) {
    const bytes = bytesOf(data)
    return new MemoryHandle(host.allocate(bytes), bytes.length)
  }

  const Memory = {
    fromString: (text) => blockOf(String(text)),
    fromBuffer: (data) => blockOf(data),
    fromJsonObject: (value) => blockOf(JSON.stringify(value)),
    allocUInt32: (value) => blockOf(Uint32Array.of(value)),
    allocUInt64: (value) => blockOf(BigUint64Array.of(BigInt(value))),
    allocFloat32: (value) => blockOf(Float32Array.of(value)),
    allocFloat64: (value) => blockOf(Float64Array.of(value)),
    find: (offset) => {
      const length = host.lengthOf(Number(offset))
      return length > 0 ? new MemoryHandle(offset, length) : undefined
    },
  }

  // ---- Texts for people

  const MAX_DEPTH = 4
  const MAX_ITEMS = 100

  function inspect(value, seen = []) {
    if (typeof value === 'string') return seen.length === 0 ? value : JSON.stringify(value)
    if (typeof value === 'bigint') return `${value}n`
    if (typeof value === 'symbol') return value.toString()
    if (typeof value === 'function')
      return `[${isClass(value) ? 'class' : 'Function'}: ${value.name || '(anonymous)'}]`
    if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value)
    if (value instanceof Error) return describe(value)
    if (seen.includes(value)) return '[Circular]'
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
    if (value instanceof RegExp) return String(value)
    if (value instanceof Promise) return 'Promise {}'
    const name = value.constructor?.name ?? ''
    if (seen.length >= MAX_DEPTH) return `[${name || 'Object'}]`
    const below = [...seen, value]
    const shown = (item) => inspect(item, below)
    if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${value.byteLength} }`
    if (Array.isArray(value) || (ArrayBuffer.isView(value) && 'length' in value)) {
      const items = listed(
        Array.from({ length: Math.min(value.length, MAX_ITEMS + 1) }, (_, at) => value[at]),
        value.length,
        shown,
      )
      return `${Array.isArray(value) ? '' : `${name}(${value.length}) `}[${items && ` ${items} `}]`
    }
    if (value instanceof Map) {
      const items = listed([...value], value.size, ([key, item]) => `${shown(key)} => ${shown(item)}`)
      return `Map(${value.size}) {${items && ` ${items} `}}`
    }
    if (value instanceof Set) {
      const items = listed([...value], value.size, shown)
      return `Set(${value.size}) {${items && ` ${items} `}}`
    }
    const entries = Object.entries(value)
    const items = listed(
      entries,
      entries.length,
      ([key, item]) => `${/^[\w$]+$/.test(key) ? key : JSON.stringify(key)}: ${shown(item)}`,
    )
    return `${name && name !== 'Object' ? `${name} ` : ''}{${items && ` ${items} `}}`
  }

  function listed(items, count, shown) {
    const texts = items.slice(0, MAX_ITEMS).map(shown)
    return [...texts, ...(count > MAX_ITEMS ? [`... ${count - MAX_ITEMS} more`] : [])].join(', ')
  }

  const FORMATS = {
    s: String,
    d: Number,
    i: (value) => Math.trunc(value),
    f: Number,
    j: JSON.stringify,
    o: inspect,
    O: inspect,
  }

  function formatted(values) {
    let rest = values
    let text = ''
    if (typeof values[0] === 'string' && values.length > 1 && /%[sdifjoOc%]/.test(values[0])) {
      rest = values.slice(1)
      text = values[0].replace(/%([sdifjoOc%])/g, (found, kind) => {
        if (kind === '%') return '%'
        if (rest.length === 0) return found
        const [value] = rest.splice(0, 1)
        return kind === 'c' ? '' : String(FORMATS[kind](value))
      })
      return [text, ...rest.map((value) => inspect(value))].join(' ')
    }
    return rest.map((value) => inspect(value)).join(' ')
  }

  const LEVELS = { trace: 0, debug: 1, log: 2, info: 2, warn: 3, error: 4 }
  let indent = ''
  const counts = new Map()
  const times = new Map()

  function write(level, values) {
    const text = formatted(values)
    host.log(LEVELS[level], (indent ? text.replace(/^/gm, indent) : text).toWellFormed())
  }

  const console = {
    ...Object.fromEntries(Object.keys(LEVELS).map((level) => [level, (...values) => write(level, values)])),
    assert: (holds, ...values) => {
      if (!holds) write('error', values.length > 0 ? ['Assertion failed:', ...values] : ['Assertion failed'])
    },
    dir: (value) => write('log', [value]),
    table: (rows) => {
      for (const [key, row] of Object.entries(rows ?? {})) write('log', [`${key}:`, row])
    },
    count: (label = 'default') => {
      counts.set(label, (counts.get(label) ?? 0) + 1)
      write('log', [`${label}: ${counts.get(label)}`])
    },
    countReset: (label = 'default') => void counts.delete(label),
    group: (...values) => {
      if (values.length > 0) write('log', values)
      indent += '  '
    },
    groupEnd: () => {
      indent = indent.slice(2)
    },
    time: (label = 'default') => void times.set(label, performance.now()),
    timeLog: (label = 'default', ...values) => write('log', [`${label}: ${sinceOf(label)} ms`, ...values]),
    timeEnd: (label = 'default') => {
      write('log', [`${label}: ${sinceOf(label)} ms`])
      times.delete(label)
    },
  }
  console.groupCollapsed = console.group

  const sinceOf = (label) => (performance.now() - (times.get(label) ?? performance.now())).toFixed(3)

  // ---- URLs

  const PARTS = ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash']

  class URL {
    #parts
    #search
    constructor(url, base) {
      this.#parts = URL.#parse(url, base)
      if (!this.#parts) throw new TypeError(`Invalid URL: ${url}`)
      this.#search = new URLSearchParams(this.#parts.search)
      updates.set(this.#search, () => this.#change('search', String(this.#search)))
    }
    static #parse(url, base) {
      return base === undefined ? host.parseUrl(String(url)) : host.parseUrl(String(url), String(base))
    }
    static canParse(url, base) {
      return Boolean(URL.#parse(url, base))
    }
    static parse(url, base) {
      return URL.canParse(url, base) ? new URL(url, base) : null
    }
    #change(part, value) {
      const parts = host.changeUrl(this.#parts.href, part, String(value))
      if (!parts) throw new TypeError(`Invalid URL: ${value}`)
      this.#parts = parts
    }
    get href() {
      return this.#parts.href
    }
    set href(value) {
      this.#change('href', value)
      refill(this.#search, this.#parts.search)
    }
    get origin() {
      return this.#parts.origin
    }
    get searchParams() {
      return this.#search
    }
    toString() {
      return this.href
    }
    toJSON() {
      return this.href
    }
    static {
      for (const part of PARTS)
        Object.defineProperty(URL.prototype, part, {
          get() {
            return this.#parts[part]
          },
          set(value) {
            this.#change(part, value)
            if (part === 'search') refill(this.#search, this.#parts.search)
          },
          configurable: true,
          enumerable: true,
        })
    }
  }

  /** What a list of parameters does after a change, by the list. */
  const updates = new WeakMap()
  let refill

  class URLSearchParams {
    #pairs = []
    constructor(from = '') {
      if (typeof from === 'object' && from !== null) {
        const pairs = Symbol.iterator in from ? [...from] : Object.entries(from)
        for (const pair of pairs) {
          if ([...pair].length !== 2) throw new TypeError('each parameter must be a pair')
          this.#pairs.push([...pair].map((text) => String(text).toWellFormed()))
        }
      } else this.#pairs = pairsOf(String(from))
    }
    static {
      refill = (list, text) => {
        list.#pairs = pairsOf(text)
      }
    }
    #changed() {
      updates.get(this)?.()
    }
    get size() {
      return this.#pairs.length
    }
    append(name, value) {
      this.#pairs.push([String(name), String(value)])
      this.#changed()
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(
        ([key, item]) => key !== String(name) || (value !== undefined && item !== String(value)),
      )
      this.#changed()
    }
    get(name) {
      return this.#pairs.find(([key]) => key === String(name))?.[1] ?? null
    }
    getAll(name) {
      return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value)
    }
    has(name, value) {
      return this.#pairs.some(
        ([key, item]) => key === String(name) && (value === undefined || item === String(value)),
      )
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([key]) => key === String(name))
      if (at < 0) this.#pairs.push([String(name), String(value)])
      else {
        this.#pairs[at][1] = String(value)
        this.#pairs = this.#pairs.filter(([key], index) => index <= at || key !== String(name))
      }
      this.#changed()
    }
    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      this.#changed()
    }
    forEach(each, self) {
      for (const [name, value] of this) each.call(self, value, name, this)
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value]
    }
    *keys() {
      for (const [name] of this.#pairs) yield name
    }
    *values() {
      for (const [, value] of this.#pairs) yield value
    }
    [Symbol.iterator]() {
      return this.entries()
    }
    toString() {
      return this.#pairs.map((pair) => pair.map(encodedForm).join('=')).join('&')
    }
  }

  function pairsOf(text) {
    const parts = text
      .replace(/^\?/, '')
      .split('&')
      .filter((part) => part !== '')
    return parts.map((part) => {
      const at = part.indexOf('=')
      const [name, value] = at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)]
      return [decodedForm(name), decodedForm(value)]
    })
  }

  function encodedForm(text) {
    let encoded = ''
    for (const byte of bytesOf(text)) {
      const character = String.fromCharCode(byte)
      if (/[\w*.-]/.test(character)) encoded += character
      else encoded += byte === 32 ? '+' : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    }
    return encoded
  }

  function decodedForm(text) {
    const spaced = text.replaceAll('+', ' ')
    if (!spaced.includes('%')) return spaced
    const bytes = []
    const given = bytesOf(spaced)
    for (let at = 0; at < given.length; at++) {
      const hex = given[at] === 37 ? String.fromCharCode(given[at + 1], given[at + 2]) : ''
      const isEncoded = /^[\da-f]{2}$/i.test(hex)
      bytes.push(isEncoded ? Number.parseInt(hex, 16) : given[at])
      if (isEncoded) at += 2
    }
    return host.decode(Uint8Array.from(bytes), false)
  }

  // ---- fetch

  class Headers {
    #values = new Map()
    constructor(from = {}) {
      const pairs = Symbol.iterator in from ? from : Object.entries(from)
      for (const [name, value] of pairs) this.append(name, value)
    }
    append(name, value) {
      const key = headerName(name)
      this.#values.set(key, [...(this.#values.get(key) ?? []), String(value).trim()])
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
      this.#values.set(headerName(name), [String(value).trim()])
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

  class Request extends Body {
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

  class Response extends Body {
    constructor(body, { status = 200, statusText = '', headers = {} } = {}) {
      if (!Number.isInteger(status) || status < 200 || status > 599)
        throw new RangeError(`the status of a response must be from 200 to 599, not ${status}`)
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

  async function fetch(input, init) {
    const request = new Request(input, init)
    const { status, headers, body } = send(
      request.url,
      request.method,
      Object.fromEntries(request.headers),
      keptBody(request),
    )
    if (status === 0) throw new TypeError(`fetch failed: ${host.decode(body, false) || request.url}`)
    const hasNoBody = status === 204 || status === 205 || status === 304
    const response = new Response(hasNoBody ? null : body, { status, headers: headersOf(headers) })
    return Object.assign(response, { url: request.url })
  }

  // ---- Copies

  function structuredClone(value) {
    return copyOf(value, new Map())
  }

  function copyOf(value, copies) {
    if (typeof value === 'function' || typeof value === 'symbol')
      throw new DOMException(`${inspect(value)} could not be cloned`, 'DataCloneError')
    if (typeof value !== 'object' || value === null) return value
    const known = copies.get(value)
    if (known) return known
    const kept = (copy) => {
      copies.set(value, copy)
      return copy
    }
    if (value instanceof Date) return kept(new Date(value.getTime()))
    if (value instanceof RegExp) return kept(new RegExp(value.source, value.flags))
    if (value instanceof ArrayBuffer) return kept(value.slice(0))
    if (ArrayBuffer.isView(value)) {
      const buffer = copyOf(value.buffer, copies)
      return kept(new value.constructor(buffer, value.byteOffset, value.length ?? value.byteLength))
    }
    if (value instanceof Boolean || value instanceof Number || value instanceof String)
      return kept(Object(value.valueOf()))
    if (value instanceof Map) {
      const copy = kept(new Map())
      for (const [key, item] of value) copy.set(copyOf(key, copies), copyOf(item, copies))
      return copy
    }
    if (value instanceof Set) {
      const copy = kept(new Set())
      for (const item of value) copy.add(copyOf(item, copies))
      return copy
    }
    if (value instanceof Error) {
      const ofName =
        { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[value.name] ?? Error
      const copy = kept(new ofName(value.message))
      if ('cause' in value) copy.cause = copyOf(value.cause, copies)
      return Object.assign(copy, { stack: value.stack })
    }
    if (
      value instanceof Promise ||
      value instanceof WeakMap ||
      value instanceof WeakSet ||
      value instanceof WeakRef
    )
      throw new DOMException(`${inspect(value)} could not be cloned`, 'DataCloneError')
    const copy = kept(Array.isArray(value) ? new Array(value.length) : {})
    for (const [key, item] of Object.entries(value)) copy[key] = copyOf(item, copies)
    return copy
  }

  // ---- Random numbers

  const MAX_RANDOM = 65_536

  const crypto = {
    getRandomValues: (view) => {
      if (
        !ArrayBuffer.isView(view) ||
        view instanceof Float32Array ||
        view instanceof Float64Array ||
        view instanceof DataView
      )
        throw new DOMException('the array must have integers', 'TypeMismatchError')
      if (view.byteLength > MAX_RANDOM)
        throw new DOMException(`at most ${MAX_RANDOM} bytes, not ${view.byteLength}`, 'QuotaExceededError')
      bytesOf(view).set(host.randomBytes(view.byteLength))
      return view
    },
    randomUUID: () => {
      const bytes = host.randomBytes(16)
      bytes[6] = (bytes[6] & 0x0f) | 0x40
      bytes[8] = (bytes[8] & 0x3f) | 0x80
      const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    },
  }

  // ---- Timers: they run while a call waits for a promise, and end with the call

  const timers = new Map()
  let lastTimer = 0

  function addTimer(run, ms, isRepeated, values) {
    if (typeof run !== 'function') throw new TypeError('the first argument of a timer must be a function')
    const every = Math.max(0, Number(ms) || 0)
    timers.set(++lastTimer, {
      run: () => run(...values),
      at: performance.now() + every,
      every: isRepeated ? every : undefined,
    })
    return lastTimer
  }

  const setTimeout = (run, ms, ...values) => addTimer(run, ms, false, values)
  const setInterval = (run, ms, ...values) => addTimer(run, ms, true, values)
  const setImmediate = (run, ...values) => addTimer(run, 0, false, values)
  const clearTimeout = (timer) => void timers.delete(timer)

  function turn() {
    const [next, ...others] = timers
    if (!next) throw new Error('a promise stays pending, and nothing is left to run')
    const [id, timer] = others.reduce((first, each) => (each[1].at < first[1].at ? each : first), next)
    const left = timer.at - performance.now()
    if (left > 0) host.sleep(left)
    if (timer.every === undefined) timers.delete(id)
    else timer.at = performance.now() + timer.every
    timer.run()
  }

  const queueMicrotask = (run) => void Promise.resolve().then(run)

  // ---- Aborting

  let abort

  class AbortSignal {
    aborted = false
    reason = undefined
    onabort = null
    #listeners = new Set()
    addEventListener(type, listener) {
      if (type === 'abort') this.#listeners.add(listener)
    }
    removeEventListener(_type, listener) {
      this.#listeners.delete(listener)
    }
    throwIfAborted() {
      if (this.aborted) throw this.reason
    }
    static {
      abort = (signal, reason = new DOMException('the operation was aborted', 'AbortError')) => {
        if (signal.aborted) return
        Object.assign(signal, { aborted: true, reason })
        for (const listener of [signal.onabort, ...signal.#listeners])
          listener?.call(signal, { type: 'abort', target: signal })
      }
    }
    static abort(reason) {
      const signal = new AbortSignal()
      abort(signal, reason)
      return signal
    }
    static timeout(ms) {
      const signal = new AbortSignal()
      setTimeout(() => abort(signal, new DOMException('the time is over', 'TimeoutError')), ms)
      return signal
    }
  }
  class AbortController {
    signal = new AbortSignal()
    abort(reason) {
      abort(this.signal, reason)
    }
  }

  // ---- The script

  const module = { exports: {} }
  let about = {}
  let functions = []
  let hasOutput = false

  function require(name) {
    host.miss(String(name))
    throw new ReferenceError(`cannot import ${JSON.stringify(String(name))}`)
  }

  const isClass = (value) => /^class\b/.test(Function.prototype.toString.call(value))
  const isFunction = (value) => typeof value === 'function' && !isClass(value)

  /** The functions of a module, by name. A module that was bundled from `module.exports` has them as `default`. */
  function functionsOf(exported) {
    if (exported === module.exports && isFunction(exported)) return { default: exported }
    const own = Object.entries(exported).filter(([, value]) => isFunction(value))
    if (own.length > 0 || typeof exported.default !== 'object' || exported.default === null)
      return Object.fromEntries(own)
    return Object.fromEntries(Object.entries(exported.default).filter(([, value]) => isFunction(value)))
  }

  /** Whether it has parameters: without any it reads the input, if at all, by itself. */
  function takesInput(run) {
    const text = Function.prototype.toString.call(run)
    return run.length > 0 || !/^(?:async\b\s*)?(?:function\b)?\s*\*?\s*[\w$]*\s*\(\s*\)/.test(text)
  }

  /** A JSON object or array is passed as such, other text as text, other bytes as bytes; nothing as nothing. */
  function argument() {
    const text = host.inputText()
    if (text === undefined || text === null) return host.input()
    if (text === '') return undefined
    if (!/^\s*[{[]/.test(text)) return text
    try {
      return JSON.parse(text)
    } catch {
      return text
    }
  }

  function finish(result) {
    if (result === undefined) return 0
    if (hasOutput) return typeof result === 'number' ? result | 0 : 0
    if (typeof result === 'string') Host.outputString(result)
    else if (result instanceof ArrayBuffer || ArrayBuffer.isView(result)) Host.outputBytes(result)
    else {
      const json = JSON.stringify(result)
      if (json === undefined)
        throw new TypeError(`the function returned ${inspect(result)}, which is neither text, bytes nor JSON`)
      Host.outputString(json)
    }
    return 0
  }

  function call(index) {
    const { run, isGiven } = functions[index]
    hasOutput = false
    const result = isGiven ? run(argument()) : run()
    return typeof result?.then === 'function' ? Promise.resolve(result).then(finish) : finish(result)
  }

  // ---- Errors

  const NODE = 'plug-ins have no Node.js API'
  const BROWSER = 'plug-ins have no browser'
  /** What scripts for other hosts use. */
  const ELSEWHERE = {
    ...{ process: NODE, Buffer: NODE, __dirname: NODE, __filename: NODE },
    ...{
      window: BROWSER,
      document: BROWSER,
      localStorage: BROWSER,
      XMLHttpRequest: BROWSER,
      WebSocket: BROWSER,
    },
  }

  function describe(error) {
    if (!(error instanceof Error)) return `Uncaught ${inspect(error)}`
    const stack = framesOf(error).map(({ text }) => `\n    at ${text}`)
    const cause = error.cause === undefined ? '' : `\nCause: ${inspect(error.cause)}`
    return `${messageOf(error)}${stack.join('')}${cause}`
  }

  function messageOf(error) {
    const missing =
      error instanceof ReferenceError && /^'?([\w$]+)'? is not defined$/.exec(error.message)?.[1]
    const why = missing && Object.hasOwn(ELSEWHERE, missing) ? `: ${ELSEWHERE[missing]}` : ''
    return `${error.name}: ${error.message}${why}`
  }

  /** The frames of a stack that are the script's, with its own lines. */
  function framesOf(error) {
    const lines = typeof error.stack === 'string' ? error.stack.split('\n') : []
    return lines.flatMap((line) => {
      const frame = /^\s*at (?:(.*) \()?([^()]*?)(?::(\d+))?(?::(\d+))?\)?$/.exec(line)
      if (!frame || frame[2] === 'wasm-serve') return []
      const [, name, file, row, column] = frame
      if (row === undefined) return [{ text: name ? `${name} (${file})` : file }]
      const place = original({ file, line: Number(row), column: Number(column ?? 1) })
      const shown = `${place.file}:${place.line}:${place.column}`
      return [{ text: name ? `${name} (${shown})` : shown, ...place }]
    })
  }

  const VLQ = BASE64_VALUES

  /** The place in the source file of a place in a script that was bundled. */
  function original(place) {
    const { map, file } = about
    if (!map || place.file !== file) return place
    const state = [0, 0, 0, 0, 0]
    let found
    const rows = map.mappings.split(';')
    for (let row = 0; row < place.line; row++) {
      state[0] = 0
      for (const segment of (rows[row] ?? '').split(',')) {
        let field = 0
        for (let at = 0; at < segment.length; ) {
          let value = 0
          for (let shift = 0, more = true; more; shift += 5, at++) {
            const digit = VLQ.get(segment[at]) ?? 0
            value |= (digit & 31) << shift
            more = digit > 31
          }
          state[field++] += value & 1 ? -(value >> 1) : value >> 1
        }
        if (row === place.line - 1 && field > 1 && state[0] <= place.column - 1)
          found = { file: map.sources[state[1]] ?? file, line: state[2] + 1, column: state[3] + 1 }
      }
    }
    return found ?? place
  }

  define({ TextEncoder, TextDecoder, atob, btoa, Host, Config, Var, Http, Memory, MemoryHandle, console })
  define({ URL, URLSearchParams, Headers, Request, Response, fetch, structuredClone, crypto })
  define({
    setTimeout,
    setInterval,
    setImmediate,
    clearTimeout,
    clearInterval: clearTimeout,
    clearImmediate: clearTimeout,
  })
  define({
    queueMicrotask,
    AbortController,
    AbortSignal,
    self: globalThis,
    global: globalThis,
    module,
    exports: module.exports,
    require,
  })
  Math.random = host.random

  return {
    describe,
    describedBy: (json) => {
      about = JSON.parse(json)
      return about
    },
    commonJs: () => module.exports,
    mayBeModule: (error, source) =>
      error instanceof SyntaxError && /\b(?:import|export|await)\b/.test(source),
    started: (exported) => {
      const found = functionsOf(exported)
      functions = about.functions.map((name) => ({ run: found[name], isGiven: takesInput(found[name]) }))
    },
    inspect: (exported, missing) =>
      JSON.stringify({ functions: Object.keys(functionsOf(exported)), missing }),
    inspectFailure: (error, missing) => {
      const frame = error instanceof Error ? framesOf(error).find(({ line }) => line) : undefined
      const { file, line, column } = frame ?? {}
      const message = error instanceof Error ? messageOf(error) : `it threw ${inspect(error)}`
      return JSON.stringify({ message, file, line, column, missing })
    },
    call,
    ended: () => timers.clear(),
    turn,
  }
}
