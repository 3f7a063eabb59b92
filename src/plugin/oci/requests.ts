import { RegistryRefusedError } from '../../errors/errors.ts'
import { followRedirects, redirectLocation } from '../../platform/redirects.ts'
import { networkProblem } from '../source/network-problem.ts'
import { showUrl } from '../source/url.ts'
import { type Answer, wordsOf } from './answer.ts'
import { type Access, type Authorization, type Authorizations, openAuthorizations } from './authorization.ts'
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
  /** Called once an attempt. */
  readonly headers?: () => Readonly<Record<string, string>>
  /** Called once an attempt. */
  readonly body?: () => HttpRequest['body']
}

/** Reads an answer that is no temporary failure. What it leaves of the body is discarded. */
type ReadAnswer<Result> = (answer: Answer, url: URL) => Promise<Result>

/** Sends requests to registries: authorizes them, follows redirects, and repeats them after temporary failures. */
export interface Requests {
  /** Runs an operation within the deadline. */
  run<Result>(reference: string, run: (operation: Operation) => Promise<Result>): Promise<Result>
  /**
   * Sends a request. POST is repeated only after 429.
   *
   * @throws {@link RegistryUnreachableError} if all attempts failed.
   * @throws {@link RegistryRefusedError} if a redirect is not permitted, or the credentials are refused.
   */
  send<Result>(operation: Operation, request: RegistryRequest, read: ReadAnswer<Result>): Promise<Result>
  /** As `send`, but never repeats. @returns undefined after a temporary failure. */
  tryOnce<Result>(
    operation: Operation,
    request: RegistryRequest,
    read: ReadAnswer<Result>,
  ): Promise<Result | undefined>
  /** A URL that an answer named, which may be relative. @throws {@link RegistryRefusedError} if it is not permitted. */
  target(operation: Operation, registry: string, location: string | undefined, from: URL): URL
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
      findCredentials: (repository) => findCredentials(repository, options.environment),
      run: (reference, run) => this.run(reference, run),
      send: (operation, registry, url, request, read) =>
        this.#repeat(operation, request.method, async () => {
          const response = await this.#sendOnce(operation, registry, url, request)
          return readAnswer(operation, url, response, read)
        }),
    })
  }

  run<Result>(reference: string, run: (operation: Operation) => Promise<Result>): Promise<Result> {
    return withDeadline(reference, this.#options, run)
  }

  send<Result>(operation: Operation, request: RegistryRequest, read: ReadAnswer<Result>): Promise<Result> {
    return this.#repeat(operation, request.method, () => this.#attempt(operation, request, read))
  }

  async tryOnce<Result>(
    operation: Operation,
    request: RegistryRequest,
    read: ReadAnswer<Result>,
  ): Promise<Result | undefined> {
    try {
      return await this.#attempt(operation, request, read)
    } catch (error) {
      if (error instanceof TemporaryFailure) return undefined
      throw error
    }
  }

  target({ reference }: Operation, registry: string, location: string | undefined, from: URL): URL {
    if (location === undefined)
      throw new RegistryRefusedError(reference, 'its response has no Location, which must name the next URL')
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
    return repeat(operation, this.#options.retryDelaysMs, method !== 'POST', attempt)
  }

  async #attempt<Result>(
    operation: Operation,
    request: RegistryRequest,
    read: ReadAnswer<Result>,
  ): Promise<Result> {
    const { response, url, credentials } = await this.#authorize(operation, request)
    return readAnswer(operation, url, response, () => read({ ...response, credentials }, url))
  }

  /** Answers at most one challenge, and only of the registry itself: a challenge names the server that receives credentials. */
  async #authorize(operation: Operation, request: RegistryRequest): Promise<AuthorizedResponse> {
    const endpoint = this.#endpoint(request.repository.registry)
    const url = new URL(request.url, endpoint.origin)
    const isOwn = ({ origin }: URL) => origin === endpoint.origin.origin
    const known = isOwn(url) ? await awaitShared(operation, this.#authorizations.current(request)) : undefined
    const first = await this.#follow(operation, request, url, known)
    const challenge = isOwn(url) && isOwn(first.url) ? challengeOf(first.response) : undefined
    if (challenge === undefined) return { ...first, credentials: known?.note }

    first.response.discard()
    const renewed = await awaitShared(
      operation,
      this.#authorizations.renew(request, endpoint, challenge, known),
    )
    return { ...(await this.#follow(operation, request, url, renewed)), credentials: renewed.note }
  }

  /** The authorization is sent to the first origin, and never again after a redirect that left it. */
  async #follow(
    operation: Operation,
    { repository: { registry }, method, headers: ownHeaders, body }: RegistryRequest,
    first: URL,
    authorization: Authorization | undefined,
  ): Promise<FollowedResponse> {
    const headers = ownHeaders?.() ?? {}
    const sent: SentRequest = {
      url: first,
      authorization: authorization ? { authorization: authorization.header } : {},
    }
    return followRedirects(sent, {
      send: async ({ url, authorization }) => {
        const request = { method, headers: { ...headers, ...authorization }, body: body?.() }
        return { response: await this.#sendOnce(operation, registry, url, request), url }
      },
      next: ({ url, authorization }, { response }) => {
        const location = redirectLocation(response.status, response.header('location'))
        // After the other statuses, programs disagree about the method of the next request.
        const keepsMethod = method === 'GET' || method === 'HEAD' || response.status >= 307
        if (location === undefined || !keepsMethod) return undefined
        response.discard()
        const next = this.target(operation, registry, location, url)
        return { url: next, authorization: next.origin === url.origin ? authorization : {} }
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
    const { status } = response
    if (status !== 429 && (status < 500 || status === 501)) return response
    const words = await readAnswer(operation, url, response, wordsOf)
    const waitMs = parseRetryAfter(response.header('retry-after'))
    throw new TemporaryFailure(`${url.host} responds with status ${status}${words}`, waitMs, status === 429)
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
  readonly authorization: Readonly<Record<string, string>>
}

interface FollowedResponse {
  readonly response: HttpResponse
  /** The URL after redirects. */
  readonly url: URL
}

interface AuthorizedResponse extends FollowedResponse, Pick<Answer, 'credentials'> {}

/** The challenge of a refusal. Some registries answer 403 where the authorization permits too little. */
function challengeOf(response: HttpResponse): string | undefined {
  const challenge = response.header('www-authenticate') ?? ''
  if (response.status === 401) return challenge
  return response.status === 403 && /\b(?:bearer|basic)\b/i.test(challenge) ? challenge : undefined
}

/** A connection must not stay open because its answer was not read to the end. */
async function readAnswer<Result>(
  operation: Operation,
  url: URL,
  response: HttpResponse,
  read: (response: HttpResponse) => Promise<Result>,
): Promise<Result> {
  try {
    return await explainNetworkFailure(operation, url, () => read(response))
  } finally {
    response.discard()
  }
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
    if (kind === 'network') throw new TemporaryFailure(reason, 0, false, { cause })
    throw new RegistryRefusedError(reference, `${url.host}: ${reason}${HINTS[kind]}`, { cause })
  }
}

const HINTS = {
  answer: '',
  untrusted: '; for a private CA, set "ca" of this registry in "registries", or NODE_EXTRA_CA_CERTS',
  unencrypted: '; for http, set "insecure" of this registry in "registries" (push: --insecure)',
}

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110, section 10.2.3). */
function parseRetryAfter(value: string | undefined): number {
  if (value === undefined) return 0
  const waitMs = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now()
  return Number.isNaN(waitMs) ? 0 : Math.max(0, waitMs)
}
