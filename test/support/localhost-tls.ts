import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { selfSigned } from './certificate.ts'

/**
 * A certificate of localhost in files, as the option `tls` takes them.
 *
 * @param atEnd - Registers their removal. Default: after all tests of the file.
 */
export function localhostTls(atEnd: (remove: () => void) => void = afterAll) {
  const { cert, key } = selfSigned('localhost')
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-tls-'))
  atEnd(() => rmSync(folder, { recursive: true }))
  const tls = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  writeFileSync(tls.cert, cert)
  writeFileSync(tls.key, key)
  return { ca: cert, key, tls }
}
