/**
 * The headers of a response by name in lower case; several values of one name are joined by a comma.
 *
 * @param raw - Names and values in turn, as Node.js has them.
 */
export function joinHeaders(raw: readonly string[]): Record<string, string> {
  const headers = new Map<string, string>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase()
    const value = raw[at + 1] ?? ''
    const before = headers.get(name)
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return Object.fromEntries(headers) // makes `__proto__` a key like any other
}

/** Encodes headers as a guest reads them with Extism's `http_headers`: a JSON object of texts. */
export function encodeHeaders(headers: Readonly<Record<string, string>>): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(headers))
}
