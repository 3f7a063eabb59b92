import { stream } from 'wasm-serve:http'
import type {} from 'wasm-serve/plugin'

/** Sends the lines of the body back in capitals, while they arrive. */
export function capitals(): void {
  stream.start({ headers: { 'content-type': 'text/plain; charset=utf-8' } })
  for (const line of stream.lines()) stream.write(line.toUpperCase())
}

/** Counts to three in server-sent events. */
export function count(): void {
  for (let number = 1; number <= 3; number++) {
    stream.event({ event: 'count', id: `${number}`, data: number })
    stream.pause(100)
  }
}
