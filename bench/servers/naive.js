import { readFile } from 'node:fs/promises'
import createPlugin from '@extism/extism'
import { bufferApp } from './buffer-app.js'
import { listen } from './listen.js'

/*
 * A typical implementation after the tutorial, which avoids an instance shared by overlapping calls: a new plug-in for
 * each request, closed after it. `naive.js FILE` reads the file once and compiles its bytes for each request;
 * `naive.js --from-path FILE` also leaves the reading to the SDK, as the tutorial does.
 */

const fromPath = process.argv[2] === '--from-path'
const path = process.argv[fromPath ? 3 : 2] ?? ''
const wasm = fromPath ? { path } : { data: await readFile(path) }

const app = bufferApp()
app.post('/', async (request, reply) => {
  const plugin = await createPlugin({ wasm: [wasm] }, { useWasi: true })
  try {
    const output = await plugin.call('hello', request.body)
    reply.type('text/plain; charset=utf-8')
    return output.text()
  } finally {
    await plugin.close()
  }
})
await listen(app)
