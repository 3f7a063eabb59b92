import { bytesOf } from './bytes.js'

const MAX_RANDOM = 65_536

const HASHES = ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512']

export const crypto = {
  subtle: {
    digest: async (algorithm, data) => {
      const name = String(algorithm?.name ?? algorithm).toUpperCase()
      if (!HASHES.includes(name)) throw new DOMException(`unknown algorithm ${name}`, 'NotSupportedError')
      return host.digest(name, bytesOf(data)).buffer
    },
  },
  getRandomValues: (view) => {
    if (
      !ArrayBuffer.isView(view) ||
      view instanceof Float32Array ||
      view instanceof Float64Array ||
      view instanceof DataView
    )
      throw new DOMException('the array must have integers', 'TypeMismatchError')
    if (view.byteLength > MAX_RANDOM)
      throw new DOMException(`at most ${MAX_RANDOM} bytes, not ${view.byteLength}`, 'QuotaExceededError')
    bytesOf(view).set(host.randomBytes(view.byteLength))
    return view
  },
  randomUUID: () => {
    const bytes = host.randomBytes(16)
    bytes[6] = (bytes[6] & 0x0f) | 0x40
    bytes[8] = (bytes[8] & 0x3f) | 0x80
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  },
}
