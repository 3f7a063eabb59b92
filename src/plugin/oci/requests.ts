import { RegistryRefusedError } from '../../errors/errors.ts'
import { followRedirects, redirectLocation } from '../../platform/redirects.ts'
import { networkProblem } from '../source/network-problem.ts'
import { showUrl } from '../source/url.ts'
import { type Access, type Authorizations, openAuthorizations } from './authorization.ts'
import { findCredentials } from './credentials.ts'
import { type Endpoint, endpointOf, problemWithTarget, type RegistrySettings } from './endpoint.ts'
import {
  awaitShared,
  type Operation,
  type OperationLimits,
  repeat,
  TemporaryFailure,
  withDeadline,
} from './operation.ts'
import { type HttpRequest, type HttpResponse, openTransport, type Transport } from './transport.ts'

interface RequestOptions extends OperationLimits {
  /** The environment of the process: proxies, and where the credentials are. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Settings by `host[:port]`. */
  readonly registries: Readonly<Record<string, RegistrySettings>>
  readonly retryDelaysMs: readonly number[]
}

/** A request to a registry. */
export interface RegistryRequest extends Access {
  readonly method: HttpRequest['method']
  /** A path, or a URL that the registry named; it may have another origin. */
  readonly url: string | URL
  readonly headers?: Readonly<Record<string, string>>
  /** Called once an attempt. */
  readonly body?: () => HttpRequest['body']
}

/** Reads a response that is no temporary failure. It must read or cancel its body. */
type ReadResponse<Result> = (response: HttpResponse, url: URL) => Promise<Result>

/** Sends requests to registries: authorizes them, follows redirects, and repeats them after temporary failures. */
export interface Requests {
  /** Runs an operation within the deadline. */
  run<Result>(reference: string, run: (operation: Operation) => Promise<Result>): Promise<Result>
  /**
   * Sends a request; POST is never repeated.
   *
   * @throws {@link RegistryUnreachableError} if all attempts failed.
   * @throws {@link RegistryRefusedError} if a redirect is not permitted, or the credentials are refused.
   */
  send<Result>(operation: Operation, request: RegistryRequest, read: ReadResponse<Result>): Promise<Result>
  /** A URL that a response named, which may be relative. @throws {@link RegistryRefusedError} if it is not permitted. */
  target(operation: Operation, registry: string, location: string | null, from: URL): URL
}

/** Opens the requests of a client. */
export function openRequests(options: RequestOptions): Requests {
  return new AuthorizedRequests(options)
}

const MAX_REDIRECTS = 5

class AuthorizedRequests implements Requests {
  readonly #options: RequestOptions
  readonly #authorizations: Authorizations
  /** Transports by registry, each of which may have authorities of its own. */
  readonly #transports = new Map<string, Promise<Transport>>()

  constructor(options: RequestOptions) {
    this.#options = options
    this.#authorizations = openAuthorizations({
      findCredentials: (registry) => findCredentials(registry, options.environment),
      run: (reference, run) => this.run(reference, run),
      send: (operation, registry, url, request, read) =>
        this.#repeat(operation, request.method, async () => {
          const response = await this.#sendOnce(operation, registry, url, request)
          return explainNetworkFailure(operation, url, () => read(response))
        }),
    })
  }

  run<Result>(reference: string, run: (operation: Operation) => Promise<Result>): Promise<Result> {
    return withDeadline(reference, this.#options, run)
  }

  send<Result>(operation: Operation, request: RegistryRequest, read: ReadResponse<Result>): Promise<Result> {
    return this.#repeat(operation, request.method, async () => {
      const { response, url } = await this.#authorize(operation, request)
      return explainNetworkFailure(operation, url, () => read(response, url))
    })
  }

  target({ reference }: Operation, registry: string, location: string | null, from: URL): URL {
    if (location === null)
      throw new RegistryRefusedError(reference, 'its answer has no Location, which must name the next URL')
    const url = URL.canParse(location, from) ? new URL(location, from) : undefined
    const problem = url ? problemWithTarget(url, from, this.#endpoint(registry)) : 'it is not a URL'
    if (url && problem === undefined) return url
    const shown = url ? showUrl(url) : 'something else'
    throw new RegistryRefusedError(reference, `it is redirected to ${shown}: ${problem}`)
  }

  #endpoint(registry: string): Endpoint {
    return endpointOf(registry, this.#options.registries[registry])
  }

  #repeat<Result>(
    operation: Operation,
    method: HttpRequest['method'],
    attempt: () => Promise<Result>,
  ): Promise<Result> {
    return repeat(operation, method === 'POST' ? [] : this.#options.retryDelaysMs, attempt)
  }

  /** Answers at most one challenge, and only of the registry itself: a challenge names the server that receives credentials. */
  async #authorize(operation: Operation, request: RegistryRequest): Promise<FollowedResponse> {
    const endpoint = this.#endpoint(request.repository.registry)
    const url = new URL(request.url, endpoint.origin)
    const isOwn = ({ origin }: URL) => origin === endpoint.origin.origin
    const known = isOwn(url) ? await awaitShared(operation, this.#authorizations.current(request)) : undefined
    const first = await this.#follow(operation, request, url, known)
    if (first.response.status !== 401 || !isOwn(first.url) || !isOwn(url)) return first

    await first.response.body?.cancel()
    const challenge = first.response.headers.get('www-authenticate') ?? ''
    const renewed = this.#authorizations.renew(request, endpoint, challenge, known)
    return this.#follow(operation, request, url, await awaitShared(operation, renewed))
  }

  /** The authorization is sent to the first origin, and never again after a redirect that left it. */
  async #follow(
    operation: Operation,
    request: RegistryRequest,
    first: URL,
    authorization: string | undefined,
  ): Promise<FollowedResponse> {
    const { registry } = request.repository
    const sent: SentRequest = { url: first, headers: authorization === undefined ? {} : { authorization } }
    return followRedirects(sent, {
      send: async ({ url, headers }) => {
        const response = await this.#sendOnce(operation, registry, url, {
          method: request.method,
          headers: { ...request.headers, ...headers },
          body: request.body?.(),
        })
        return { response, url }
      },
      next: async ({ url, headers }, { response }) => {
        const location = redirectLocation(response.status, response.headers.get('location'))
        const isRead = request.method === 'GET' || request.method === 'HEAD'
        if (location === undefined || !isRead) return undefined
        await response.body?.cancel()
        const next = this.target(operation, registry, location, url)
        return { url: next, headers: next.origin === url.origin ? headers : {} }
      },
      maxRedirects: MAX_REDIRECTS,
      tooMany: () =>
        new RegistryRefusedError(operation.reference, `it is redirected more than ${MAX_REDIRECTS} times`),
    })
  }

  async #sendOnce(
    operation: Operation,
    registry: string,
    url: URL,
    { method, headers, body }: Omit<HttpRequest, 'signal'>,
  ): Promise<HttpResponse> {
    const transport = await this.#transport(registry)
    const request = {
      method,
      // Digests are those of the original bytes, so ask for no content coding.
      headers: { 'accept-encoding': 'identity', 'user-agent': 'wasm-serve', ...headers },
      body,
      signal: operation.signal,
    }
    const response = await explainNetworkFailure(operation, url, () => transport(url, request))
    const isTemporary = response.status === 429 || (response.status >= 500 && response.status !== 501)
    if (!isTemporary) return response
    await response.body?.cancel()
    const waitMs = parseRetryAfter(response.headers.get('retry-after'))
    throw new TemporaryFailure(`${url.host} answers with status ${response.status}`, waitMs)
  }

  #transport(registry: string): Promise<Transport> {
    const known = this.#transports.get(registry)
    if (known) return known
    const opened = openTransport(this.#options.environment, this.#options.registries[registry]?.ca)
    this.#transports.set(registry, opened)
    opened.catch(() => this.#transports.delete(registry)) // the file may be there next time
    return opened
  }
}

interface SentRequest {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
}

interface FollowedResponse {
  readonly response: HttpResponse
  /** The URL after redirects. */
  readonly url: URL
}

/** A failure of the network may be temporary; a wrong certificate, or another answer than HTTP, is not. */
async function explainNetworkFailure<Result>(
  { reference, signal }: Operation,
  url: URL,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const problem = signal.aborted ? undefined : networkProblem(url, error)
    if (!problem) throw error
    const { reason, kind, cause } = problem
    if (kind === 'network') throw new TemporaryFailure(reason, 0, { cause })
    const hint =
      kind === 'untrusted'
        ? '; for a private CA, set "ca" of this registry in "registries", or NODE_EXTRA_CA_CERTS'
        : ''
    throw new RegistryRefusedError(reference, `${url.host}: ${reason}${hint}`, { cause })
  }
}

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110, section 10.2.3). */
function parseRetryAfter(value: string | null): number {
  if (value === null) return 0
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now()
  return Number.isNaN(waitMs) ? 0 : Math.max(0, waitMs)
}
