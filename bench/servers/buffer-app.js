import Fastify from 'fastify'

/** The base of every Fastify server of the bench: no logger, bodies as buffers for every content type. */
export function bufferApp(options = {}) {
  const app = Fastify(options)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  return app
}
