import { getHeapSpaceStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { collectGarbage } from '../support/heap.ts'
import { answerTo, ask, begin, openHttp2 } from '../support/http2-client.ts'
import { localhostTls } from '../support/localhost-tls.ts'
import { listenAll } from '../support/serve.ts'

async function listen() {
  const { ca: cert, tls } = localhostTls(onTestFinished)
  const running = await listenAll([{ plugin: guest('echo') }], { tls, http2: true })
  onTestFinished(() => running.drain())
  return { ...running, ca: cert }
}

/** A client in a heap of its own. It sends this many requests, ten at a time, for each message, and answers when they are over. */
const CLIENT = `
const { connect } = require('node:http2')
const { parentPort, workerData } = require('node:worker_threads')
const session = connect(workerData, { rejectUnauthorized: false })
parentPort.on('message', async (count) => {
  const ask = (body) => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': '/' }).setEncoding('utf8')
    let answer = ''
    stream.on('data', (text) => { answer += text })
    stream.on('end', () => answer === body ? resolve() : reject(new Error(answer))).on('error', reject)
    stream.end(body)
  })
  const client = async (n) => { for (let i = 0; i < count / 10; i++) await ask(n + ' ' + i) }
  await Promise.all(Array.from({ length: 10 }, (_, n) => client(n)))
  parentPort.postMessage('over')
})`

test('what a request over HTTP/2 needed is free after the next minor garbage collection', async () => {
  const { port } = await listen()
  const client = new Worker(CLIENT, { eval: true, workerData: `https://localhost:${port}` })
  onTestFinished(() => void client.terminate())
  const send = (count: number) =>
    new Promise((resolve, reject) => {
      client.once('message', resolve).once('error', reject).postMessage(count)
    })
  const oldBytes = () =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space')?.space_used_size ??
    Number.NaN
  await send(200)
  collectGarbage() // moves the tables of the connection to the old generation
  const before = oldBytes()
  await send(1_000)
  expect((oldBytes() - before) / 1_000).toBeLessThan(800)
})

test('streams whose ids are far apart are kept apart', async () => {
  const { port, ca } = await listen()
  const session = await openHttp2(port, ca)
  const first = begin(session)
  first.write('fir')
  for (let i = 0; i < 127; i++) expect((await ask(session, String(i))).body).toBe(String(i))
  const later = begin(session) // 256 ids after the first
  later.write('lat')
  for (let i = 0; i < 200; i++) expect((await ask(session, String(i))).body).toBe(String(i))
  first.end('st')
  later.end('er')
  const answers = await Promise.all([answerTo(first), answerTo(later)])
  expect(answers.map(({ body }) => body)).toEqual(['first', 'later'])
})
