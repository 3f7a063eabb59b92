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

/** Passes requests on to the server of the config `upstream`, and passes its answers back in capitals. */
function proxy(input) {
  const { method, url, headers } = JSON.parse(input)
  const type = headers['content-type'] ?? 'text/plain'
  let isStarted = false
  try {
    const upstream = stream.open({
      method,
      url: `${host.config('upstream') ?? ''}${url}`,
      headers: { 'content-type': type },
      redirect: 'manual',
    })
    const passBack = () => {
      if (!isStarted) stream.start(upstream.response())
      isStarted = true
      const piece = upstream.read()
      if (piece) stream.write(capitals(piece))
      return piece !== undefined
    }
    for (let piece = stream.read(); piece; piece = stream.read()) {
      // A server may answer while it reads, or without reading all.
      while (!upstream.write(piece)) if (!passBack()) return
    }
    upstream.end()
    while (passBack());
  } catch (error) {
    // Before the start, the client can get a proper answer.
    if (isStarted || !(error instanceof StreamError) || error.code === GONE) throw error
    stream.start({ status: 502 })
  }
}

const GONE = -1

function capitals(piece) {
  return piece.map((byte) => (byte >= 97 && byte <= 122 ? byte - 32 : byte))
}
