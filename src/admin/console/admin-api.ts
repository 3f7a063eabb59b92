/*
 * What the admin API answers, as far as the console shows it; `/openapi.json` describes all of it.
 */

export interface Overview {
  readonly revision: number
  readonly url?: string
  readonly state: string
}

export interface Live extends Overview {
  readonly version: string
  /** The clock of the counts. */
  readonly ms: number
  readonly memoryBytes: number
  readonly boundsMs: readonly number[]
  readonly meters: readonly Meter[]
}

export interface Meter {
  readonly route: string
  readonly plugin: string
  readonly digest: string
  readonly outcomes: Readonly<Record<string, number>>
  readonly guest: readonly number[]
  readonly queue: readonly number[]
  readonly waiting: number
  readonly instances: number
  readonly guestBytes: number
  readonly kernelBytes: number
}

export interface Route {
  readonly id: string
  readonly url: string
  readonly methods: readonly string[]
  readonly host?: string
  readonly plugin: string
  readonly digest: string
  readonly function: string
  readonly contract: string
  readonly engine: string
  readonly workers: number
  readonly description?: string
  readonly trouble?: string
  readonly split?: {
    readonly digest: string
    readonly percent: number
    readonly engine: string
    readonly workers: number
  }
}

export interface Version {
  readonly digest: string
  readonly module: string
  readonly from: string
  readonly addedAt: string
  readonly bytes: number
  readonly configured: boolean
  readonly percent: number
  readonly calls: number
  readonly failures: number
}

export interface Plugin {
  readonly name: string
  readonly versions: readonly Version[]
  readonly routes: readonly string[]
  readonly exports: readonly string[]
  readonly imports: readonly { readonly module: string; readonly name: string }[]
}

export interface Change {
  readonly at: string
  readonly reason: string
  readonly ok: boolean
  readonly revision: number
  readonly ms: number
  readonly warnings: readonly string[]
  readonly error?: { readonly code: string; readonly message: string }
}

export interface LogLine {
  readonly level: string
  readonly time: string
  readonly msg?: string
  readonly reqId?: string
  readonly [field: string]: unknown
}

/** What a route has answered. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  /** In base64. */
  readonly body: string
  readonly ms: number
}

/** What the API has said no to, in its words; or that nobody answers. */
export class Refused extends Error {
  /** 0: there was no answer. */
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** Asks the admin API. */
export class AdminApi {
  readonly #token: string
  /** Of what is shown, so that nothing that nobody has seen here is overwritten. */
  #seen = '*'

  constructor(token: string) {
    this.#token = token
  }

  /** @throws {@link Refused} */
  async get<Answer>(path: string): Promise<Answer> {
    return (await this.#ask(path, { method: 'GET' })) as Answer
  }

  /**
   * Asks for a change, or for a call. Bytes are sent as they are, anything else as JSON.
   *
   * @throws {@link Refused}
   */
  async send<Answer>(method: 'PUT' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<Answer> {
    if (body instanceof Blob) {
      return (await this.#ask(path, {
        method,
        body,
        headers: { 'content-type': 'application/wasm' },
      })) as Answer
    }
    const json = body === undefined ? {} : { body: JSON.stringify(body), headers: JSON_TYPE }
    return (await this.#ask(path, { method, ...json })) as Answer
  }

  async #ask(path: string, init: RequestInit): Promise<unknown> {
    const isChange = init.method !== 'GET' && path.startsWith(PLUGINS)
    const headers = {
      ...init.headers,
      authorization: `Bearer ${this.#token}`,
      ...(isChange && { 'if-match': this.#seen }),
    }
    const answer = await fetch(path, { ...init, headers, cache: 'no-store' }).catch(() => {
      throw new Refused(0, '', 'The server does not answer.')
    })
    const content: unknown = await answer.json().catch(() => undefined)
    if (path === PLUGINS) this.#seen = answer.headers.get('etag') ?? '*'
    if (answer.ok) return content
    const { code, detail } = (content ?? {}) as { readonly code?: string; readonly detail?: string }
    throw new Refused(answer.status, code ?? '', detail ?? `The server answered ${answer.status}.`)
  }
}

const PLUGINS = '/api/plugins'

const JSON_TYPE = { 'content-type': 'application/json' }
