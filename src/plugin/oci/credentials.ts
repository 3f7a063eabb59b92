import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { isObject, type JsonObject, parseJson } from '../../platform/json-text.ts'
import { errorCode, fileProblem } from '../../platform/system-errors.ts'
import { fitsParts, isHeaderValue, listed, trimEnds } from '../../platform/text.ts'
import { askHelper, helperProgram } from './credential-helper.ts'
import { type Repository, registryName } from './reference.ts'

/** Credentials for one repository. No part of them appears in a message. */
export type Credentials =
  | ({ readonly kind: 'password' } & Login)
  /** A refresh token, which the registry's token server accepts. */
  | { readonly kind: 'identity'; readonly token: string; readonly login?: Login }
  /** A token for the registry itself. */
  | { readonly kind: 'bearer'; readonly token: string }

export interface Login {
  readonly username: string
  readonly password: string
}

/** The result of a search for credentials. */
export interface CredentialSearch {
  /** undefined: there are none. */
  readonly found: Credentials | undefined
  /** For messages: where they come from, or which others there are. */
  readonly note: string
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Finds the credentials for a repository: in `$REGISTRY_AUTH_FILE` (Podman, ORAS), then in `config.json` of the Docker
 * configuration, whose folder is `$DOCKER_CONFIG` or `~/.docker`. The first file decides that has some. Within a file
 * the order is `credHelpers`, `auths`, `credsStore`. A file may also be the former `.dockercfg`, which is `auths` alone.
 *
 * A key is a host with its port, and may have the start of the repository's path, as in Podman and Kubernetes. A `*` in it stands for
 * any characters within one part of the host, as in Kubernetes. The key with the longest path counts.
 *
 * @throws {@link CredentialsInvalidError} if a file or a helper is broken.
 */
export async function findCredentials(
  { registry, repository }: Repository,
  environment: Environment,
): Promise<CredentialSearch> {
  const { REGISTRY_AUTH_FILE: authFile, DOCKER_CONFIG: folder, HOME: home = homedir() } = environment
  const own = join(folder || join(home, '.docker'), 'config.json')
  const place = { host: registryName(registry), path: repository }
  const others: string[] = []
  const none = `none for ${registry}/${repository}`
  for (const file of authFile ? [authFile, own] : [own]) {
    const config = await readConfig(file)
    const result = config && (await findIn(config, file, place, environment))
    if (result) return result
    const keys = config ? keysOf(config) : []
    if (!config) others.push(`there is no ${file}`)
    else others.push(`${file} has ${keys.length > 0 ? `credentials for ${listed(keys)}; ` : ''}${none}`)
  }
  const note = `no credentials were sent: ${others.join('; ')} (docker login, DOCKER_CONFIG)`
  return { found: undefined, note }
}

/** A config has some entries for each registry. */
const MAX_CONFIG_BYTES = 4_194_304

async function readConfig(file: string): Promise<JsonObject | undefined> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined
    throw new CredentialsInvalidError(file, fileProblem(error), { cause: error })
  })
  if (text === undefined) return undefined
  if (text.length > MAX_CONFIG_BYTES) throw new CredentialsInvalidError(file, 'it is larger than 4 MiB')
  const parsed = parseJson(text)
  // Without the character that is wrong, which may be one of a secret.
  if ('mistake' in parsed)
    throw new CredentialsInvalidError(
      file,
      `it is not JSON (line ${parsed.mistake.line}, column ${parsed.mistake.column})`,
    )
  if (!isObject(parsed.value)) throw new CredentialsInvalidError(file, 'it is not a JSON object')
  return parsed.value
}

/** @returns undefined if the file has none. */
async function findIn(
  config: JsonObject,
  file: string,
  place: Place,
  environment: Environment,
): Promise<CredentialSearch | undefined> {
  const [helper] = entriesFor(place, config.credHelpers)
  if (helper) return fromHelper(helper.value, file, place, environment)
  for (const { key, value } of entriesFor(place, authsOf(config))) {
    const found = fromAuth(value, `${file} (auths)`)
    if (found) return { found, note: `the credentials of ${file} for ${listed([shownKey(key)])} were sent` }
  }
  return config.credsStore ? fromHelper(config.credsStore, file, place, environment) : undefined
}

/** A file without any of these fields is of the format of `.dockercfg`. */
function authsOf({ auths, credHelpers, credsStore, ...rest }: JsonObject): unknown {
  return auths ?? (credHelpers === undefined && credsStore === undefined ? rest : undefined)
}

/** The keys of the entries with credentials. */
function keysOf(config: JsonObject): string[] {
  const auths = Object.entries(authsOf(config) ?? {}).filter(([, value]) => hasCredentials(value))
  return [...auths, ...Object.entries(config.credHelpers ?? {})].map(([key]) => shownKey(key))
}

function hasCredentials(value: unknown): boolean {
  if (!isObject(value)) return false
  return [value.auth, value.password, value.identitytoken, value.registrytoken].some(isText)
}

/** A key may be a URL, which may have a password. */
function shownKey(key: string): string {
  return key.slice(key.lastIndexOf('@') + 1)
}

/** What a repository has, and a key may have. */
interface Place {
  /** With the port, in lower case. */
  readonly host: string
  readonly path: string
}

/** Entries that apply to a place: those with the longest path first, and exact hosts before patterns. */
function entriesFor(place: Place, entries: unknown): { readonly key: string; readonly value: unknown }[] {
  if (!isObject(entries)) return []
  return Object.entries(entries)
    .map(([key, value]) => ({ key, value, ...parseKey(key) }))
    .filter(({ host, path }) => isBelow(place.path, path) && fitsHost(place.host, host))
    .sort((a, b) => b.path.length - a.path.length || starsOf(a) - starsOf(b))
}

function isBelow(path: string, folder: string): boolean {
  return folder === '' || path === folder || path.startsWith(`${folder}/`)
}

/** The `*` of a pattern matches within one part of the name, and never a port. */
function fitsHost(host: string, pattern: string): boolean {
  if (!pattern.includes('*')) return host === pattern
  const [name = '', port] = host.split(':')
  const [patternName = '', patternPort] = pattern.split(':')
  const parts = name.split('.')
  const patterns = patternName.split('.')
  if (port !== patternPort || parts.length !== patterns.length) return false
  return parts.every((part, at) => fitsParts(part, (patterns[at] ?? '').split('*')))
}

function starsOf({ host }: Place): number {
  return host.split('*').length
}

/** Reads a key such as `ghcr.io/acme`, `https://ghcr.io` or `https://index.docker.io/v1/`, as old versions of Docker write it. */
function parseKey(key: string): Place {
  const [host = '', ...path] = key.replace(/^https?:\/\//i, '').split('/')
  const written = trimEnds(path.join('/'), '/')
  return { host: registryName(host), path: written === 'v1' || written === 'v2' ? '' : written }
}

async function fromHelper(
  name: unknown,
  file: string,
  { host }: Place,
  environment: Environment,
): Promise<CredentialSearch | undefined> {
  if (typeof name !== 'string') throw new CredentialsInvalidError(file, 'its credential helper is not a name')
  const server = host === 'docker.io' ? 'https://index.docker.io/v1/' : host
  const answer = await askHelper(name, server, environment)
  if (!answer) return undefined
  const { username, secret } = answer
  const found: Credentials =
    username === '<token>'
      ? { kind: 'identity', token: secret }
      : { kind: 'password', username, password: secret }
  return { found, note: `the credentials of ${helperProgram(name)} were sent` }
}

/** Docker leaves an empty entry where a store has the secret. */
function fromAuth(entry: unknown, source: string): Credentials | undefined {
  if (!isObject(entry))
    throw new CredentialsInvalidError(source, 'its entry for the registry is not an object')
  const { auth, identitytoken, registrytoken } = entry
  const login = isText(auth) ? decodeAuth(auth, source) : loginOf(entry)
  if (isText(identitytoken)) {
    // Some registries accept the token as the password of the user who is beside it.
    const own = login && { ...login, password: login.password || identitytoken }
    return { kind: 'identity', token: identitytoken, ...(own && { login: own }) }
  }
  if (isText(registrytoken)) {
    if (!isHeaderValue(registrytoken))
      throw new CredentialsInvalidError(source, 'its registrytoken cannot be sent as a header')
    return { kind: 'bearer', token: registrytoken }
  }
  return login && { kind: 'password', ...login }
}

function loginOf({ username, password }: JsonObject): Login | undefined {
  return isText(username) && isText(password) ? { username, password } : undefined
}

/** @returns undefined if both are empty. */
function decodeAuth(auth: string, source: string): Login | undefined {
  const [, username, written] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth, 'base64').toString()) ?? []
  if (username === undefined || written === undefined)
    throw new CredentialsInvalidError(source, 'an "auth" is not USER:PASSWORD in base64')
  const password = trimEnds(written, '\0')
  return username === '' && password === '' ? undefined : { username, password }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
