import { writeSync } from 'node:fs'
import { openContentCache } from '../../src/plugin/source/content-cache.ts'
import { sha256 } from '../../src/plugin/source/digest.ts'

/*
 * Writes content and a tag to a cache until it is killed, or COUNT times: contents 0 to 4, of so many bytes, in turn. A line of output for
 * each, and in the end the warnings.
 */

const [folder = '', size = '0', count = 'Infinity'] = process.argv.slice(2)
const warnings: string[] = []
const cache = openContentCache(folder, warnings)
for (let i = 0; i < Number(count); i++) {
  const bytes = Buffer.alloc(Number(size), `${i % 5}`)
  const digest = sha256(bytes)
  await cache.write(digest, bytes)
  await cache.writeTag('registry.example/hello:1', { digest, at: i })
  const found = await cache.read(digest)
  writeSync(1, `${i} ${found === undefined ? 'missing' : 'found'}\n`)
}
writeSync(1, `${JSON.stringify(warnings)}\n`)
