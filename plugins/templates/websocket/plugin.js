import { socket } from 'wasm-serve:websocket'

/** Adds up the numbers that a client sends, and answers each with the sum so far. It is called for each connection. */
export function sum() {
  let sum = 0
  for (const message of socket) {
    const number = Number(message)
    if (Number.isFinite(number)) sum += number
    socket.send(Number.isFinite(number) ? `${sum}` : 'not a number')
  }
}
