// @ts-check
// Plug-ins below a prefix of an app with its own routes:
//
//   PORT=3000 node examples/mount.mjs
//   curl http://127.0.0.1:3000/users/7
//   curl http://127.0.0.1:3000/plugins/hello -d 'Bob Morane'

import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import { wasmServe } from 'wasm-serve'

const hello = fileURLToPath(new URL('../plugins/hello/hello.wasm', import.meta.url))

const app = Fastify({ logger: { level: 'info', stream: process.stderr } })

// The app still parses JSON, and formats its own errors.
app.get('/users/:id', (request) => ({ user: request.params }))
app.post('/users', (request) => ({ got: request.body }))

// The plug-in gets each body unchanged.
await app.register(wasmServe, {
  prefix: '/plugins',
  routes: [{ url: '/hello', plugin: hello }],
  onResult({ route, request, output, ms }) {
    request.log.info({ function: route.function, bytes: output.length, ms }, 'called')
  },
})

console.log(`listens on ${await app.listen({ port: Number(process.env.PORT ?? 3000) })}`)
