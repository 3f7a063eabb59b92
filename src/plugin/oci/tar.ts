import { trimEnds } from '../../platform/text.ts'
import { UnpackError } from './unpack.ts'

/** An entry of an archive. */
export interface TarEntry {
  /** The path without `./` and `/` at its start and `/` at its end; it contains no `..`. Empty for the root folder. */
  readonly path: string
  /** `special`: a link, a device or a pipe. No link is followed. */
  readonly kind: 'file' | 'folder' | 'special'
  /** The content of a file, if it was wanted. */
  readonly bytes?: Uint8Array
}

/** Limit of one archive. */
const MAX_ENTRIES = 32_768

/** Limit of a path, as in Linux. */
const MAX_PATH = 4_096

/** Limit of what describes the next entry: a long name, or pax records. */
const MAX_EXTENSION = 1_048_576

const BLOCK = 512

/**
 * Reads an archive: ustar, the long names of GNU, and pax records of path and size. Nothing is written to disk. Reading ends at the
 * end mark, and what follows is not read. As in Go, an archive may end without the mark, but not within an entry.
 *
 * @param pieces - Their sum must be bounded by the caller.
 * @param isWanted - Whether the content of a file is needed. The others are skipped.
 * @throws {@link UnpackError} if it is damaged, or exceeds a limit.
 * @see {@link https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html}, sections "ustar" and "pax Interchange Format".
 */
export async function readTar(
  pieces: AsyncIterable<Uint8Array>,
  isWanted: (path: string) => boolean,
): Promise<TarEntry[]> {
  const input = new Input(pieces[Symbol.asyncIterator]())
  const entries: TarEntry[] = []
  let next: Extension = {}
  try {
    for (;;) {
      const header = await input.read(BLOCK, true)
      if (header === undefined || isEnd(header)) break
      if (!hasCheckSum(header)) throw new UnpackError('it is not a tar archive, or a header is damaged')
      const type = String.fromCharCode(header[156] ?? 0)
      const announced = readNumber(header.subarray(124, 136))
      if (EXTENSIONS.includes(type)) {
        if (announced > MAX_EXTENSION) throw new UnpackError(`an entry is described by ${announced} bytes`)
        next = { ...next, ...readExtension(type, (await input.content(announced, true)) ?? new Uint8Array()) }
        continue
      }
      if (entries.length === MAX_ENTRIES) throw new UnpackError(`it has more than ${MAX_ENTRIES} entries`)
      const written = next.path ?? readName(header)
      const kind = kindOf(type, written)
      const path = readPath(written)
      const size = HAS_NO_CONTENT.includes(type) ? 0 : (next.size ?? announced)
      const bytes = await input.content(size, kind === 'file' && isWanted(path))
      entries.push(bytes ? { path, kind, bytes } : { path, kind })
      next = {}
    }
  } finally {
    await input.close()
  }
  if (next.path !== undefined || next.size !== undefined)
    throw new UnpackError('its archive ends before the entry that a record describes')
  return entries
}

/** Bytes that show whether they begin an archive. */
export const TAR_START_BYTES = BLOCK

/** Whether bytes begin as an archive does: with the header of an entry, or with the end mark. */
export function startsAsTar(bytes: Uint8Array): boolean {
  if (bytes.length < BLOCK) return false
  const header = bytes.subarray(0, BLOCK)
  return isEnd(header) || hasCheckSum(header)
}

function isEnd(header: Uint8Array): boolean {
  return header.every((byte) => byte === 0)
}

/** Links, devices, folders and pipes: their size says nothing about what follows. */
const HAS_NO_CONTENT = '123456'

/** GNU's long name and long link, and pax records of one entry and of all. */
const EXTENSIONS = 'LKxg'

function kindOf(type: string, name: string): TarEntry['kind'] {
  if (type === 'S') throw new UnpackError('it has a sparse file')
  if (type === '5') return 'folder'
  // Old archives mark a folder by the end of its name.
  if (type === '\0' || type === '0' || type === '7') return name.endsWith('/') ? 'folder' : 'file'
  return 'special'
}

/** What an extension says about the next entry. */
interface Extension {
  readonly path?: string
  readonly size?: number
}

function readExtension(type: string, content: Uint8Array): Extension {
  if (type === 'L') return { path: readText(content) }
  return type === 'x' ? readPax(content) : {}
}

/** Reads records `LENGTH KEY=VALUE\n`, of which the length counts the whole record. */
function readPax(content: Uint8Array): Extension {
  const found: { path?: string; size?: number } = {}
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const digits = space < 0 || space - at > 9 ? '' : latin1(content.subarray(at, space))
    const end = at + Number(digits)
    if (!/^[1-9]\d*$/.test(digits) || end > content.length || content[end - 1] !== 0x0a || end - 1 <= space)
      throw new UnpackError('a pax record is damaged')
    const equals = content.indexOf(0x3d, space)
    if (equals < 0 || equals >= end) throw new UnpackError('a pax record is damaged')
    const key = latin1(content.subarray(space + 1, equals))
    const value = content.subarray(equals + 1, end - 1)
    if (key.startsWith('GNU.sparse.')) throw new UnpackError('it has a sparse file')
    if (key === 'path') found.path = new TextDecoder().decode(value)
    if (key === 'size') found.size = parseSize(latin1(value), 10)
    at = end
  }
  return found
}

function readName(header: Uint8Array): string {
  const name = readText(header.subarray(0, 100))
  const isUstar = latin1(header.subarray(257, 263)) === 'ustar\0'
  const prefix = isUstar ? readText(header.subarray(345, 500)) : ''
  return prefix === '' ? name : `${prefix}/${name}`
}

/** The root of the archive is the root of the image, so an absolute path means the same as a relative one. */
function readPath(name: string): string {
  const steps = name.split('/').filter((step) => step !== '' && step !== '.')
  if (name.length > MAX_PATH) throw new UnpackError(`a path is longer than ${MAX_PATH} characters`)
  if (steps.includes('..') || name.includes('\0'))
    throw new UnpackError('a path leads out of it, by ".." or a zero byte')
  return steps.join('/')
}

/** Whether a header has the sum of its bytes, with spaces in place of the sum. */
function hasCheckSum(header: Uint8Array): boolean {
  let sum = 0
  let signed = 0 // as some old programs counted
  for (let at = 0; at < BLOCK; at++) {
    const byte = at >= 148 && at < 156 ? 0x20 : (header[at] ?? 0)
    sum += byte
    signed += (byte << 24) >> 24
  }
  const digits = trimEnds(latin1(header.subarray(148, 156)), ' \0')
  const written = /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : undefined
  return written === sum || written === signed
}

/** Octal digits; or, for large numbers of GNU, the highest bit and a binary number. */
function readNumber(field: Uint8Array): number {
  const [first = 0, ...rest] = field
  if (first < 0x80) return parseSize(trimEnds(latin1(field), ' \0'), 8)
  const size = rest.reduce((value, byte) => value * 256 + byte, first & 0x7f)
  if (!Number.isSafeInteger(size)) throw new UnpackError('a size is negative or too large')
  return size
}

function parseSize(text: string, radix: 8 | 10): number {
  const size = text === '' ? 0 : Number.parseInt(text, radix)
  if (!(radix === 8 ? /^[0-7]*$/ : /^\d+$/).test(text) || !Number.isSafeInteger(size))
    throw new UnpackError('a size is not a number, or too large')
  return size
}

/** Text up to its first zero byte. */
function readText(field: Uint8Array): string {
  const end = field.indexOf(0)
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end))
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}

/** Reads exact lengths from pieces. */
class Input {
  readonly #pieces: AsyncIterator<Uint8Array>
  #piece: Uint8Array = new Uint8Array()

  constructor(pieces: AsyncIterator<Uint8Array>) {
    this.#pieces = pieces
  }

  /** @returns undefined at the end, if it may be here. */
  async read(length: number, mayEnd = false): Promise<Uint8Array | undefined> {
    const parts: Uint8Array[] = []
    let missing = length
    while (missing > 0) {
      if (this.#piece.length === 0 && !(await this.#advance())) {
        if (mayEnd && missing === length) return undefined
        throw new UnpackError('its archive is cut off')
      }
      const part = this.#piece.subarray(0, missing)
      this.#piece = this.#piece.subarray(part.length)
      missing -= part.length
      parts.push(part)
    }
    return parts.length === 1 ? parts[0] : Buffer.concat(parts)
  }

  /** Reads or skips content and its padding. Memory is taken for what arrives, not for the announced size. */
  async content(size: number, isWanted: boolean): Promise<Uint8Array | undefined> {
    const padding = (BLOCK - (size % BLOCK)) % BLOCK
    const bytes = isWanted ? await this.read(size) : await this.#skip(size)
    await this.#skip(padding)
    return bytes
  }

  async close(): Promise<void> {
    await this.#pieces.return?.()
  }

  async #skip(length: number): Promise<undefined> {
    let missing = length
    while (missing > 0) {
      if (this.#piece.length === 0 && !(await this.#advance()))
        throw new UnpackError('its archive is cut off')
      const skipped = Math.min(missing, this.#piece.length)
      this.#piece = this.#piece.subarray(skipped)
      missing -= skipped
    }
  }

  async #advance(): Promise<boolean> {
    const { done, value } = await this.#pieces.next()
    if (done !== true) this.#piece = value
    return done !== true
  }
}
