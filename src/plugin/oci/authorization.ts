import { RegistryRefusedError } from '../../errors/errors.ts'
import { isHeaderValue, printable } from '../../platform/text.ts'
import { showUrl } from '../source/url.ts'
import { problemWithAnswer, readSmallObject } from './answer.ts'
import type { Credentials } from './credentials.ts'
import { type Endpoint, problemWithTarget } from './endpoint.ts'
import type { Operation } from './operation.ts'
import type { Repository } from './reference.ts'
import type { HttpRequest, HttpResponse } from './transport.ts'

/** The access that a request needs. */
export interface Access {
  readonly repository: Repository
  readonly actions: 'pull' | 'pull,push'
}

/** The parts of the client that getting a token needs. */
interface TokenSource {
  findCredentials(registry: string): Promise<Credentials | undefined>
  /** Runs an operation with a deadline of its own. */
  run<Result>(reference: string, run: (operation: Operation) => Promise<Result>): Promise<Result>
  /** Sends a request, repeats it after temporary failures, and reads the response. */
  send<Result>(
    operation: Operation,
    registry: string,
    url: URL,
    request: Omit<HttpRequest, 'signal'>,
    read: (response: HttpResponse) => Promise<Result>,
  ): Promise<Result>
}

/** The values of `Authorization` by registry, repository and actions. Concurrent requests share one token request. */
export interface Authorizations {
  /** @returns undefined before the first challenge and after the token has expired. */
  current(access: Access): Promise<string | undefined>
  /**
   * A value after the registry refused a request.
   *
   * @param challenge - The header `WWW-Authenticate` of the refusal.
   * @param refused - The value that was refused: only another one is returned.
   * @throws {@link RegistryRefusedError} if there are no credentials, or they are refused.
   */
  renew(access: Access, endpoint: Endpoint, challenge: string, refused: string | undefined): Promise<string>
}

/** Opens the cache of authorizations of a client. */
export function openAuthorizations(source: TokenSource): Authorizations {
  return new SharedAuthorizations(source)
}

interface Authorization {
  readonly header: string
  /** When the token expires, on the clock of `performance`. */
  readonly expiresMs: number
}

/** The default of Docker's token specification, if the token server names no other. */
const DEFAULT_LIFETIME_SECONDS = 60

class SharedAuthorizations implements Authorizations {
  readonly #source: TokenSource
  readonly #known = new Map<string, Promise<Authorization>>()

  constructor(source: TokenSource) {
    this.#source = source
  }

  async current(access: Access): Promise<string | undefined> {
    const known = await this.#known.get(keyOf(access))
    return isFresh(known) ? known.header : undefined
  }

  async renew(
    access: Access,
    endpoint: Endpoint,
    challenge: string,
    refused: string | undefined,
  ): Promise<string> {
    const key = keyOf(access)
    const known = this.#known.get(key)
    const authorization = await known
    if (isFresh(authorization) && authorization.header !== refused) return authorization.header
    // Another request renewed it while this one waited.
    if (this.#known.get(key) !== known) return this.renew(access, endpoint, challenge, refused)
    const renewed = authorize(this.#source, access, endpoint, parseChallenges(challenge))
    this.#known.set(key, renewed)
    renewed.catch(() => this.#known.delete(key))
    return (await renewed).header
  }
}

function keyOf({ repository: { registry, repository }, actions }: Access): string {
  return `${registry} ${repository} ${actions}`
}

function isFresh(authorization: Authorization | undefined): authorization is Authorization {
  return authorization !== undefined && authorization.expiresMs > performance.now()
}

/** Answers the first challenge that the credentials fit; Bearer comes before Basic. */
async function authorize(
  source: TokenSource,
  access: Access,
  endpoint: Endpoint,
  challenges: readonly Challenge[],
): Promise<Authorization> {
  const { registry, repository } = access.repository
  const reference = `oci://${registry}/${repository}`
  const credentials = await source.findCredentials(registry)
  const bearer = challenges.find(({ scheme }) => scheme === 'bearer')
  if (bearer) {
    if (credentials?.kind === 'bearer') return lasting(`Bearer ${credentials.token}`)
    return fetchToken(source, reference, access, endpoint, bearer, credentials)
  }
  if (!challenges.some(({ scheme }) => scheme === 'basic'))
    throw new RegistryRefusedError(
      reference,
      'access is denied, and the registry asks for neither Basic nor Bearer authorization',
    )
  if (credentials?.kind === 'password') return lasting(basic(credentials))
  throw new RegistryRefusedError(
    reference,
    credentials
      ? `it asks for a password, and the credentials for ${registry} are a token`
      : `it asks for a password, and there is none for ${registry}: ${ADD_CREDENTIALS}`,
  )
}

const ADD_CREDENTIALS = 'add it to the Docker configuration (docker login; DOCKER_CONFIG)'

function lasting(header: string): Authorization {
  return { header, expiresMs: Number.POSITIVE_INFINITY }
}

function basic({ username, password }: { username: string; password: string }): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

function fetchToken(
  source: TokenSource,
  reference: string,
  { repository: { registry, repository }, actions }: Access,
  endpoint: Endpoint,
  { parameters }: Challenge,
  credentials: Exclude<Credentials, { kind: 'bearer' }> | undefined,
): Promise<Authorization> {
  const realm = checkRealm(reference, endpoint, parameters.get('realm') ?? '')
  const query = new URLSearchParams()
  const service = parameters.get('service')
  if (service !== undefined) query.set('service', service)
  // Not the scope of the challenge: the registry could ask the token server for more with these credentials.
  query.set('scope', `repository:${repository}:${actions}`)
  const request = credentials?.kind === 'identity' ? refreshRequest(query, credentials.token) : undefined
  if (!request) for (const [name, value] of query) realm.searchParams.append(name, value)
  const password = credentials?.kind === 'password' ? { authorization: basic(credentials) } : {}
  const sent = request ?? { method: 'GET', headers: password }
  return source.run(reference, (operation) =>
    source.send(operation, registry, realm, sent, async (response) => {
      if (response.status === 200) return readToken(reference, realm, response)
      const problem = await problemWithAnswer(response)
      const hint = credentials ? '' : `; no credentials for ${registry} were found: ${ADD_CREDENTIALS}`
      throw new RegistryRefusedError(reference, `the token server ${realm.host} refuses: ${problem}${hint}`)
    }),
  )
}

/** The registry names the server that receives the credentials. */
function checkRealm(reference: string, endpoint: Endpoint, realm: string): URL {
  const url = URL.canParse(realm) ? new URL(realm) : undefined
  const problem = url ? problemWithTarget(url, endpoint.origin, endpoint) : 'it is not a URL'
  if (url && problem === undefined) return url
  const shown = url ? printable(showUrl(url)) : 'its realm'
  throw new RegistryRefusedError(reference, `the token server ${shown} is not used: ${problem}`)
}

/** OAuth 2.0, as the registry of Docker extends it. */
function refreshRequest(query: URLSearchParams, token: string): Omit<HttpRequest, 'signal'> {
  const form = new URLSearchParams(query)
  form.set('grant_type', 'refresh_token')
  form.set('client_id', 'wasm-serve')
  form.set('refresh_token', token)
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  return { method: 'POST', headers, body: String(form) }
}

async function readToken(reference: string, realm: URL, response: HttpResponse): Promise<Authorization> {
  const answer = await readSmallObject(response)
  const token = answer?.token || answer?.access_token
  if (typeof token !== 'string' || !isHeaderValue(token))
    throw new RegistryRefusedError(reference, `the token server ${realm.host} sent no token`)
  const seconds = typeof answer?.expires_in === 'number' ? answer.expires_in : DEFAULT_LIFETIME_SECONDS
  // A tenth less: the token must not expire on its way.
  return { header: `Bearer ${token}`, expiresMs: performance.now() + seconds * 900 }
}

/** One challenge of a `WWW-Authenticate` header. */
interface Challenge {
  /** The scheme in lower case, such as `bearer`. */
  readonly scheme: string
  /** The parameters by their names in lower case. */
  readonly parameters: ReadonlyMap<string, string>
}

/** Parses `WWW-Authenticate` (RFC 9110, section 11.6.1), which may have several challenges. Stops where it is malformed. */
export function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const scanner = { at: 0 }
  for (;;) {
    take(/[\s,]*/y)
    const name = take(/[\w!#$%&'*+.^`|~-]+/y)?.[0].toLowerCase()
    if (name === undefined) return challenges
    const value = take(/[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))/y)
    const last = challenges.at(-1)
    if (!value) challenges.push({ scheme: name, parameters: new Map() })
    else last?.parameters.set(name, value[1]?.replaceAll(/\\(.)/g, '$1') ?? value[2] ?? '')
  }

  function take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = scanner.at
    const match = pattern.exec(header)
    if (match) scanner.at = pattern.lastIndex
    return match ?? undefined
  }
}
