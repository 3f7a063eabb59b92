import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { readConfig } from '../../../src/options/config.ts'
import { findConfigFile, readConfigFile } from '../../../src/options/config-file.ts'
import { toData } from '../../../src/options/config-node.ts'
import { type ConfigFormat, interpolate } from '../../../src/options/config-text.ts'
import { mergeConfig } from '../../../src/options/merge.ts'
import { configOf, problemsIn } from '../../support/config-text.ts'

const variable = (name: string) => `\${${name}}`

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-config-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  return path
}

const wrong: readonly [name: string, ConfigFormat, text: string, problem: string | RegExp][] = [
  ['JSON that ends too early', 'json', '{\n  "port": 1,', /^2:13: it is not JSON: the text ends too early$/],
  [
    'JSON with a comma too many',
    'json',
    '{"port": 1,\n}',
    '2:1: it is not JSON: unexpected "}": remove the comma before it',
  ],
  ['a comment in JSON', 'json', '{ // c\n}', '1:3: it is not JSON: unexpected "/": JSON has no comments'],
  ['a text that ends with a colon', 'yaml', 'store: memory:', /^1:8: a text with a colon .* needs quotes/],
  ['a star without quotes', 'yaml', 'cors: { origin: * }', /^1:17: a text with \* .* needs quotes/],
  ['a switch for CORS', 'yaml', 'cors: true', /^1:7: cors: must be an object, such as {"origin"/],
  ['a list of plug-ins', 'yaml', 'plugins: [a.wasm]', /^1:10: plugins: must be an object, such as {"hello"/],
  ['a map of routes', 'yaml', 'routes: { /a: a.wasm }', /^1:9: routes: must be a list, such as \[{"url"/],
  ['a text where a list belongs', 'yaml', 'apiKeys: x', '1:10: apiKeys: must be a list: put it in [ ]'],
  ['the name of a flag', 'yaml', 'tls-cert: a.pem', /^1:1: tls-cert: .* did you mean "tls.cert"\?$/],
  [
    'an option of other servers',
    'yaml',
    'metrics: true',
    /^1:1: metrics: unknown option; .* serve \/metrics$/,
  ],
  ['a URL of a plug-in', 'yaml', 'plugins: {a: {source: a.wasm, url: /x}}', /an option of a route, such as/],
  [
    'a home folder',
    'yaml',
    'plugins: {a: {source: ~/a.wasm}}',
    /^1:23: "~" is not replaced .* write "\${HOME}"$/,
  ],
  ['a variable of a shell', 'yaml', 'plugins: {a: {source: $HOME/a.wasm}}', /"\$HOME" is not replaced/],
  ['a host with its port', 'yaml', 'host: localhost:80', /^1:7: host: must be an address or a host name/],
  ['nothing', 'yaml', '# nothing', /^1:1: a config file must be a map of options, such as/],
  ['a key that JSON has twice', 'json', '{"port": 1,\n "port": 2}', '2:2: the key "port" is duplicate'],
  ['a key with a line break', 'yaml', '"a\\nb": 1', '1:1: a\\u000ab: unknown option'],
  ['a key that YAML has twice', 'yaml', 'port: 1\nport: 2', '2:1: the key "port" is duplicate'],
  [
    'a key that JSON has twice, in another spelling',
    'json',
    '{"port": 1, "p\\u006frt": 2}',
    /^1:13: .*"port" is/,
  ],
  ['a __proto__ in JSON', 'json', '{"__proto__": {"port": 1}}', /^1:2: the key "__proto__" is reserved/],
  ['a __proto__ in YAML', 'yaml', 'defaults:\n  __proto__: {}', /^2:3: the key "__proto__"/],
  ['a constructor in YAML', 'yaml', 'constructor:\n  a: 1', /^1:1: the key "constructor"/],
  ['an escaped __proto__', 'json', '{"host": "a", "\\u005f_proto__": 1}', /^1:15: the key "__proto__"/],
  ['an unknown key', 'yaml', 'prot: 1', '1:1: prot: unknown option; did you mean "port"?'],
  [
    'an unknown key of an option',
    'json',
    '{"port": 1,\r\n"defaults": {\r\n\t"bodyLimt":1}}',
    '3:2: defaults.bodyLimt: unknown option; did you mean "bodyLimit"?',
  ],
  ['an option of routes at the top', 'yaml', 'wasi: true', /^1:1: wasi: unknown option; .*"defaults"/],
  ['a wrong type', 'json', '{"accessLog":\n "yes"}', '2:2: accessLog: must be true or false'],
  ['a number that is text', 'yaml', 'port: "80"', '1:7: port: must be a whole number: remove the quotes'],
  ['a number out of range', 'yaml', 'port: 65536', /^1:7: port: must be from 0 to 65535/],
  ['a number without bounds', 'yaml', 'defaults: {bodyLimit: 1e99}', '1:23: this number is too large'],
  ['no number at all', 'yaml', 'port: .nan', '1:7: this number is too large'],
  ['a number of JSON without bounds', 'json', '{"port": 1e999}', '1:10: this number is too large'],
  ['a size that is none', 'yaml', 'defaults: {bodyLimit: 1XB}', /^1:23: bodyLimit: must be a size/],
  ['a list where options belong', 'yaml', '- port', /^1:1: a config file must be a map of options/],
  ['nothing', 'yaml', '', /^1:1: a config file must be a map of options/],
  ['two documents', 'yaml', 'port: 1\n---\nport: 2', /^2:1: a second document/],
  [
    'a merge of no map',
    'yaml',
    'defaults: {<<: 1}',
    '1:12: the value of << must be a map, or a list of maps',
  ],
  ['a merge key of JSON', 'json', '{"<<": {"port": 1}}', /^1:2: <<: unknown option/],
  ['a switch where text belongs', 'yaml', 'admin: true', /^1:8: admin: must be HOST:PORT, PORT/],
  [
    'a path where a plug-in belongs',
    'yaml',
    'plugins: {a: a.wasm}',
    /^1:14: plugins.a: must be an object, such as {"source":"hello.wasm"}/,
  ],
  [
    'a URL without a slash',
    'yaml',
    'routes: [{plugin: a.wasm, url: a}]',
    /^1:32: routes\[0\].url: must begin with \//,
  ],
  [
    'a parameter in braces',
    'yaml',
    'routes: [{plugin: a.wasm, url: "/a/{id}"}]',
    /a parameter is written :id/,
  ],
  [
    'parameters with two names at one place',
    'yaml',
    'routes: [{plugin: a.wasm, url: "/a/:id"},\n {plugin: b.wasm, url: "/a/:name"}]',
    /^2:24: .*line 1/,
  ],
  ['a tag', 'yaml', 'port: !secret 1', /^1:7: Unresolved tag/],
  ['an alias of nothing', 'yaml', 'port: *p', '1:7: no earlier node has the anchor "&p"'],
  ['an alias that contains itself', 'yaml', 'defaults: &d {config: *d}', /more than 32 levels/],
  ['lists inside lists', 'yaml', '['.repeat(100_000), /more than 32 levels/],
  [
    'many lists inside lists of JSON',
    'json',
    `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
    /^1:34: more than 32 levels/,
  ],
  ['lists inside lists of JSON', 'json', '['.repeat(40) + ']'.repeat(40), /^1:34: more than 32 levels/],
  ['lists inside lists of YAML', 'yaml', '['.repeat(66) + ']'.repeat(66), /^1:34: more than 32 levels/],
  ['maps inside maps', 'yaml', `a: ${'{a: '.repeat(5_000)}1${'}'.repeat(5_000)}`, /more than 32 levels/],
  ['a route without a plug-in', 'yaml', 'routes:\n  - url: /a', '2:5: routes[0].plugin: is missing'],
  ['no routes', 'yaml', 'routes: []', '1:9: routes: must not be empty'],
  ['threads that are no number', 'yaml', 'defaults: {workers: many}', /^1:21: defaults.workers: .* or auto$/],
  [
    'a method that there is not',
    'yaml',
    'defaults: {method: FETCH}',
    /^1:20: .*must be one or several of GET/,
  ],
  [
    'a contract that there is not',
    'yaml',
    'defaults: {contract: htp}',
    /must be one of raw, http, simplism, hyper-mcp, websocket; did you mean "http"\?$/,
  ],
  [
    'a host that is none',
    'yaml',
    'defaults: {allowedHosts: [a.com, "ftp://b"]}',
    /^1:34: .*allowedHosts\[1\]/,
  ],
  [
    'a method that two routes answer at one URL',
    'yaml',
    'routes:\n- {plugin: a.wasm, method: [GET, PUT]}\n- {plugin: b.wasm, method: PUT, url: /}',
    /^3:38: this URL is also that of line 2/,
  ],
  [
    'a URL that two routes have',
    'json',
    '{"routes": [\n{"plugin": "a.wasm"},\n{"plugin": "b.wasm"}]}',
    /^3:12: .*line 2/,
  ],
  [
    'a plug-in by a wrong name',
    'yaml',
    'plugins: {hello: {source: a.wasm}}\nroutes: [{plugin: helo}]',
    '2:19: there is no plug-in "helo"; did you mean "hello"?',
  ],
  [
    'a variable that is not set',
    'yaml',
    `host: ${variable('NOBODY')}`,
    '1:7: the environment variable NOBODY is not set',
  ],
  ['a variable that is none', 'json', `{"host": "${variable('1')}"}`, /^1:10: a variable is/],
  [
    'a variable in a key',
    'yaml',
    `defaults: {config: {"${variable('A')}": b}}`,
    /^1:21: a variable is allowed in a value only/,
  ],
  [
    'a variable that is no number',
    'yaml',
    `port: ${variable('WORD')}`,
    `1:7: port: must be a whole number, not "${variable('WORD')}"`,
  ],
]

test.each(wrong)('%s is refused at its place (%s)', async (_, format, text, problem) => {
  const [found, ...others] = await problemsIn(format, text, { WORD: 'sesame' })
  expect(found).toMatch(problem instanceof RegExp ? problem : new RegExp(`^${quote(problem)}$`))
  expect(others).toEqual([])
})

function quote(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

test.each([
  ['a comment', '{"port": 1} # one', '1:13'],
  ['a comment of JavaScript', '{"port": 1, // one\n}', '1:13'],
  ['a comma too many', '{"a": [1,]}', '1:10'],
  ['a key without quotes', '{port: 1}', '1:2'],
  ['other quotes', "{'port': 1}", '1:2'],
  ['a list without commas', '[1 2]', '1:4'],
  ['lines without braces', 'port: 1', '1:1'],
  ['dashes', '- 1', '1:2'],
  ['a marker of documents', '---\n{"port": 1}', '1:2'],
  ['two documents', '{"port": 1}\n---\n{}', '2:1'],
  ['an anchor', '{"a": &a 1, "b": *a}', '1:7'],
  ['an alias', '{"a": *a}', '1:7'],
  ['a tag', '{"a": !!str 1}', '1:7'],
  ['a merge', '{<<: {"a": 1}}', '1:2'],
  ['a key of several values', '{? [1] : 1}', '1:2'],
  ['no value', '{"port": }', '1:10'],
  ['a key alone', '{"port"}', '1:8'],
  ['a null of YAML', '{"a": ~}', '1:7'],
  ['a word', '{"a": yes}', '1:7'],
  ['a number that is none', '{"a": .nan}', '1:7'],
  ['a number with a plus', '{"a": +1}', '1:7'],
  ['a number with a zero before it', '{"a": 01}', '1:8'],
  ['a hexadecimal number', '{"a": 0x1}', '1:8'],
  ['a text over two lines', '{"a": "b\nc"}', '1:9'],
  ['a tabulator in a text', '{"a": "\t"}', '1:8'],
  ['an escape of YAML', '{"a": "\\x41"}', '1:9'],
  ['a space that is none of JSON', '{"a":\u00a01}', '1:6'],
  ['a second byte order mark', '\uFEFF{}', '1:1'],
  ['a block of text', '{"a": |\n  b\n}', '1:7'],
  ['nothing', '', '1:1'],
])('%s is not JSON, also where it is YAML', async (_, text, place) => {
  const [found = '', ...others] = await problemsIn('json', text)
  expect([found.startsWith(`${place}: it is not JSON: `), found, others]).toEqual([true, found, []])
})

test('a file of TOML is refused, whatever it holds, with what to use instead', async () => {
  const path = folder()
  const file = join(path, 'wasm-serve.toml')
  writeFileSync(file, 'port = 1')
  const refusal = { code: 'WASM_SERVE_CONFIG_UNREADABLE', message: expect.stringMatching(/TOML .* YAML/) }
  await expect(readConfigFile(file, {}, new Secrets())).rejects.toMatchObject(refusal)
  await expect(readConfigFile(join(path, 'none.TOML'), {}, new Secrets())).rejects.toMatchObject(refusal)
  // One that is found is not passed over in silence, unless there is another that can be read.
  expect(findConfigFile(path)).toBe('wasm-serve.toml')
  writeFileSync(join(path, 'wasm-serve.yaml'), '')
  expect(findConfigFile(path)).toBe('wasm-serve.yaml')
})

test('a byte order mark is no part of a file', async () => {
  const path = folder()
  for (const name of ['c.json', 'c.yaml']) {
    writeFileSync(join(path, name), '\uFEFF{"port": 1}')
    expect(toData(await readConfigFile(join(path, name), {}, new Secrets()))).toEqual({ port: 1 })
  }
})

test('a YAML bomb is refused before it goes off', async () => {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
  for (let i = 1; i < 12; i++) lines.push(`a${i}: &a${i} [${`*a${i - 1}, `.repeat(9)}]`)
  expect((await problemsIn('yaml', lines.join('\n')))[0]).toContain('more than 20000 values')
})

test('all problems are listed at once, in the order of their lines', async () => {
  const text = `port: none\nprot: 1\nhost: ${variable('A')}${variable('B')}\nroutes:\n  - {plugin: 5, url: x}\n`
  const problems = await problemsIn('yaml', text)
  expect(problems.map((problem) => problem.split(': ').slice(0, 2).join(': '))).toEqual([
    '1:7: port',
    '2:1: prot',
    '3:7: the environment variable A is not set',
    '3:7: the environment variable B is not set',
    '5:14: routes[0].plugin',
    '5:22: routes[0].url',
  ])
})

test('relative paths are relative to the file, and URLs and names stay', async () => {
  const text = `
    cacheFolder: cache
    plugins: {mine: {source: ./mine.wasm, links: {a: a.wasm, b: https://example.com/b.wasm}}}
    routes:
      - {url: /a, plugin: mine, functions: f.mjs, allowedPaths: {data: /data, "ro:/etc": /etc}}
      - {url: /b, plugin: "../x.wasm#sha256=${'0'.repeat(64)}"}`
  expect(await configOf('yaml', text)).toEqual({
    cacheFolder: '/etc/wasm-serve/cache',
    plugins: {
      mine: {
        source: '/etc/wasm-serve/mine.wasm',
        links: { a: '/etc/wasm-serve/a.wasm', b: 'https://example.com/b.wasm' },
      },
    },
    routes: [
      {
        url: '/a',
        plugin: 'mine',
        functions: '/etc/wasm-serve/f.mjs',
        allowedPaths: { '/etc/wasm-serve/data': '/data', 'ro:/etc': '/etc' },
      },
      { url: '/b', plugin: `/etc/x.wasm#sha256=${'0'.repeat(64)}` },
    ],
  })
})

test('a merge key adds what a map does not have, and keys for anchors are no options', async () => {
  const text = `
    x-base: &base {timeoutMs: 5s, workers: 2, config: {a: '1'}}
    x-more: &more {workers: 3, wasi: false}
    defaults: {"<<": *more}
    plugins:
      one: {source: a.wasm, <<: *base, config: {b: '2'}}
      two: {<<: [*more, *base], source: b.wasm}`
  expect(await problemsIn('yaml', text)).toEqual([
    expect.stringContaining('4:16: defaults.<<: unknown option'),
  ])
  expect(await configOf('yaml', text.replace('"<<"', '<<'))).toEqual({
    defaults: { workers: 3, wasi: false },
    plugins: {
      one: { source: '/etc/wasm-serve/a.wasm', timeoutMs: 5_000, workers: 2, config: { b: '2' } },
      two: {
        source: '/etc/wasm-serve/b.wasm',
        ...{ timeoutMs: 5_000, workers: 3, wasi: false, config: { a: '1' } },
      },
    },
  })
})

test('sizes and times have units, and variables fill numbers and switches', async () => {
  const text = `port: ${variable('PORT')}\naccessLog: ${variable('LOG:-yes')}\ngraceMs: 2m\ndefaults: {bodyLimit: 64KiB, memoryMax: 1MiB, tool: {task: {afterMs: 5s, ttlMs: 1h}}}`
  expect(await configOf('yaml', text, { PORT: '81' })).toEqual({
    port: 81,
    accessLog: true,
    graceMs: 120_000,
    defaults: {
      ...{ bodyLimit: 65_536, memoryMax: 16 },
      tool: { task: { afterMs: 5_000, ttlMs: 3_600_000 } },
    },
  })
})

test.each([
  [`a${variable('A')}b`, 'a1b'],
  [`${variable('EMPTY')}`, ''],
  [`${variable('EMPTY:-x')}`, 'x'],
  [`${variable('NOBODY:-')}`, ''],
  [`${variable('NOBODY:-a:-b')}`, 'a:-b'],
  [`$${variable('A')} costs $5`, `${variable('A')} costs $5`],
  ['$A {A}', '$A {A}'],
])('the text %s becomes %s', (text, expected) => {
  expect(interpolate(text, { A: '1', EMPTY: '' })).toMatchObject({ text: expected, problems: [] })
})

test('what every object has is no variable', () => {
  expect(interpolate(variable('toString'), {}).problems).toEqual([
    'the environment variable toString is not set',
  ])
})

test('flags win over the environment, over the route, over its plug-in, over defaults, each key on its own', async () => {
  const path = join(folder(), 'c.yaml')
  writeFileSync(
    path,
    `port: 3
host: file
graceMs: 3
downloadLimit: 3
cacheFolder: file
downloadTimeoutMs: 3
defaults: { config: { a: defaults, b: defaults, c: defaults, d: defaults, e: defaults } }
plugins: { mine: { source: m.wasm, config: { b: plugin, c: plugin, d: plugin, e: plugin } } }
routes:
  - plugin: mine
    config: { c: route, d: route, e: route }`,
  )
  const environment = {
    WASM_SERVE_CONFIG: '{"d":"variable","e":"variable"}',
    WASM_SERVE_PORT: '1',
    WASM_SERVE_HOST: 'variable',
    WASM_SERVE_DOWNLOAD_LIMIT: '1',
    WASM_SERVE_CACHE_FOLDER: 'variable',
  }
  const file = await readConfigFile(path, environment, new Secrets())
  const flags = ['-c', path, '--config', 'e=flag', '--port', '2', '--download-limit', '2']
  const { routes, server, load } = mergeConfig(readConfig(flags, environment), file)
  expect(routes?.map(toData)).toMatchObject([
    { config: { a: 'defaults', b: 'plugin', c: 'route', d: 'variable', e: 'flag' } },
  ])
  expect(toData(server)).toMatchObject({ port: 2, host: 'variable', graceMs: 3 })
  expect(toData(load)).toMatchObject({ downloadLimit: 2, cacheFolder: 'variable', downloadTimeoutMs: 3 })
})

test('a file that cannot be read is named with the reason', async () => {
  const path = folder()
  const file = (name: string, bytes: string | Uint8Array) => {
    writeFileSync(join(path, name), bytes)
    return join(path, name)
  }
  const refused = async (name: string, reason: RegExp) =>
    expect(readConfigFile(name, {}, new Secrets())).rejects.toMatchObject({
      code: 'WASM_SERVE_CONFIG_UNREADABLE',
      message: expect.stringMatching(reason),
    })
  await refused(join(path, 'none.yaml'), /no such file/)
  await refused(file('config.ini', ''), /must end in \.json, \.yaml/)
  await refused(file('utf16.json', Buffer.from('\uFEFF{}', 'utf16le')), /not UTF-8/)
  await refused(file('huge.yaml', 'a'.repeat(262_145)), /larger than 262144/)
  await refused('/dev/zero/c.yaml', /no such file/)
})

test('the config file of a folder is found, and of two none is chosen', () => {
  const path = folder()
  expect(findConfigFile(path)).toBeUndefined()
  writeFileSync(join(path, 'wasm-serve.yml'), '')
  expect(findConfigFile(path)).toBe('wasm-serve.yml')
  writeFileSync(join(path, 'wasm-serve.json'), '')
  expect(() => findConfigFile(path)).toThrowError(
    expect.objectContaining({ code: 'WASM_SERVE_CONFIG_UNREADABLE' }),
  )
})

test('routes at one URL may differ in their methods or hosts', async () => {
  const text = `routes:
    - { plugin: a.wasm, method: GET }
    - { plugin: a.wasm, method: [PUT, POST] }
    - { plugin: a.wasm, method: GET, host: example.com }`
  expect(await problemsIn('yaml', text)).toEqual([])
})

test('variables stand for threads, methods and contracts too, and paths of functions are relative to the file', async () => {
  const text = `defaults:
  workers: ${variable('THREADS')}
  method: ${variable('METHOD')}
  contract: ${variable('CONTRACT')}
  functions: host.mjs`
  const secrets = new Secrets()
  const environment = { THREADS: '3', METHOD: 'DELETE', CONTRACT: 'simplism' }
  expect(await configOf('yaml', text, environment, secrets)).toEqual({
    defaults: { workers: 3, method: 'DELETE', contract: 'simplism', functions: '/etc/wasm-serve/host.mjs' },
  })
  expect(secrets.hide('3 DELETE simplism')).toBe('3 DELETE simplism')
  expect(await configOf('yaml', text, { ...environment, THREADS: 'auto' })).toMatchObject({
    defaults: { workers: 'auto' },
  })
})

test('variables of addresses and URLs are shown, and those of passwords and of keys with such names are not', async () => {
  const value = (name: string) => `value-of-${name.toLowerCase()}`
  const names = ['LISTEN', 'PASSWORD', 'HOST_KEY', 'URL_KEY']
  const environment = {
    ...Object.fromEntries(names.map((name) => [name, value(name)])),
    ...{ PLACE: '/place', AGENTS: '/agents' },
  }
  const text = JSON.stringify({
    host: variable('LISTEN'),
    mcp: { url: variable('AGENTS') },
    fleet: { url: `redis://user:${variable('PASSWORD')}@redis` },
    defaults: { config: { host: variable('HOST_KEY') }, headers: { url: variable('URL_KEY') } },
    routes: [{ url: variable('PLACE'), plugin: 'a.wasm' }],
  })
  const secrets = new Secrets()
  await configOf('json', text, environment, secrets)
  expect(secrets.hide(Object.values(environment).join(' '))).toBe(
    [value('LISTEN'), ...names.slice(1).map(variable), '/place', '/agents'].join(' '),
  )
})

test('a long file is read in a thread while the process serves, with the same values and problems', async () => {
  const path = join(folder(), 'c.yaml')
  const routes = Array.from({ length: 300 }, (_, index) => `  - { plugin: hello.wasm, url: /r${index} }\n`)
  const read = (isServing: boolean) => readConfigFile(path, {}, new Secrets(), undefined, isServing)
  writeFileSync(path, `port: 1\nroutes:\n${routes.join('')}`)
  expect(await read(true)).toEqual(await read(false))
  writeFileSync(path, `port: [\nroutes:\n${routes.join('')}`)
  const refused = await read(false).catch((error: unknown) => error)
  expect(refused).toMatchObject({ code: 'WASM_SERVE_CONFIG_INVALID' })
  await expect(read(true)).rejects.toEqual(refused)
})

test.each<[what: string, format: ConfigFormat, most: number, make: (levels: number) => string]>([
  ['lists in JSON', 'json', 32, (n) => `{"x-a": ${'['.repeat(n)}${']'.repeat(n)}}`],
  ['objects in JSON', 'json', 32, (n) => `${'{"x-a":'.repeat(n)}1${'}'.repeat(n)}`],
  ['lists in YAML', 'yaml', 32, (n) => `x-a: ${'['.repeat(n)}${']'.repeat(n)}`],
  ['maps in YAML', 'yaml', 32, (n) => `${'{x-a: '.repeat(n)}1${'}'.repeat(n)}`],
  [
    'lines in YAML',
    'yaml',
    32,
    (n) => Array.from({ length: n }, (_, at) => `${' '.repeat(at)}x-a:`).join('\n'),
  ],
  [
    'aliases, each of which counts as a level,',
    'yaml',
    16,
    (n) =>
      Array.from({ length: n }, (_, at) =>
        at === 0 ? 'x-0: &a0 [1]' : `x-${at}: &a${at} [*a${at - 1}]`,
      ).join('\n'),
  ],
])('%s may be inside each other, but not more than 32 levels', async (_, format, most, make) => {
  const isTooDeep = async (levels: number) =>
    (await problemsIn(format, make(levels))).some((each) => each.includes('32 levels'))
  expect([await isTooDeep(most), await isTooDeep(most + 1)]).toEqual([false, true])
})
