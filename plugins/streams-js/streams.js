/** Answers with the FNV-1a hash (32 bits) and the size of an upload of any size. src/lib.rs calls these functions. */
function hash() {
  let hash = 0x811c9dc5
  let bytes = 0
  for (let piece = stream.read(); piece; piece = stream.read()) {
    for (let i = 0; i < piece.length; i++) hash = Math.imul(hash ^ piece[i], 0x01000193)
    bytes += piece.length
  }
  return `${(hash >>> 0).toString(16).padStart(8, '0')} ${bytes}\n`
}

/** Passes on the lines of a CSV file that have the text of the config `keep`, and its first line. */
function filter() {
  const keep = host.config('keep') ?? ''
  stream.start({ headers: { 'content-type': 'text/csv' }, trailers: ['x-lines'] })
  let kept = 0
  for (const line of stream.lines()) {
    if (kept > 0 && !line.includes(keep)) continue
    stream.write(line)
    kept++
  }
  stream.trailers({ 'x-lines': `${kept}` })
}

/** Sends a number every `interval` milliseconds (a config), up to 10, until the client has gone. */
function count() {
  const interval = Number(host.config('interval') ?? 1_000)
  try {
    for (let number = 1; number <= 10; number++) {
      stream.event({ event: 'count', id: `${number}`, data: number })
      stream.pause(interval)
    }
  } catch (error) {
    if (!(error instanceof StreamError)) throw error // the client has gone
  }
}
