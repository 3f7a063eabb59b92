const UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
}

/**
 * Reads a size such as `512`, `64KiB` or `10MB`.
 *
 * @returns bytes, or undefined if it is not a size.
 */
export function parseSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim())
  const unit = UNITS[match?.[2]?.toLowerCase() || 'b']
  const bytes = Number(match?.[1]) * (unit ?? Number.NaN)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}
