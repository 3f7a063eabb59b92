import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { onTestFinished } from 'vitest'
import { type Certificate, selfSigned } from './certificate.ts'

/** A token issuer: signs tokens, and serves the keys to verify them over https on this machine. */
export interface Issuer {
  readonly url: string
  readonly certificate: Certificate
  /** The answer of `/keys`, and how to change it. */
  keys: readonly (object | null)[]
  /** Answers in place of the keys. */
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
  /** The requested paths. */
  readonly asked: readonly string[]
  /** Ends its listening; all connections are cut. */
  down(): Promise<void>
  /** Listens again, at the same port. */
  up(): Promise<void>
}

const certificate = selfSigned('localhost')

/** Begins to serve keys; ends with the test. */
export async function openIssuer(keys: Issuer['keys'] = []): Promise<Issuer> {
  const asked: string[] = []
  const server = createServer({ key: certificate.key, cert: certificate.cert }, (request, response) => {
    asked.push(request.url ?? '')
    if (issuer.answer) issuer.answer(request, response)
    else response.end(JSON.stringify({ keys: issuer.keys }))
  })
  const up = async (port = 0) => {
    await once(server.listen(port, 'localhost'), 'listening')
    const address = server.address()
    return typeof address === 'object' && address ? address.port : 0
  }
  const down = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const port = await up()
  const issuer: Issuer = {
    ...{ url: `https://localhost:${port}/keys`, certificate, keys, answer: undefined, asked, down },
    up: async () => void (await up(port)),
  }
  onTestFinished(down)
  return issuer
}

/** A key pair of an issuer. */
export interface SigningKey {
  readonly alg: string
  readonly kid: string | undefined
  readonly key: KeyObject
  /** The public key, as a set has it. */
  readonly jwk: object
}

/** A key of ECDSA on P-256, or of RSA; its set says more about it by `members`. */
export function signingKey(kid?: string, alg: 'ES256' | 'RS256' = 'ES256', members: object = {}): SigningKey {
  const { privateKey, publicKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : generateKeyPairSync('rsa', { modulusLength: 2048 })
  const jwk = { ...publicKey.export({ format: 'jwk' }), ...(kid !== undefined && { kid }), ...members }
  return { alg, kid, key: privateKey, jwk }
}

/** A token that is good for an hour, signed with the key, and naming it if it has a name. */
export function tokenOf({ alg, kid, key }: SigningKey, claims: object = {}, header: object = {}): string {
  const part = (json: object) => Buffer.from(JSON.stringify(json)).toString('base64url')
  const exp = Math.floor(Date.now() / 1000) + 3_600
  const text = `${part({ alg, typ: 'JWT', ...(kid !== undefined && { kid }), ...header })}.${part({ exp, ...claims })}`
  const signed = sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signed.toString('base64url')}`
}
