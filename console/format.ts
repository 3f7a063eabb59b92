/** The placeholder for an unknown number. */
const NO_NUMBER = '–'

/** 12, 1.2 k, 3.4 M. */
export function formatRate(perSecond: number): string {
  if (perSecond >= 1e6) return `${threeDigits(perSecond / 1e6)} M`
  if (perSecond >= 1e4) return `${threeDigits(perSecond / 1e3)} k`
  return threeDigits(perSecond)
}

/** 12,345. */
export function formatCount(count: number): string {
  return count.toLocaleString('en')
}

/** Microseconds, milliseconds or seconds. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return NO_NUMBER
  if (ms < 1) return `${threeDigits(ms * 1_000)} µs`
  if (ms < 1_000) return `${threeDigits(ms)} ms`
  return `${threeDigits(ms / 1_000)} s`
}

/** KiB, MiB or GiB, in steps of 1,024. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  const power = Math.min(3, Math.floor(Math.log2(bytes) / 10))
  return `${threeDigits(bytes / 1_024 ** power)} ${['B', 'KiB', 'MiB', 'GiB'][power]}`
}

/** The first digits of a digest, enough to distinguish versions. */
export function formatDigest(digest: string): string {
  return digest.slice(0, 12)
}

/** The time in the time zone of the browser. */
export function formatTime(iso: string): string {
  return formatWith(iso, { timeStyle: 'medium' })
}

/** Date and time in the time zone of the browser. */
export function formatDate(iso: string): string {
  return formatWith(iso, { dateStyle: 'medium', timeStyle: 'short' })
}

function formatWith(iso: string, options: Intl.DateTimeFormatOptions): string {
  const date = new Date(iso)
  return Number.isNaN(date.getTime()) ? iso : date.toLocaleString(undefined, { ...options, hour12: false })
}

/** Three significant digits, two below 1. */
function threeDigits(value: number): string {
  if (value >= 100) return String(Math.round(value))
  return String(Number(value.toPrecision(value >= 1 ? 3 : 2)))
}

/** Ignores white space and accepts base64url. @returns undefined if it is not base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const plain = text.replaceAll(/\s/g, '').replaceAll('-', '+').replaceAll('_', '/')
  try {
    return Uint8Array.from(atob(plain), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

/** Encodes in chunks, because the number of function arguments is limited. */
export function toBase64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000)
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(text)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: finds control characters
const UNREADABLE = /[\u0000-\u0008\u000e-\u001f\u007f]/

/**
 * @param isPart - Whether more bytes follow: then the last character may be incomplete.
 * @returns undefined if the bytes are not UTF-8, or contain control characters other than white space.
 */
export function toText(bytes: Uint8Array, isPart = false): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isPart })
    return UNREADABLE.test(text) ? undefined : text
  } catch {
    return undefined
  }
}

/** Sixteen bytes per line after their offset, like `xxd`. */
export function toHex(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)].map((byte) => byte.toString(16).padStart(2, '0'))
    lines.push(`${at.toString(16).padStart(6, '0')}  ${row.join(' ')}`)
  }
  return lines.join('\n')
}
