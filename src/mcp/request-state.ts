import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { RPC_CODES, RpcError } from './json-rpc.ts'

/** Time in which a client has to answer, with its user. */
const LIFETIME_MS = 900_000

/** Characters of a sealed state: the client has to send it with the rest of its request, which `mcp.bodyLimit` limits. */
export const MAX_STATE = 524_288

const ALGORITHM = 'aes-256-gcm'
const [IV_BYTES, TAG_BYTES] = [12, 16]

/**
 * Seals what the server has to know when a client repeats a request with its answers: the server itself keeps nothing, so that any
 * process and node with the same secret can go on.
 */
export class RequestStates {
  readonly #key: Buffer

  constructor(secret: string) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'wasm-serve requestState', 32))
  }

  /**
   * @param binding - The client and its request: a state of another one is refused.
   * @returns undefined if the state is too large.
   */
  seal(state: unknown, binding: string): string | undefined {
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, iv).setAAD(Buffer.from(binding))
    const text = JSON.stringify({ until: Date.now() + LIFETIME_MS, state })
    const sealed = [iv, cipher.update(text, 'utf8'), cipher.final()]
    const whole = Buffer.concat([...sealed, cipher.getAuthTag()]).toString('base64url')
    return whole.length > MAX_STATE ? undefined : whole
  }

  /**
   * @param mayBeOld - For a state that has not left the server.
   * @throws {@link RpcError} if it was not sealed for this client and request, or is too old.
   */
  open(sealed: unknown, binding: string, mayBeOld = false): unknown {
    const { until, state } = this.#read(sealed, binding)
    if (Date.now() > until && !mayBeOld) throw refused('it has expired')
    return state
  }

  #read(sealed: unknown, binding: string): { readonly until: number; readonly state: unknown } {
    if (typeof sealed !== 'string' || sealed.length > MAX_STATE) throw refused('it is not from this server')
    const bytes = Buffer.from(sealed, 'base64url')
    const end = bytes.length - TAG_BYTES
    try {
      const decipher = createDecipheriv(ALGORITHM, this.#key, bytes.subarray(0, IV_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAAD(Buffer.from(binding)).setAuthTag(bytes.subarray(end))
      return JSON.parse(
        decipher.update(bytes.subarray(IV_BYTES, end), undefined, 'utf8') + decipher.final('utf8'),
      )
    } catch {
      throw refused('this server did not issue it for this client and request')
    }
  }
}

/** A secret for as long as a server runs. */
export function newStateSecret(): string {
  return randomBytes(32).toString('base64url')
}

function refused(reason: string): RpcError {
  const message = `Invalid params: requestState is refused: ${reason}. Send the request without it`
  return new RpcError(RPC_CODES.invalidParams, message, 200)
}
