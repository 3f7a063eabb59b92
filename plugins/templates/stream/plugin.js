import { stream } from 'wasm-serve:http'

/** Sends the lines of the body back in capitals, while they arrive. */
export function capitals() {
  stream.start({ headers: { 'content-type': 'text/plain; charset=utf-8' } })
  for (const line of stream.lines()) stream.write(line.toUpperCase())
}

/** Counts to three in server-sent events. */
export function count() {
  for (let number = 1; number <= 3; number++) {
    stream.event({ event: 'count', id: `${number}`, data: number })
    stream.pause(100)
  }
}
