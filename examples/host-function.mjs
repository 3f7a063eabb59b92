// @ts-check
// A guest that calls the app: shop.wasm imports `price_of`, which is a function of this file.
//
//   PORT=3000 node examples/host-function.mjs
//   curl http://127.0.0.1:3000/ -d 'pear'
//   curl http://127.0.0.1:3000/ -d 'yacht'

import { fileURLToPath } from 'node:url'
import { createServer } from 'wasm-serve'

const shop = fileURLToPath(new URL('shop.wasm', import.meta.url))

const prices = new Map([
  ['apple', '1.20'],
  ['pear', '1.50'],
])

/** @type {import('wasm-serve').HostFunctions} */
const functions = {
  'extism:host/user': {
    // A guest passes text as its position in memory, and gets text in the same way.
    price_of(context, /** @type {bigint} */ place) {
      const name = context.read(place)?.text() ?? ''
      const price = prices.get(name)
      if (price !== undefined) return context.store(price)
      context.setError(`there is no ${name}`) // the answer is 409, with these words
      return 0n
    },
  },
}

const app = await createServer({ routes: [{ plugin: shop, functions }] })

console.log(`listens on ${await app.listen({ port: Number(process.env.PORT ?? 3000) })}`)
