import type { onRequestHookHandler } from 'fastify'

/** Of every answer of the admin listener: nothing is kept, framed, guessed or loaded. A page may set its own policy. */
export const answerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

export const addAnswerHeaders: onRequestHookHandler = (_request, reply, done) => {
  reply.headers(answerHeaders)
  done()
}
