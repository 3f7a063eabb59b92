import { RegistryRefusedError } from '../../errors/errors.ts'
import { isHeaderValue, printable } from '../../platform/text.ts'
import { showUrl } from '../source/url.ts'
import { problemWithAnswer, readSmallObject } from './answer.ts'
import type { CredentialSearch, Credentials, Login } from './credentials.ts'
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
  findCredentials(repository: Repository): Promise<CredentialSearch>
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

/** What a request is authorized by. */
export interface Authorization {
  /** The value of the header `Authorization`. */
  readonly header: string
  /** Which credentials it is from, or why it is from none, for messages. */
  readonly note: string
}

/** The authorizations by registry, repository and actions. Concurrent requests share one token request. */
export interface Authorizations {
  /** @returns undefined before the first challenge and after the token has expired. */
  current(access: Access): Promise<Authorization | undefined>
  /**
   * An authorization after the registry refused a request.
   *
   * @param challenge - The header `WWW-Authenticate` of the refusal.
   * @param refused - What was refused: only another one is returned.
   * @throws {@link RegistryRefusedError} if there are no credentials, or they are refused.
   */
  renew(
    access: Access,
    endpoint: Endpoint,
    challenge: string,
    refused: Authorization | undefined,
  ): Promise<Authorization>
}

/** Opens the cache of authorizations of a client. */
export function openAuthorizations(source: TokenSource): Authorizations {
  return new SharedAuthorizations(source)
}

interface KeptAuthorization extends Authorization {
  /** When the token expires, on the clock of `performance`. */
  readonly expiresMs: number
}

/** The default of Docker's token specification, if the token server names no other. */
const DEFAULT_LIFETIME_SECONDS = 60

class SharedAuthorizations implements Authorizations {
  readonly #source: TokenSource
  readonly #known = new Map<string, Promise<KeptAuthorization>>()

  constructor(source: TokenSource) {
    this.#source = source
  }

  async current(access: Access): Promise<Authorization | undefined> {
    const known = await this.#known.get(keyOf(access))
    return isFresh(known) ? known : undefined
  }

  async renew(
    access: Access,
    endpoint: Endpoint,
    challenge: string,
    refused: Authorization | undefined,
  ): Promise<Authorization> {
    const key = keyOf(access)
    const known = this.#known.get(key)
    const authorization = await known
    if (isFresh(authorization) && authorization.header !== refused?.header) return authorization
    // Another request renewed it while this one waited.
    if (this.#known.get(key) !== known) return this.renew(access, endpoint, challenge, refused)
    const renewed = authorize(this.#source, access, endpoint, parseChallenges(challenge))
    this.#known.set(key, renewed)
    renewed.catch(() => this.#known.delete(key))
    return renewed
  }
}

function keyOf({ repository: { registry, repository }, actions }: Access): string {
  return `${registry} ${repository} ${actions}`
}

function isFresh(authorization: KeptAuthorization | undefined): authorization is KeptAuthorization {
  return authorization !== undefined && authorization.expiresMs > performance.now()
}

/** Answers the first challenge that the credentials fit; Bearer comes before Basic. */
async function authorize(
  source: TokenSource,
  access: Access,
  endpoint: Endpoint,
  challenges: readonly Challenge[],
): Promise<KeptAuthorization> {
  const { registry, repository } = access.repository
  const reference = `oci://${registry}/${repository}`
  const search = await source.findCredentials(access.repository)
  const { found, note } = search
  const lasting = (header: string) => ({ header, note, expiresMs: Number.POSITIVE_INFINITY })
  const bearer = challenges.find(({ scheme }) => scheme === 'bearer')
  if (bearer) {
    if (found?.kind === 'bearer') return lasting(`Bearer ${found.token}`)
    return fetchToken(source, reference, access, endpoint, bearer, search)
  }
  if (!challenges.some(({ scheme }) => scheme === 'basic'))
    throw new RegistryRefusedError(
      reference,
      'access is denied, and the registry asks for neither Basic nor Bearer authorization',
    )
  const login = loginOf(found)
  if (login) return lasting(basic(login))
  const problem = found ? 'the credentials for it are a token' : note
  throw new RegistryRefusedError(reference, `it asks for a password: ${problem}`)
}

/** Credentials that Basic authorization can send. */
function loginOf(credentials: Credentials | undefined): Login | undefined {
  if (credentials?.kind === 'password') return credentials
  return credentials?.kind === 'identity' ? credentials.login : undefined
}

function basic({ username, password }: Login): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** Statuses of token servers that have no POST, or do not know the identity token. */
const NO_POST = [401, 404, 405]

async function fetchToken(
  source: TokenSource,
  reference: string,
  access: Access,
  endpoint: Endpoint,
  { parameters }: Challenge,
  { found, note }: CredentialSearch,
): Promise<KeptAuthorization> {
  const realm = checkRealm(reference, endpoint, parameters.get('realm') ?? '')
  const service = parameters.get('service')
  const scopes = scopesOf(access, parameters.get('scope') ?? '')
  const ask = <Result>(
    url: URL,
    request: Omit<HttpRequest, 'signal'>,
    read: (response: HttpResponse) => Promise<Result>,
  ) =>
    source.run(reference, (operation) =>
      source.send(operation, access.repository.registry, url, request, read),
    )
  const login = loginOf(found)
  if (found?.kind === 'identity') {
    const token = await ask(realm, refreshRequest(found.token, service, scopes), async (response) =>
      login && NO_POST.includes(response.status) ? undefined : readToken(reference, realm, response, note),
    )
    if (token) return token
  }
  const url = new URL(realm)
  if (service !== undefined) url.searchParams.append('service', service)
  for (const scope of scopes) url.searchParams.append('scope', scope)
  const headers = login ? { authorization: basic(login) } : {}
  return ask(url, { method: 'GET', headers }, (response) => readToken(reference, realm, response, note))
}

/**
 * The scope that the request needs, and those of the challenge: a registry may know the repository by another name. Of these, only
 * the actions that the request needs: no token permits to push that is for a pull.
 */
function scopesOf({ repository: { repository }, actions }: Access, challenged: string): string[] {
  const own = `repository:${repository}:`
  const others = challenged.split(/\s+/).filter((scope) => !scope.startsWith(own))
  const limited = others.map((scope) => limitScope(scope, actions.split(',')))
  return [own + actions, ...limited.filter((scope) => scope !== '')]
}

/** @returns an empty text if nothing is left. */
function limitScope(scope: string, actions: readonly string[]): string {
  const [type, ...name] = scope.split(':')
  if (type !== 'repository') return scope
  const offered = name.pop()?.split(',')
  const both = actions.filter((action) => offered?.includes(action))
  return both.length === 0 ? '' : `repository:${name.join(':')}:${both.join(',')}`
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
function refreshRequest(
  token: string,
  service: string | undefined,
  scopes: readonly string[],
): Omit<HttpRequest, 'signal'> {
  const form = new URLSearchParams({
    ...(service !== undefined && { service }),
    scope: scopes.join(' '),
    grant_type: 'refresh_token',
    client_id: 'wasm-serve',
    refresh_token: token,
  })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  return { method: 'POST', headers, body: String(form) }
}

async function readToken(
  reference: string,
  realm: URL,
  response: HttpResponse,
  note: string,
): Promise<KeptAuthorization> {
  const refuse = (problem: string) =>
    new RegistryRefusedError(reference, `the token server ${realm.host} ${problem}`)
  if (response.status !== 200) throw refuse(`refuses: ${await problemWithAnswer(response)}; ${note}`)
  const answer = await readSmallObject(response)
  const token = answer?.token || answer?.access_token
  if (typeof token !== 'string' || !isHeaderValue(token)) throw refuse('sent no token')
  const seconds = typeof answer?.expires_in === 'number' ? answer.expires_in : DEFAULT_LIFETIME_SECONDS
  // A tenth less: the token must not expire on its way.
  return { header: `Bearer ${token}`, note, expiresMs: performance.now() + seconds * 900 }
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
