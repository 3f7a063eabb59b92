import Fastify, { type FastifyInstance } from 'fastify'
import { NO_SCHEMAS } from '../../server/app.ts'
import type { CallAnswer, CallRequest } from './protocol.ts'

/** An app, for `inject`, whose requests are answered by a serving process. */
export function openForwardingApp(call: (request: CallRequest) => Promise<CallAnswer>): FastifyInstance {
  const app = Fastify({ schemaController: NO_SCHEMAS })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.all('*', async ({ method, url, headers, body }, reply) => {
    const answer = await call({ method, url, headers, body: body instanceof Uint8Array ? body : undefined })
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined) reply.header(name, value)
    return reply.code(answer.status).send(Buffer.from(answer.body))
  })
  return app
}
