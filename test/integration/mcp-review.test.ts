import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli.ts'
import { guestBytes } from '../support/guest.ts'
import { type CannedAnswer, cannedGuest } from '../support/hyper-guest.ts'
import { McpUser } from '../support/mcp.ts'

/* Warnings about descriptions of tools, at the start and in `check`. */

const always = (output: unknown): CannedAnswer[] => [
  { when: '', output: typeof output === 'string' ? output : JSON.stringify(output) },
]

const HYPER = {
  call_tool: always({ content: [] }),
  list_tools: always({
    tools: [
      { name: 'fine', description: 'It is fine.', inputSchema: { type: 'object' } },
      { name: 'a name', description: 'It has a space.' },
      { name: 'bare', inputSchema: { type: 'object', required: 7 } },
      { name: 'dot.ted', description: 'It has a dot.' },
      { name: 'told', description: 'Another tool has this name.' },
      7,
    ],
  }),
  list_prompts: always({ prompts: [{ name: 'p' }, { name: 7 }] }),
  list_resources: always('{'),
}

/** Options for plug-ins with descriptions of all kinds. */
const PLUGINS = {
  plain: { source: 'plain.wasm', engine: 'inline' },
  told: { source: 'told.wasm', engine: 'inline', tool: { description: 'It is told.' } },
  own: { source: 'own.wasm', engine: 'inline', exports: ['greet'] },
  broken: { source: 'broken.wasm', engine: 'inline', exports: ['greet'] },
  hyper: { source: 'hyper.wasm', engine: 'inline', contract: 'hyper-mcp' },
}

/** What each of these says, in an order that is not known. */
const WARNINGS = [
  'Tools without a description, by which models choose: plain, broken_greet, bare. Set tool.description',
  'The XTP schema of the plug-in plain does not describe the tool run: its version is not v1-draft',
  'The XTP schema of the plug-in told does not describe the tool run: it has no such export',
  'The description of the tool greet by the plug-in own: its title cannot be used',
  expect.stringMatching(/^The description of the tool greet by the plug-in own: .*input schema/),
  expect.stringMatching(/^The description of the tool greet by the plug-in broken: .*not JSON/),
  'The plug-in hyper: the tool a name is left out: its name must be 1 to 128 letters, digits, _, - or .',
  'The plug-in hyper: the inputSchema of the tool bare is left out: it does not describe an object',
  expect.stringMatching(/^The plug-in hyper: left out of its list of tools, 1 of 6/),
  'The tool told of hyper cannot be called: a route has one of that name. Set tool.prefix or tool.name',
  'Some clients refuse all tools of a server if a name has a dot, or more than 64 characters: dot.ted. Set tool.name',
  expect.stringMatching(/^The plug-in hyper: left out of its list of prompts, 1 of 2/),
  expect.stringMatching(/^The plug-in hyper: its list of resources cannot be read/),
]

function folderOf(plugins: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-review-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const one = guestBytes(cannedGuest({ run: always('') }))
  const describing = (entry: unknown) =>
    guestBytes(cannedGuest({ describe: always(entry), greet: always('hello') }))
  const files = {
    'plain.wasm': one,
    'plain.schema.yaml': 'version: v0\nexports: [run]\n',
    'told.wasm': one,
    'told.schema.yaml': 'version: v1-draft\nexports: { other: {} }\n',
    'own.wasm': describing({
      name: 'greet',
      title: 7,
      description: 'Greets.',
      inputSchema: { type: 'string' },
    }),
    'broken.wasm': describing('{'),
    'hyper.wasm': guestBytes(cannedGuest(HYPER)),
    'wasm-serve.json': JSON.stringify({ port: 0, mcp: {}, plugins }),
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)
  return folder
}

const messagesIn = (log: string): string[] =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).msg)

test('check warns of tools without a description, and of descriptions that cannot be used', async () => {
  const { code, stderr, stdout } = await run(['check'], {}, { cwd: folderOf(PLUGINS) })
  expect([code, stdout]).toEqual([0, expect.stringContaining('plain')])
  const warnings = messagesIn(stderr)
  expect(warnings).toEqual(expect.arrayContaining(WARNINGS))
  expect(warnings).toHaveLength(WARNINGS.length)
})

test('check has no warnings for tools that are described', async () => {
  const plugins = {
    told: { ...PLUGINS.told, source: 'own.wasm', exports: ['greet'], tool: { description: 'Told.' } },
  }
  const folder = folderOf(plugins)
  writeFileSync(join(folder, 'own.wasm'), guestBytes(cannedGuest({ greet: always('') })))
  expect(await run(['check'], {}, { cwd: folder })).toMatchObject({ code: 0, stderr: '' })
})

test('a server warns at its start, and once', async () => {
  const server = start([], {}, { cwd: folderOf(PLUGINS) })
  const user = new McpUser(await server.listening())
  await server.logged('Tools without a description')
  const names = ['plain', 'told', 'broken_greet', 'greet', 'fine', 'bare', 'dot.ted']
  for (let round = 0; round < 2; round++) {
    const { tools } = (await user.modern('tools/list')).body.result
    expect(tools.map(({ name }) => name).sort()).toEqual(names.sort())
  }
  const logged = messagesIn(server.stderr())
  const warnings = logged.filter((message) => /description|left out|cannot be|XTP|Some clients/.test(message))
  expect(warnings).toEqual(expect.arrayContaining(WARNINGS))
  expect(warnings).toHaveLength(WARNINGS.length)
})
