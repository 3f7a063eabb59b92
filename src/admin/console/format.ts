/** What stands where there is no number. */
export const NONE = '–'

/** 12, 1.2 k, 3.4 M. */
export function formatRate(perSecond: number): string {
  if (perSecond >= 1e6) return `${digits(perSecond / 1e6)} M`
  if (perSecond >= 1e4) return `${digits(perSecond / 1e3)} k`
  return digits(perSecond)
}

/** Microseconds, milliseconds or seconds. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return NONE
  if (ms < 1) return `${digits(ms * 1_000)} µs`
  if (ms < 1_000) return `${digits(ms)} ms`
  return `${digits(ms / 1_000)} s`
}

/** Of 1,024 each: KiB, MiB, GiB. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  const power = Math.min(3, Math.floor(Math.log2(bytes) / 10))
  return `${digits(bytes / 1_024 ** power)} ${['B', 'KiB', 'MiB', 'GiB'][power]}`
}

/** Enough to tell versions apart. */
export function formatDigest(digest: string): string {
  return digest.slice(0, 12)
}

/** As clocks here have it. */
export function formatTime(iso: string): string {
  const time = new Date(iso)
  return Number.isNaN(time.getTime()) ? iso : time.toLocaleTimeString(undefined, { hour12: false })
}

/** Day and time, as clocks here have it. */
export function formatDate(iso: string): string {
  const time = new Date(iso)
  if (Number.isNaN(time.getTime())) return iso
  return time.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short', hour12: false })
}

/** Three digits that count. */
function digits(value: number): string {
  if (value >= 100) return String(Math.round(value))
  return String(Number(value.toPrecision(value >= 1 ? 3 : 2)))
}
