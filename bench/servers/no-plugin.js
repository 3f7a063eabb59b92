import { bufferApp } from './buffer-app.js'
import { listen } from './listen.js'

/* The reference of every set: Fastify alone, the body is the answer. */

const app = bufferApp()
app.post('/', (request, reply) => {
  reply.send(request.body)
})
await listen(app)
