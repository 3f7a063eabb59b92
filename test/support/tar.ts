/** An entry to write. Fields that are left out are those of a regular file. */
export interface WrittenEntry {
  readonly name: string
  /** Default: `0`, a file. */
  readonly type?: string
  readonly content?: Uint8Array | string
  /** The size field, if it is not that of the content. */
  readonly size?: string | Uint8Array
  /** In the prefix field. */
  readonly prefix?: string
  /** Default: POSIX's. */
  readonly magic?: string
}

const BLOCK = 512

/** An archive with these entries and an end mark. */
export function tarOf(...entries: readonly (WrittenEntry | Uint8Array)[]): Buffer {
  const written = entries.map((entry) => (entry instanceof Uint8Array ? entry : tarEntry(entry)))
  return Buffer.concat([...written, Buffer.alloc(2 * BLOCK)])
}

/** One entry: its header and its content, padded. */
export function tarEntry(entry: WrittenEntry): Buffer {
  const content = Buffer.from(entry.content ?? '')
  const header = Buffer.alloc(BLOCK)
  header.write(entry.name, 0, 100)
  header.write('0000644\0', 100)
  const size = entry.size ?? `${content.length.toString(8).padStart(11, '0')}\0`
  if (typeof size === 'string') header.write(size, 124, 12, 'latin1')
  else header.set(size, 124)
  header.write(entry.type ?? '0', 156, 'latin1')
  header.write(entry.magic ?? 'ustar\x0000', 257, 'latin1')
  header.write(entry.prefix ?? '', 345, 155)
  header.fill(' ', 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([header, content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)])
}

/** Pax records for the next entry. */
export function paxOf(records: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(records).map(([key, value]) => paxRecord(` ${key}=${value}\n`))
  return tarEntry({ name: 'pax', type: 'x', content: lines.join('') })
}

/** The length of a record counts its own digits. */
function paxRecord(rest: string): string {
  const bytes = Buffer.byteLength(rest)
  let length = bytes
  while (bytes + String(length).length !== length) length = bytes + String(length).length
  return length + rest
}

/** Gives each block of a mutant its checksum, so that other checks are reached. */
export function fixSums(archive: Buffer): void {
  for (let at = 0; at < archive.length; at += 512) {
    const block = archive.subarray(at, at + 512)
    if (!block.toString('latin1', 257, 262).startsWith('ustar')) continue
    block.fill(' ', 148, 156)
    const sum = block.reduce((total, byte) => total + byte, 0)
    block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  }
}
