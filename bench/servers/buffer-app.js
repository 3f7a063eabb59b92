import Fastify from 'fastify'

/** What every Fastify server of the bench starts from: no logger, bodies as buffers, whatever their content type. */
export function bufferApp() {
  const app = Fastify()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  return app
}
