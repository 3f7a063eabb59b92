import { StoreExportInvalidError } from '../../errors/errors.ts'
import {
  checkKey,
  checkValue,
  keySpace,
  type StoreEntry,
  TTL_MAX,
  VALUE_MAX,
} from '../../guest/store/store.ts'

/*
 * The format of an export: JSON lines in UTF-8, each terminated by a line feed.
 *
 *   {"format":"wasm-serve-store","version":1}                                          the first line
 *   {"namespace":"visits","key":"Qm9i","value":"AQ==","expiresAt":1790000000000}       a line for each entry
 *   {"entries":1}                                                                      the last line
 *
 * Keys and values are bytes in base64 (RFC 4648, section 4); keys are UTF-8. `expiresAt` is in milliseconds since 1970, and is
 * omitted if the entry does not expire. The last line has the number of entries, which reveals a truncated export.
 */

const FORMAT = 'wasm-serve-store'
const VERSION = 1

/** Longer than any line of an entry: a value in base64, and the other fields. */
const LINE_MAX = 2 * VALUE_MAX

export function renderFirstLine(): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION })}\n`
}

export function renderEntry({ namespace, key, value, expiresAt }: StoreEntry): string {
  const line = { namespace, key: base64(Buffer.from(key)), value: base64(value), expiresAt }
  return `${JSON.stringify(line)}\n`
}

/** @param entries - The number of entries. */
export function renderLastLine(entries: number): string {
  return `${JSON.stringify({ entries })}\n`
}

/**
 * Reads an export.
 *
 * @param name - The name of the source, for messages.
 * @param chunks - The bytes, in chunks of any size.
 * @throws {@link StoreExportInvalidError} with the number of the first invalid line.
 */
export function* parseExport(name: string, chunks: Iterable<Uint8Array>): Generator<StoreEntry> {
  let number = 0
  let count = 0
  let isWhole = false
  for (const line of linesOf(chunks)) {
    number++
    try {
      if (isWhole) throw new Mistake('there is data after the last line of the export')
      const fields = parseLine(line)
      if (number === 1) checkFirstLine(fields)
      else if (fields.has('entries')) {
        checkLastLine(fields, count)
        isWhole = true
      } else {
        count++
        yield readEntry(fields)
      }
    } catch (error) {
      const isMistake = error instanceof Mistake || isOfEntry(error)
      throw isMistake ? new StoreExportInvalidError(name, number, error.message, { cause: error }) : error
    }
  }
  if (!isWhole)
    throw new StoreExportInvalidError(name, number + 1, 'the export is cut off: its last line is missing')
}

/** The reason that a line is invalid. */
class Mistake extends Error {
  override readonly name = 'Mistake'
}

/** Whether a store rejected an entry. */
function isOfEntry(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('WASM_SERVE_KV_')
}

/** Lines without their terminators. A line that is too long is truncated just above the limit. */
function* linesOf(chunks: Iterable<Uint8Array>): Generator<Buffer> {
  let begun: Buffer[] = []
  let length = 0
  const add = (part: Buffer) => {
    // Skip the rest of a line that is too long: it cannot be valid.
    if (length <= LINE_MAX) begun.push(part)
    length += part.length
  }
  const take = () => {
    const line = Buffer.concat(begun)
    begun = []
    length = 0
    return line
  }
  for (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    let start = 0
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      add(bytes.subarray(start, end))
      yield take()
      start = end + 1
    }
    // Copy: the next chunk may reuse the memory.
    if (start < bytes.length) add(Buffer.from(bytes.subarray(start)))
  }
  if (length > 0) yield take()
}

const LINE_FEED = 10

type LineFields = ReadonlyMap<string, unknown>

function parseLine(line: Buffer): LineFields {
  if (line.length > LINE_MAX) throw new Mistake(`it has more than ${LINE_MAX} bytes`)
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(line))
  } catch (error) {
    throw new Mistake('it is not JSON', { cause: error })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Mistake('it is not a JSON object')
  return new Map(Object.entries(value))
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function checkFirstLine(fields: LineFields): void {
  if (fields.get('format') !== FORMAT) throw new Mistake('it is not the first line of an export')
  const version = fields.get('version')
  if (version !== VERSION) {
    throw new Mistake(`its version is ${JSON.stringify(version)}; only version ${VERSION} is supported`)
  }
}

function checkLastLine(fields: LineFields, count: number): void {
  const entries = fields.get('entries')
  if (entries !== count)
    throw new Mistake(`it announces ${JSON.stringify(entries)} entries, but there are ${count}`)
}

const KNOWN = ['namespace', 'key', 'value', 'expiresAt']

function readEntry(fields: LineFields): StoreEntry {
  const unknown = [...fields.keys()].find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) throw new Mistake(`an entry has no field ${JSON.stringify(unknown)}`)
  const namespace = textOfLine(fields, 'namespace')
  keySpace(namespace)
  const key = keyOfLine(bytesOfLine(fields, 'key'))
  checkKey(key)
  const value = bytesOfLine(fields, 'value')
  checkValue(value)
  const expiresAt = fields.get('expiresAt')
  if (expiresAt === undefined) return { namespace, key, value }
  if (typeof expiresAt !== 'number' || !Number.isSafeInteger(expiresAt) || expiresAt < 1) {
    throw new Mistake('"expiresAt" is not a time in milliseconds since 1970')
  }
  if (expiresAt - Date.now() > TTL_MAX) throw new Mistake(`"expiresAt" is more than ${TTL_MAX} ms from now`)
  return { namespace, key, value, expiresAt }
}

function textOfLine(fields: LineFields, name: string): string {
  const value = fields.get(name)
  if (typeof value !== 'string') throw new Mistake(`"${name}" is not a string`)
  return value
}

function bytesOfLine(fields: LineFields, name: string): Buffer {
  const text = textOfLine(fields, name)
  const bytes = Buffer.from(text, 'base64')
  // Node.js ignores invalid base64 characters.
  if (base64(bytes) !== text) throw new Mistake(`"${name}" is not base64`)
  return bytes
}

function keyOfLine(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new Mistake('"key" is not UTF-8', { cause: error })
  }
}

function base64({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('base64')
}
