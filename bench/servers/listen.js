/**
 * Listens on a free port of the loopback interface and says where, in the words that the bench waits for.
 *
 * @param {import('fastify').FastifyInstance} app
 */
export async function listen(app) {
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  console.log(`listens on ${url}`)
}
