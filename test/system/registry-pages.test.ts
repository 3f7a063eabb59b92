import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { Ajv } from 'ajv'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { parseReference } from '../../src/plugin/oci/reference.ts'
import { openRegistry } from '../../src/plugin/oci/registry.ts'
import { CLI, run } from '../support/cli-process.ts'
import { blocksOf } from '../support/pages.ts'
import { pluginFile } from '../support/pdk.ts'
import { startDockerRegistry } from '../support/registry-server.ts'
import { fixture, makeKey, signArtifact } from '../support/signatures.ts'
import { describeWith } from '../support/tools.ts'

const PAGES = ['docs/serve/registry.md', 'docs/protect/signatures.md']

const schema = JSON.parse(readFileSync(new URL('../../dist/schema.json', import.meta.url), 'utf8'))

/** A folder, and a registry, with what the pages name. */
async function openPages() {
  const { host } = await startDockerRegistry()
  const key = makeKey()
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-pages-'))
  onTestFinished(() => {
    key.close()
    rmSync(folder, { recursive: true, force: true })
  })
  cpSync(pluginFile('hello', 'hello.wasm'), join(folder, 'hello.wasm'))
  cpSync(key.path, join(folder, 'acme.pub'))
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ wasm: [{ path: 'hello.wasm' }] }))
  cpSync(fixture('trusted-root.json'), join(folder, 'trusted_root.json'))
  writeFileSync(
    join(folder, 'company-ca.pem'),
    readFileSync(new URL('../support/tls/cert.pem', import.meta.url)),
  )
  mkdirSync(join(folder, 'bin'))
  symlinkSync(CLI, join(folder, 'bin/wasm-serve'))
  const registry = openRegistry({ environment: {} })
  for (const tag of ['1', '1.2']) {
    const pushed = await run([
      'push',
      join(folder, 'hello.wasm'),
      `oci://${host}/acme/hello:${tag}`,
      '--json',
    ])
    const reference = parseReference(JSON.parse(pushed.stdout).reference)
    if ('problem' in reference) throw new Error(reference.problem)
    await signArtifact(registry, reference, key.privateKey)
  }
  /** What the pages say, with this registry. */
  const here = (text: string) => text.replaceAll('localhost:5000', host).replaceAll('ghcr.io', host)
  return { folder, here }
}

/** A server would not end: it is checked. */
function shortly(line: string): string {
  return line.replace(/^wasm-serve (?=oci:)/, 'wasm-serve check ')
}

describeWith(['docker-registry'], () => {
  test.each(PAGES)('the commands of %s do what they say', { timeout: 120_000 }, async (page) => {
    const { folder, here } = await openPages()
    const lines = blocksOf(page).flatMap(({ language, code }) =>
      language === 'sh' ? code.trim().split('\n') : [],
    )
    expect(lines.length).toBeGreaterThan(0)
    const env = { ...process.env, PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}` }
    for (const line of lines) {
      const { status, stderr } = spawnSync('bash', ['-c', shortly(here(line))], {
        cwd: folder,
        env: { ...env, XDG_CACHE_HOME: join(folder, 'cache') },
        encoding: 'utf8',
      })
      expect([line, status, stderr]).toEqual([line, 0, expect.not.stringContaining('wasm-serve: ')])
    }
  })

  test('the examples of the page of push work', { timeout: 60_000 }, async () => {
    const { folder, here } = await openPages()
    const { stdout } = await run(['help', 'push'])
    const examples = /Examples:\n((?: {2}.*\n)+)/.exec(stdout)?.[1] ?? ''
    const lines = examples.split('\n').filter((line) => line !== '')
    expect(lines.length).toBeGreaterThan(0)
    for (const line of lines) {
      const [, ...args] = here(line).trim().split(' ')
      const { code, stderr } = await run(args, {}, { cwd: folder })
      expect([line, code, stderr]).toEqual([line, 0, ''])
    }
  })

  test.each(PAGES)('the configuration files of %s can be served', { timeout: 120_000 }, async (page) => {
    const { folder, here } = await openPages()
    const validate = new Ajv({ strict: true, allowUnionTypes: true }).compile(schema)
    const files = blocksOf(page).flatMap(({ language, code }) => (language === 'yaml' ? [here(code)] : []))
    expect(files.length).toBeGreaterThan(0)
    for (const code of files) {
      expect(validate(parse(code)), JSON.stringify(validate.errors)).toBe(true)
      writeFileSync(join(folder, 'wasm-serve.yaml'), code)
      const checked = await run(['check', '--cache-folder', join(folder, 'cache')], {}, { cwd: folder })
      expect([code, checked.code, checked.stderr]).toEqual([
        code,
        0,
        expect.not.stringContaining('wasm-serve: '),
      ])
    }
  })
})
