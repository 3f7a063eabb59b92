import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openRaw } from '../../../src/contract/direct.ts'
import { openHttp } from '../../../src/contract/http.ts'
import { openSimplism } from '../../../src/contract/simplism.ts'
import { type Contract, ContractBrokenError } from '../../../src/index.ts'
import { answerOf, inputOf } from '../../support/contract.ts'
import { runs } from '../../support/runs.ts'
import { listen, serve } from '../../support/serve.ts'

/** What a user of the library may write: numbers in the query, numbers out. */
const numbers: Contract = {
  name: 'numbers',
  input: ({ query }) => Buffer.from(String((query as { n?: string }).n ?? '')),
  answer(output, reply) {
    const n = Number(Buffer.from(output).toString())
    if (Number.isNaN(n)) throw new ContractBrokenError('numbers', 'the output is no number')
    reply.send({ n })
  },
}

const contracts: readonly Contract[] = [openRaw({}), openHttp({}), openSimplism({}), numbers]

/** JSON that looks like an answer, right or wrong. */
const almostAnswer = fc
  .record(
    {
      status: fc.oneof(fc.integer({ min: 150, max: 650 }), fc.jsonValue()),
      code: fc.oneof(fc.integer({ min: 150, max: 650 }), fc.jsonValue()),
      headers: headers(),
      header: headers(),
      body: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue()),
      bodyBase64: fc.oneof(fc.base64String(), fc.string()),
      other: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  .map((answer) => Buffer.from(JSON.stringify(answer)))

function headers() {
  const name = fc.oneof(
    fc.constantFrom(
      'set-cookie',
      'Set-Cookie',
      'content-type',
      'Content-Length',
      'connection',
      '__proto__',
      'a',
    ),
    fc.string(),
  )
  const value = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.constantFrom('a\r\nx: y', '\u00e9', ''),
  )
  return fc.oneof(fc.dictionary(name, fc.oneof(value, fc.array(value), fc.jsonValue())), fc.jsonValue())
}

const TEXT = 'text/plain; charset=utf-8'

/** Sends bodies over one connection, and reads the answers as strictly as Node does. */
function openClient(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  return async (body: Uint8Array) => {
    const outgoing = request({ port, agent, method: 'POST', headers: { 'x-request-id': 'mine' } })
    outgoing.end(body)
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage]
    const { socket, statusCode: status, headers } = answer
    return { socket, status, headers, body: await text(answer) }
  }
}

describe.each(contracts)('the contract $name', (contract) => {
  test('makes of any output an answer or a failure that has a code, and the connection goes on', async () => {
    const { port } = await listen(answerOf(contract))
    const ask = openClient(port)
    const output = fc.oneof(
      fc.uint8Array({ maxLength: 500 }),
      fc.json().map((json) => Buffer.from(json)),
      almostAnswer,
    )
    const connections = new Set()
    await fc.assert(
      fc.asyncProperty(output, async (bytes) => {
        const { socket, status, headers, body } = await ask(bytes)
        connections.add(socket)
        expect(headers['x-request-id']).toBe('mine')
        if (status === 500) expect([contract.name, headers['content-type']]).toEqual(['simplism', TEXT])
        if (headers['content-type'] === 'application/problem+json') {
          expect(JSON.parse(body)).toMatchObject({ status, code: 'WASM_SERVE_CONTRACT_BROKEN' })
        }
      }),
      { numRuns: runs(150) },
    )
    expect(connections.size).toBe(1)
  })

  test('makes of any request an input, and answers it', async () => {
    const app = await serve({ ...inputOf(contract), method: '*', url: '/*' })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'),
        fc.webPath(),
        fc.webQueryParameters(),
        fc.uint8Array({ maxLength: 100 }),
        async (method, path, query, payload) => {
          const url = `/${path}?${query}`
          const reply = await app.inject({ method: method as 'POST', url, payload: Buffer.from(payload) })
          expect(reply.statusCode).toBe(200)
        },
      ),
    )
  })
})

test('a contract of the user is called with the request and answers with what the guest produced', async () => {
  const app = await serve({ ...inputOf(numbers), contract: numbers, method: 'GET' })
  const reply = await app.inject({ url: '/?n=42' })
  expect([reply.statusCode, reply.json()]).toEqual([200, { n: 42 }])
  const broken = await app.inject({ url: '/?n=many' })
  expect(broken.statusCode).toBe(502)
  expect(broken.json()).toMatchObject({
    code: 'WASM_SERVE_CONTRACT_BROKEN',
    detail: 'The guest violated the numbers contract: the output is no number',
  })
})

test('a contract that throws what is not ours costs its own request only', async () => {
  const contract: Contract = {
    name: 'thrower',
    input({ headers }) {
      if (headers['x-fail']) throw new Error('bad input')
      return Buffer.from('ok')
    },
    answer: (output, reply) => {
      reply.send(Buffer.from(output))
    },
  }
  const app = await serve({ ...inputOf(contract), contract })
  const failed = await app.inject({ method: 'POST', url: '/', headers: { 'x-fail': '1' } })
  expect(failed.json()).toMatchObject({ status: 500, code: 'WASM_SERVE_INTERNAL_ERROR' })
  expect(failed.body).not.toContain('bad input')
  expect((await app.inject({ method: 'POST', url: '/' })).body).toBe('ok')
})
