import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls'
import type { Dispatcher } from 'undici'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { loadPackage } from '../../platform/packages.ts'
import { errorCode, fileProblem } from '../../platform/system-errors.ts'
import { networkProblem } from '../source/network-problem.ts'
import { isLoopback } from '../source/url.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | ReadableStream<Uint8Array> | undefined
  readonly signal: AbortSignal
}

/** The part of a `Response` that Node's `fetch` and that of undici have in common. */
export interface HttpResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  readonly body: (AsyncIterable<Uint8Array> & { cancel(): Promise<void> }) | null
}

/** Sends one request. It follows no redirects. @throws TypeError if the network fails, as `fetch` does. */
export type Transport = (url: URL, request: HttpRequest) => Promise<HttpResponse>

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The transport to a registry and to the servers that it names: Node's `fetch`, or that of the optional package undici for
 * URLs that need a proxy, and for registries with a CA.
 *
 * @param environment - `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or in lower case. This machine is never behind a proxy.
 * @param ca - Path of a PEM file.
 * @throws {@link CredentialsInvalidError} if the CA cannot be used.
 */
export async function openTransport(environment: Environment, ca: string | undefined): Promise<Transport> {
  const secureContext = ca === undefined ? undefined : await readAuthorities(ca)
  const tls = secureContext ? { connect: { secureContext }, requestTls: { secureContext } } : {}
  const dispatchers = new Map<string, Dispatcher>()
  return async (url, request) => {
    const proxy = proxyOf(url, environment)
    const init = { ...request, redirect: 'manual', duplex: 'half', body: request.body ?? null } as const
    if (proxy === undefined && !secureContext) return fetch(url, init)
    const undici = await loadUndici(proxy === undefined ? 'the CA of a registry' : 'the proxy of a registry')
    let dispatcher = dispatchers.get(proxy ?? '')
    if (!dispatcher) {
      dispatcher = proxy === undefined ? new undici.Agent(tls) : new undici.ProxyAgent({ uri: proxy, ...tls })
      dispatchers.set(proxy ?? '', dispatcher)
    }
    const sent = undici.fetch(url, { ...init, dispatcher })
    return proxy === undefined ? sent : sent.catch((error: unknown) => throwOfProxy(error, proxy))
  }
}

/** A connection that fails is that to the proxy: the message must not name the registry. */
function throwOfProxy(error: unknown, proxy: string): never {
  const problem = networkProblem(new URL(proxy), error)
  if (!problem || problem.kind === 'untrusted') throw error
  const { reason, cause } = problem
  const named = new Error(`the proxy does not connect: ${reason}`, { cause })
  throw new TypeError(named.message, { cause: Object.assign(named, { code: 'PROXY_FAILED' }) })
}

function loadUndici(purpose: string): Promise<typeof import('undici')> {
  return loadPackage(purpose, 'undici', () => import('undici'))
}

/** The authorities of a file besides those of Node.js: a token server or object store may have a public certificate. */
async function readAuthorities(path: string): Promise<SecureContext> {
  try {
    const pem = await readFile(path, 'utf8')
    new X509Certificate(pem) // else a text without certificates is ignored
    return createSecureContext({ ca: [...rootCertificates, pem] })
  } catch (error) {
    const isFile = errorCode(error)?.startsWith('ERR_') === false
    const reason = isFile ? fileProblem(error) : 'it is not a PEM file with a certificate'
    throw new CredentialsInvalidError(path, reason, { cause: error })
  }
}

/** The proxy for a URL; undefined if it is requested directly. */
function proxyOf(url: URL, environment: Environment): string | undefined {
  const name = url.protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  const proxy = environment[name] || environment[name.toUpperCase()]
  if (!proxy || isLoopback(url) || isExcluded(url, environment.no_proxy || environment.NO_PROXY || ''))
    return undefined
  const proxyUrl = proxy.includes('://') ? proxy : `http://${proxy}`
  if (!URL.canParse(proxyUrl)) throw new CredentialsInvalidError(name.toUpperCase(), 'it is not a URL')
  return proxyUrl
}

/** Whether `NO_PROXY` lists a host: by its name, that of a domain above it, with or without a port, or by `*`. */
function isExcluded({ hostname, port, protocol }: URL, noProxy: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  const ownPort = port || (protocol === 'https:' ? '443' : '80')
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      const [, name = '', entryPort = ownPort] = /^(?:\*?\.)?\[?(.*?)\]?(?::(\d+))?$/.exec(entry) ?? []
      if (name === '' || entryPort !== ownPort) return false
      return name === '*' || host === name || host.endsWith(`.${name}`)
    })
}
