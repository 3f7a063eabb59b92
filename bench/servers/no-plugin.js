import { readFileSync } from 'node:fs'
import { bufferApp } from './buffer-app.js'
import { listen } from './listen.js'

/* The reference of every set: Fastify alone, the body is the answer. `no-plugin.js https|http2 CERTIFICATE KEY` has TLS. */

const [transport, cert, key] = process.argv.slice(2)
const tls = transport && { https: { cert: readFileSync(cert), key: readFileSync(key) } }

const app = bufferApp({ ...tls, ...(transport === 'http2' && { http2: true }) })
app.post('/', (request, reply) => {
  reply.send(request.body)
})
await listen(app)
