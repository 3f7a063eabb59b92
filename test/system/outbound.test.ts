import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { CLI } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { ask, open, serveHttp } from '../support/outbound.ts'
import { describeWith } from '../support/tools.ts'

test('an idle connection is closed after a while', async () => {
  const origin = await serveHttp((_request, response) => void response.end('ok'))
  await ask(open(), origin.url)
  await origin.allClosed()
  expect(origin.accepted).toBe(1)
})

/** Serves on all addresses of this machine, asks a guest to get what is at one, and prints what came of both. */
const ASK_ONESELF = `
  const { spawn } = require('node:child_process')
  const [cli, plugin, host, pattern, scheme] = process.argv.slice(1)
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', () => { console.log('got bytes'); socket.end('HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nhere') })
  }).listen(0, '::', () => {
    const request = JSON.stringify({ url: scheme + '://' + host + ':' + server.address().port + '/', method: 'POST' })
    const words = ['call', plugin, 'fetch', '--input', request, '--allow-host', pattern, '--http-errors', 'status']
    const child = spawn(process.execPath, [cli, ...words], { stdio: ['ignore', 'inherit', 'inherit'] })
    child.on('close', () => process.exit())
  })
`

/** In a network where nothing else is. */
function askOneself(setUp: string, host: string, pattern = '*', scheme = 'http'): string {
  const words = [ASK_ONESELF, CLI, guest('fetch'), host, pattern, scheme]
  const script = `ip link set lo up && ${setUp} && exec "$0" -e "$@"`
  const { stdout } = spawnSync('unshare', ['-r', '-n', 'sh', '-c', script, process.execPath, ...words])
  return String(stdout)
}

describeWith(['network namespaces'], () => {
  test.each([
    ['one of an interface', 'ip addr add 198.51.99.7/24 dev lo', '198.51.99.7', 'http'],
    ['one of an interface, of IPv6', 'ip addr add 2606:4700::7/128 dev lo', '[2606:4700::7]', 'http'],
    ['one that a route makes its own', 'ip route add local 198.51.99.0/24 dev lo', '198.51.99.9', 'http'],
    [
      'one that a route makes its own, by TLS',
      'ip route add local 198.51.99.0/24 dev lo',
      '198.51.99.9',
      'https',
    ],
    [
      'one that a route makes its own, of IPv6',
      'ip route add local 2606:4700::/64 dev lo',
      '[2606:4700::9]',
      'http',
    ],
  ])('a pattern does not lead to this machine by %s', (_, setUp, host, scheme) => {
    const refused = askOneself(setUp, host, '*', scheme)
    expect(refused).toContain('WASM_SERVE_OUTBOUND_REFUSED')
    expect(refused).not.toContain('got bytes')
    if (scheme === 'http') expect(askOneself(setUp, host, host)).toContain('200here')
  })
})
