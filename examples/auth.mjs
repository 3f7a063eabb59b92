// @ts-check
// Authentication before the plug-ins: without the token no guest runs. Other routes stay open.
//
//   PORT=3000 TOKEN=let-me-in node examples/auth.mjs
//   curl http://127.0.0.1:3000/health
//   curl http://127.0.0.1:3000/plugins/hello -d 'Bob Morane' -H 'authorization: Bearer let-me-in'

import { fileURLToPath } from 'node:url'
import bearerAuth from '@fastify/bearer-auth'
import Fastify from 'fastify'
import { CallRefusedError, wasmServe } from 'wasm-serve'

const hello = fileURLToPath(new URL('../plugins/hello/hello.wasm', import.meta.url))
const { PORT = '3000', TOKEN } = process.env
if (!TOKEN) throw new Error('set TOKEN to what clients have to know')

const app = Fastify()
app.get('/health', () => 'ok')

// A separate scope: hooks registered in it, and in the scopes below, do not apply to /health.
await app.register(async (secured) => {
  await secured.register(bearerAuth, { keys: new Set([TOKEN]) })
  await secured.register(wasmServe, {
    prefix: '/plugins',
    routes: [
      {
        url: '/hello',
        plugin: hello,
        // Authorization in addition to authentication: this checks the request itself.
        onCall({ input }) {
          if (input.length > 100) throw new CallRefusedError('a name has 100 bytes at most')
        },
      },
    ],
  })
})

console.log(`listens on ${await app.listen({ port: Number(PORT) })}`)
