import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import Fastify from 'fastify'
import { listen } from './listen.js'

/* What the bench of streams compares with: the same bytes through Fastify, as streams of Node.js. */

const app = Fastify()
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', (_request, _body, done) => done(null))

app.post('/hash', async ({ raw }) => {
  const digest = createHash('sha256')
  let bytes = 0
  for await (const piece of raw) {
    digest.update(piece)
    bytes += piece.length
  }
  return `${digest.digest('hex')} ${bytes}\n`
})

app.post('/count', async ({ raw }) => String(await sizeOf(raw)))

app.post('/download', async ({ raw }, reply) => {
  const pieces = 16 * (await sizeOf(raw))
  function* zeros() {
    for (let i = 0; i < pieces; i++) yield Buffer.alloc(65_536)
  }
  return reply.send(Readable.from(zeros(), { objectMode: false }))
})

app.post('/filter', (request, reply) => {
  reply.send(request.raw)
})

async function sizeOf(body) {
  let bytes = 0
  for await (const piece of body) bytes += piece.length
  return bytes
}

await listen(app)
