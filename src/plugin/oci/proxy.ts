import http from 'node:http'
import https from 'node:https'
import { BlockList, isIP, type Socket } from 'node:net'
import { CredentialsInvalidError } from '../../errors/errors.ts'
import { networkProblem } from '../source/network-problem.ts'
import { isLoopback } from '../source/url.ts'

/**
 * The proxy for a URL: `HTTPS_PROXY` or `HTTP_PROXY`, or in lower case. This machine is never behind a proxy.
 *
 * @returns undefined if the URL is requested directly.
 * @throws {@link CredentialsInvalidError} if the variable names no proxy.
 */
export function proxyOf(
  url: URL,
  environment: Readonly<Record<string, string | undefined>>,
): URL | undefined {
  const name = url.protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  const proxy = environment[name] || environment[name.toUpperCase()]
  if (!proxy || isLoopback(url) || isExcluded(url, environment.no_proxy || environment.NO_PROXY || ''))
    return undefined
  const text = proxy.includes('://') ? proxy : `http://${proxy}`
  const found = URL.canParse(text) ? new URL(text) : undefined
  if (found?.protocol === 'http:' || found?.protocol === 'https:') return found
  throw new CredentialsInvalidError(name.toUpperCase(), 'it is not the URL of an http or https proxy')
}

/** Whether `NO_PROXY` lists a host: by its name, that of a domain above it, with or without a port, by its network, or by `*`. */
function isExcluded(url: URL, noProxy: string): boolean {
  const { host, port: ownPort } = addressOf(url)
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => {
      const [, name = '', port = String(ownPort)] = /^(?:\*?\.)?\[?(.*?)\]?(?::(\d+))?$/.exec(entry) ?? []
      if (isInNetwork(host, entry)) return true
      if (name === '' || port !== String(ownPort)) return false
      return name === '*' || host === name || host.endsWith(`.${name}`)
    })
}

/** Whether a host is an address in a network such as `10.0.0.0/8`. */
function isInNetwork(host: string, network: string): boolean {
  const [start = '', bits = ''] = network.split('/')
  const family = isIP(host)
  if (family === 0 || isIP(start) !== family || !/^\d{1,3}$/.test(bits)) return false
  if (Number(bits) > (family === 6 ? 128 : 32)) return false
  const list = new BlockList()
  const type = family === 6 ? 'ipv6' : 'ipv4'
  list.addSubnet(start, Number(bits), type)
  return list.check(host, type)
}

/** The host of a URL, without the brackets of IPv6, and its port. */
export function addressOf({ hostname, port, protocol }: URL): {
  readonly host: string
  readonly port: number
} {
  const host = hostname.replace(/^\[|\]$/g, '')
  return { host, port: Number(port) || (protocol === 'https:' ? 443 : 80) }
}

/** The header for a proxy whose URL has a user and a password. */
export function proxyAuthorization({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` }
}

/**
 * Opens a connection through a proxy to the server of a URL (`CONNECT`).
 *
 * @throws TypeError with a cause if the proxy does not connect. The cause has the code `PROXY_FAILED` if it may do so later.
 */
export function openTunnel(proxy: URL, url: URL, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const path = `${url.hostname}:${addressOf(url).port}`
    const headers = { host: path, connection: 'keep-alive', ...proxyAuthorization(proxy) }
    const { request } = proxy.protocol === 'https:' ? https : http
    const asking = request({ ...addressOf(proxy), method: 'CONNECT', path, headers, signal, agent: false })
    asking.on('error', (error) => {
      const problem = networkProblem(proxy, new TypeError(error.message, { cause: error }))
      const isOver = problem?.kind !== 'network'
      reject(refusal(`the proxy does not connect: ${problem?.reason ?? error.message}`, isOver, error))
    })
    asking.on('connect', ({ statusCode: status = 0 }, socket: Socket, head: Buffer) => {
      if (status >= 200 && status < 300) {
        socket.unshift(head)
        resolve(socket)
        return
      }
      socket.destroy()
      const hint =
        status === 407 ? ': it requires a user and a password, as in http://USER:PASSWORD@HOST' : ''
      reject(refusal(`the proxy ${proxy.host} does not connect (status ${status})${hint}`, status < 500))
    })
    asking.end()
  })
}

function refusal(message: string, isFinal: boolean, cause?: Error): TypeError {
  const named = new Error(message, { cause })
  return new TypeError(message, { cause: isFinal ? named : Object.assign(named, { code: 'PROXY_FAILED' }) })
}
