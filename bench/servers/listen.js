import { once } from 'node:events'

/**
 * Listens on a free port of the loopback interface and says where, in the words that the bench waits for.
 *
 * @param {import('fastify').FastifyInstance} app
 */
export async function listen(app) {
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  console.log(`listens on ${url}`)
}

/**
 * The same without Fastify.
 *
 * @param {import('node:http').Server} server
 */
export async function listenHttp(server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  console.log(`listens on http://127.0.0.1:${server.address().port}`)
}
