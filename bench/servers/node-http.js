import { createServer } from 'node:http'
import { listenHttp } from './listen.js'

/* What no framework can beat: Node's HTTP alone, the body is the answer. */

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks)
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': body.length })
    response.end(body)
  })
})
await listenHttp(server)
