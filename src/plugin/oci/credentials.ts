import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { isObject, parseJson } from '../../platform/json-text.ts'
import { errorCode, fileProblem } from '../../platform/system-errors.ts'
import { isHeaderValue, trimEnds } from '../../platform/text.ts'
import { askHelper } from './credential-helper.ts'

/** Credentials for one registry. No part of them appears in a message. */
export type Credentials =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  /** A refresh token, which the registry's token server accepts. */
  | { readonly kind: 'identity'; readonly token: string }
  /** A token for the registry itself. */
  | { readonly kind: 'bearer'; readonly token: string }

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Finds the credentials for a registry: in `$REGISTRY_AUTH_FILE` (Podman, ORAS), then in `config.json` of the Docker
 * configuration, whose folder is `$DOCKER_CONFIG` or `~/.docker`. The first file decides that has the registry. Within a file
 * the order is `credHelpers`, `auths`, `credsStore`. The registry must match exactly, with its port.
 *
 * @param registry - `host[:port]`.
 * @returns undefined if there are none.
 * @throws {@link CredentialsInvalidError} if a file or a helper is broken.
 */
export async function findCredentials(
  registry: string,
  environment: Environment,
): Promise<Credentials | undefined> {
  const { REGISTRY_AUTH_FILE: authFile, DOCKER_CONFIG: folder, HOME: home = homedir() } = environment
  const files = [authFile, join(folder || join(home, '.docker'), 'config.json')]
  for (const file of files) {
    if (!file) continue
    const config = await readConfig(file)
    const found = config && (await findIn(config, file, canonicalHost(registry), environment))
    if (found) return found
  }
  return undefined
}

/** A config has some entries for each registry. */
const MAX_CONFIG_BYTES = 4_194_304

type Config = Readonly<Record<string, unknown>>

async function readConfig(file: string): Promise<Config | undefined> {
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

async function findIn(
  config: Config,
  file: string,
  host: string,
  environment: Environment,
): Promise<Credentials | undefined> {
  const helper = entryOf(config.credHelpers, host)
  if (helper !== undefined) return fromHelper(helper, file, host, environment)
  const auth = entryOf(config.auths, host)
  const stored = auth === undefined ? undefined : fromAuth(auth, `${file} (auths)`)
  if (stored || !config.credsStore) return stored
  return fromHelper(config.credsStore, file, host, environment)
}

/** The entry of a host. Keys may be URLs, as old versions of Docker write them. */
function entryOf(entries: unknown, host: string): unknown {
  if (!isObject(entries)) return undefined
  return Object.entries(entries).find(([key]) => canonicalHost(key) === host)?.[1]
}

/** Names of the same registry in configurations. */
const DOCKER_HUB = ['docker.io', 'index.docker.io', 'registry-1.docker.io']

/**
 * The host and port of a key such as `ghcr.io`, `https://ghcr.io` or `https://index.docker.io/v1/`. A key with another path
 * is returned as it is: Podman permits credentials for one namespace, which must not be sent for others.
 */
function canonicalHost(key: string): string {
  const host = /^(?:https?:\/\/)?([^/]+)(?:\/(?:v[12]\/?)?)?$/i.exec(key)?.[1]?.toLowerCase() ?? key
  return DOCKER_HUB.includes(host) ? 'docker.io' : host
}

async function fromHelper(
  name: unknown,
  file: string,
  host: string,
  environment: Environment,
): Promise<Credentials | undefined> {
  if (typeof name !== 'string') throw new CredentialsInvalidError(file, 'its credential helper is not a name')
  const server = host === 'docker.io' ? 'https://index.docker.io/v1/' : host
  const found = await askHelper(name, server, environment)
  if (!found) return undefined
  if (found.username === '<token>') return { kind: 'identity', token: found.secret }
  return { kind: 'password', username: found.username, password: found.secret }
}

/** Docker leaves an empty entry where a store has the secret. */
function fromAuth(entry: unknown, source: string): Credentials | undefined {
  if (!isObject(entry))
    throw new CredentialsInvalidError(source, 'its entry for the registry is not an object')
  const { auth, username, password, identitytoken, registrytoken } = entry
  if (isText(identitytoken)) return { kind: 'identity', token: identitytoken }
  if (isText(registrytoken)) {
    if (!isHeaderValue(registrytoken))
      throw new CredentialsInvalidError(source, 'its registrytoken cannot be sent as a header')
    return { kind: 'bearer', token: registrytoken }
  }
  if (isText(auth)) return decodeAuth(auth, source)
  if (isText(username) && isText(password)) return { kind: 'password', username, password }
  return undefined
}

function decodeAuth(auth: string, source: string): Credentials {
  const [, username, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth, 'base64').toString()) ?? []
  if (username === undefined || password === undefined)
    throw new CredentialsInvalidError(source, 'an "auth" is not USER:PASSWORD in base64')
  return { kind: 'password', username, password: trimEnds(password, '\0') }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
