import { generateKeyPairSync, sign } from 'node:crypto'

/** A key and a certificate that vouches for itself, in PEM. */
export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** Makes a certificate for a name (X.509, ECDSA on P-256), good for a day before and after now. */
export function selfSigned(name: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer = sequence(set(sequence(oid('550403'), der(0x0c, Buffer.from(name)))))
  const alternativeNames = der(0x04, sequence(der(0x82, Buffer.from(name))))
  const toBeSigned = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.of(1)),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(time(Date.now() - DAY), time(Date.now() + DAY)),
    issuer,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('551d11'), alternativeNames))),
  )
  const signature = der(0x03, Buffer.of(0), sign('sha256', toBeSigned, privateKey))
  const base64 = sequence(toBeSigned, ECDSA_WITH_SHA256, signature).toString('base64')
  return {
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    cert: `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`,
  }
}

const DAY = 86_400_000

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'))

function sequence(...parts: Uint8Array[]): Buffer {
  return der(0x30, ...parts)
}

function set(...parts: Uint8Array[]): Buffer {
  return der(0x31, ...parts)
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'))
}

/** UTCTime: `YYMMDDhhmmssZ`. */
function time(ms: number): Buffer {
  return der(0x17, Buffer.from(`${new Date(ms).toISOString().replaceAll(/\D/g, '').slice(2, 14)}Z`))
}

function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}
