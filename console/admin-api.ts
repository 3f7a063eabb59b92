/*
 * The answers of the admin API, as far as the console uses them. `/openapi.json` describes all of it.
 */

/** Counters and gauges of `GET /api/live`. */
export interface LiveCounts {
  readonly revision: number
  readonly url?: string
  /** The URL of the MCP endpoint. */
  readonly mcp?: string
  readonly state: string
  /** The name of the node, if the server belongs to a fleet. */
  readonly node?: string
  /** The server's monotonic clock at the time of the counts. */
  readonly ms: number
  readonly memoryBytes: number
  readonly boundsMs: readonly number[]
  /** Number of routes. */
  readonly routes: number
  /** Why what is served is older than its sources. */
  readonly behind?: { readonly code: string; readonly message: string; readonly plugins?: readonly string[] }
  readonly total: FigureCounts
  /** Counts of the requested routes. */
  readonly meters: readonly MeterCounts[]
}

/** The counts of one version of a plug-in on one route. */
export interface MeterCounts extends FigureCounts {
  readonly route: string
  readonly plugin: string
  readonly digest: string
}

/** The counts of some calls. */
export interface FigureCounts {
  readonly outcomes: Readonly<Record<string, number>>
  readonly guest: readonly number[]
  readonly waiting: number
  readonly guestBytes: number
  readonly kernelBytes: number
}

export interface ShownRoute {
  readonly id: string
  readonly url: string
  readonly methods: readonly string[]
  readonly host?: string
  readonly plugin: string
  readonly digest: string
  readonly function: string
  readonly engine: string
  /** Whether its guests stream. */
  readonly streams?: boolean
  readonly description?: string
  readonly trouble?: string
  readonly tool?: { readonly name?: string; readonly isOnly: boolean }
  readonly split?: { readonly digest: string; readonly percent: number; readonly engine: string }
  readonly calls: number
  readonly failures: number
}

export interface VersionInfo {
  readonly digest: string
  readonly from: string
  readonly addedAt: string
  readonly bytes: number
  /** The artifact or URL of the main module. */
  readonly origin?: string
  /** The verified signer of the main module. */
  readonly signer?: string
  readonly configured: boolean
  readonly percent: number
  readonly calls: number
  readonly failures: number
}

export interface PluginInfo {
  readonly name: string
  readonly versions: readonly VersionInfo[]
  readonly routes: readonly string[]
  /** The hosts and URLs of the routes, in Fastify's route syntax. */
  readonly urls: readonly string[]
  readonly calls: number
  readonly failures: number
  readonly exports: readonly string[]
  readonly imports: readonly { readonly module: string; readonly name: string }[]
}

export interface ChangeInfo {
  readonly at: string
  readonly reason: string
  readonly ok: boolean
  readonly revision: number
  readonly ms: number
  readonly warnings: readonly string[]
  readonly error?: { readonly code: string; readonly message: string }
}

/** A serving process. */
export interface ProcessEntry {
  readonly number: number
  readonly pid?: number
  readonly state: 'starting' | 'serving' | 'silent' | 'waiting'
  readonly servingMs?: number
  readonly revision?: number
  readonly memoryBytes?: number
  readonly connections: number
  /** How many processes of this number were lost. */
  readonly lost: number
  /** How the last one has ended. */
  readonly lastEnd?: string
}

/** The fleet that the server is a node of. */
export interface FleetInfo {
  readonly name?: string
  /** The name of the server. */
  readonly node?: string
  /** Whether the store answers. */
  readonly connected?: boolean
  readonly newest?: FleetRevision
  readonly rollout?: FleetRollout
  readonly nodes: readonly FleetNodeInfo[]
  /** The newest first. */
  readonly revisions: readonly FleetRevision[]
}

export interface FleetRevision {
  readonly revision: number
  readonly at: string
  readonly by: string
  readonly reason: string
}

export interface FleetRollout {
  readonly phase: 'canary' | 'all' | 'done' | 'stopped'
  readonly since: string
  /** The canary nodes. */
  readonly nodes: readonly string[]
  readonly until?: string
  readonly problem?: string
}

export interface FleetNodeInfo {
  readonly node: string
  readonly live: boolean
  readonly revision: number
  readonly since: string
  readonly from: 'fleet' | 'copy' | 'files'
  readonly refused?: { readonly revision: number; readonly code: string; readonly message: string }
  readonly version: string
  /** Digests by name. */
  readonly plugins: Readonly<Record<string, string>>
  readonly pluginCount: number
  readonly lastSeen: string
}

export interface LogEntry {
  readonly level: string
  readonly time: string
  readonly msg?: string
  readonly err?: { readonly stack?: string }
  readonly [field: string]: unknown
}

/** The response of a route to a call from the console. */
export interface RouteAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  /** The body in base64. */
  readonly body: string
  readonly ms: number
}

/** A line of the answer to `POST /api/streams`. Besides `ms` it has one of the fields, or none. */
export interface CallLine {
  readonly ms: number
  /** The id of the call: the first line. */
  readonly call?: string
  /** Bytes of the body that were sent so far. */
  readonly uploaded?: number
  /** Comes with the headers. */
  readonly status?: number
  readonly headers?: RouteAnswer['headers']
  /** The next bytes of the answer's body, in base64. */
  readonly data?: string
  /** The last line. */
  readonly trailers?: RouteAnswer['headers']
  /** The last line: why the answer ended early. */
  readonly problem?: string
}

/** An error answer of the admin API, with its message; or the server did not answer. */
export class AdminApiError extends Error {
  /** 0: there was no answer. */
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** A page of a list. */
export interface ListPage<Item> {
  readonly items: readonly Item[]
  /** Number of items on all pages. */
  readonly total: number
  /** The path of the next page; undefined if this is the last one. */
  readonly next: string | undefined
}

const PLUGINS_PATH = '/api/plugins'

/** Answers that show versions of plug-ins. */
const PLUGINS_SHOWN = /^\/api\/plugins(\/[^/]+)?$/

/** Sends requests to the admin API. */
export class AdminApi {
  readonly #token: string
  /** The ETag of the displayed plug-ins. A change is refused if another client has changed them since. */
  #etag = '*'

  constructor(token: string) {
    this.#token = token
  }

  /** @throws {@link AdminApiError} */
  async get<Body>(path: string): Promise<Body> {
    return (await this.#request<Body>(path, { method: 'GET' })).body
  }

  /** @throws {@link AdminApiError} */
  async getPage<Item>(path: string): Promise<ListPage<Item>> {
    const { body, headers } = await this.#request<Item[]>(path, { method: 'GET' })
    const [, next] = /^<([^>]*)>; rel="next"$/.exec(headers.get('link') ?? '') ?? []
    return { items: body, total: Number(headers.get('x-total-count')), next }
  }

  /**
   * Requests a change or a call. A `Blob` is sent as a module, anything else as JSON.
   *
   * @throws {@link AdminApiError}
   */
  async send<Body>(method: 'PUT' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<Body> {
    return (await this.#request<Body>(path, { method, ...contentOf(body) })).body
  }

  /**
   * Yields an answer in lines of JSON, line by line.
   *
   * @throws {@link AdminApiError}; what the signal throws.
   */
  async *lines<Line>(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<Line> {
    const response = await this.#fetch(path, { method: 'POST', ...contentOf(body), signal })
    if (!response.ok || !response.body) throw await toApiError(response)
    let rest = ''
    const decoder = new TextDecoder()
    const reader = response.body.getReader()
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const lines = (rest + decoder.decode(read.value, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield JSON.parse(line)
    }
  }

  /** Sends bytes as they are read from a file. @throws {@link AdminApiError}; what the signal throws. */
  async upload(path: string, body: Blob, signal: AbortSignal): Promise<void> {
    const headers = { 'content-type': 'application/octet-stream' }
    const response = await this.#fetch(path, { method: 'PUT', headers, body, signal })
    if (!response.ok) throw await toApiError(response)
  }

  async #request<Body>(path: string, init: RequestInit): Promise<{ body: Body; headers: Headers }> {
    const isChange = init.method !== 'GET' && path.startsWith(PLUGINS_PATH)
    const headers = { ...init.headers, ...(isChange && { 'if-match': this.#etag }) }
    const response = await this.#fetch(path, { ...init, headers })
    const [resource = ''] = path.split('?')
    if (init.method === 'GET' && PLUGINS_SHOWN.test(resource))
      this.#etag = response.headers.get('etag') ?? '*'
    if (!response.ok) throw await toApiError(response)
    return { body: await readJson(response), headers: response.headers }
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#token}` }
    return fetch(path, { ...init, headers, cache: 'no-store' }).catch((error) => {
      throw init.signal?.aborted ? error : new AdminApiError(0, '', 'The server does not respond.')
    })
  }
}

async function toApiError(response: Response): Promise<AdminApiError> {
  const { code = '', detail = `The server responded with status ${response.status}.` } =
    (await readJson(response)) ?? {}
  return new AdminApiError(response.status, String(code), String(detail))
}

/** @returns undefined if it is not JSON. */
function readJson(response: Response) {
  return response.json().catch(() => undefined)
}

function contentOf(body: unknown): RequestInit {
  if (body === undefined) return {}
  const isModule = body instanceof Blob
  const type = isModule ? 'application/wasm' : 'application/json'
  return { headers: { 'content-type': type }, body: isModule ? body : JSON.stringify(body) }
}
