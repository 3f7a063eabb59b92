/** The parts of `redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],.../PRIMARY[/DATABASE]`, also with `rediss`. */
export interface SentinelUrl {
  readonly isTls: boolean
  /** undefined: no login. It is one of Redis, not of its Sentinels. */
  readonly login: { readonly username: string; readonly password: string } | undefined
  readonly sentinels: readonly { readonly host: string; readonly port: number }[]
  /** The name of the primary. */
  readonly name: string
  readonly database: number
}

const SENTINEL_PORT = 26_379

/** @returns undefined if it is a URL of another kind, or invalid. */
export function parseSentinelUrl(text: string): SentinelUrl | undefined {
  const [, scheme, login, hosts = '', name = '', database = '0'] =
    /^(rediss?)\+sentinel:\/\/(?:([^@/]*)@)?([^@/]+)\/([^/]+)(?:\/(\d+))?$/.exec(text) ?? []
  if (scheme === undefined) return undefined
  const all = hosts.split(',')
  if (!all.every((host) => URL.canParse(`redis://${host}`) && host !== '')) return undefined
  const sentinels = all.map((each) => {
    const { hostname, port } = new URL(`redis://${each}`)
    return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? SENTINEL_PORT : Number(port) }
  })
  const [, username = '', password = ''] = /^([^:]*)(?::|$)(.*)$/.exec(login ?? '')?.map(decoded) ?? []
  return {
    isTls: scheme === 'rediss',
    login: login ? { username: username || 'default', password } : undefined,
    ...{ sentinels, name, database: Number(database) },
  }
}

/** Why a text is no URL of a Redis server. The text is not part of it: it may contain a password. */
export function redisUrlProblem(text: string): string | undefined {
  const example = 'redis://USER:PASSWORD@HOST:6379/0'
  if (!hasValidLogin(text))
    return `has a user or password with an invalid %: write % as %25, as in ${example}`
  if (/^rediss?\+sentinel:/.test(text))
    return parseSentinelUrl(text) ? undefined : 'is not a URL such as redis+sentinel://HOST:26379/PRIMARY'
  const parsed = /^rediss?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return parsed?.hostname && /^\/?\d*$/.test(parsed.pathname) ? undefined : `is not a URL such as ${example}`
}

function hasValidLogin(text: string): boolean {
  const [, login = ''] = /^[^/]*\/\/([^@/]*)@/.exec(text) ?? []
  return decoded(login) !== undefined
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
