import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ServerOptions } from 'node:https'
import { TlsInvalidError } from '../errors/errors.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { whyNot } from '../platform/why-not.ts'

/**
 * Reads what Node's HTTPS server needs.
 *
 * @throws {@link TlsInvalidError} naming the file that cannot be read, is not what it should be, or does not fit.
 */
export function readTls(tls: NonNullable<CheckedServerOptions['tls']>): ServerOptions {
  const cert = readPem(tls.cert)
  const certificate = parse(tls.cert, 'a certificate in PEM', () => new X509Certificate(cert))
  const key = readKey(tls.key)
  if (!certificate.checkPrivateKey(key)) {
    throw new TlsInvalidError(tls.key, `it is not the key of the certificate ${tls.cert}`)
  }
  return { cert, key: key.export({ type: 'pkcs8', format: 'pem' }), ...readMore(tls) }
}

function readMore({ ca: path, minVersion }: NonNullable<CheckedServerOptions['tls']>): ServerOptions {
  const version = minVersion === undefined ? {} : { minVersion }
  if (path === undefined) return version
  const ca = readPem(path)
  parse(path, 'a certificate in PEM', () => new X509Certificate(ca))
  return { ...version, ca, requestCert: true, rejectUnauthorized: true }
}

function readKey(path: string): KeyObject {
  const pem = readPem(path)
  return parse(path, 'a private key in PEM without a passphrase', () => createPrivateKey(pem))
}

function readPem(path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    throw new TlsInvalidError(path, whyNot(error), { cause: error })
  }
}

function parse<Parsed>(path: string, what: string, read: () => Parsed): Parsed {
  try {
    return read()
  } catch (error) {
    throw new TlsInvalidError(path, `it is not ${what}`, { cause: error })
  }
}
