import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { SecureVersion } from 'node:tls'
import { TlsInvalidError } from '../errors/errors.ts'
import type { CheckedServerOptions } from '../options/options.ts'
import { fileProblem } from '../platform/system-errors.ts'

type TlsOptions = NonNullable<CheckedServerOptions['tls']>

/** The option `tls` with the content of its files, for Node's HTTPS server. Plain data. */
export interface TlsSettings {
  readonly cert: string
  readonly key: string
  readonly minVersion?: SecureVersion
  /** Certificates of the authority that clients need. */
  readonly ca?: string
  readonly requestCert?: true
  readonly rejectUnauthorized?: true
}

/** @throws {@link TlsInvalidError} naming the file that is unreadable, invalid, or does not match the others. */
export function readTls(tls: TlsOptions): TlsSettings {
  const cert = readPem(tls.cert)
  const certificate = readCertificate(tls.cert, 'a certificate in PEM', () => new X509Certificate(cert))
  const key = readKey(tls.key)
  if (!certificate.checkPrivateKey(key)) {
    throw new TlsInvalidError(tls.key, `it is not the key of the certificate ${tls.cert}`)
  }
  return { cert, key: String(key.export({ type: 'pkcs8', format: 'pem' })), ...readMore(tls) }
}

function readMore({ ca: path, minVersion }: TlsOptions): Omit<TlsSettings, 'cert' | 'key'> {
  const version = minVersion === undefined ? {} : { minVersion }
  if (path === undefined) return version
  const ca = readPem(path)
  readCertificate(path, 'a certificate in PEM', () => new X509Certificate(ca))
  return { ...version, ca, requestCert: true, rejectUnauthorized: true }
}

function readKey(path: string): KeyObject {
  const pem = readPem(path)
  return readCertificate(path, 'a private key in PEM without a passphrase', () => createPrivateKey(pem))
}

function readPem(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    throw new TlsInvalidError(path, fileProblem(error), { cause: error })
  }
}

function readCertificate<Parsed>(path: string, what: string, read: () => Parsed): Parsed {
  try {
    return read()
  } catch (error) {
    throw new TlsInvalidError(path, `it is not ${what}`, { cause: error })
  }
}
