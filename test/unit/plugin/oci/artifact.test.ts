import { createHash } from 'node:crypto'
import * as zlib from 'node:zlib'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { COMPANIONS, findModule } from '../../../../src/plugin/oci/artifact.ts'
import { manifestWithModule } from '../../../../src/plugin/oci/artifact-manifest.ts'
import { parseManifest } from '../../../../src/plugin/source/manifest.ts'
import { MemoryRegistry, type WrittenDescriptor } from '../../../support/artifact.ts'
import { guestBytes } from '../../../support/guest.ts'
import { tarOf, type WrittenEntry } from '../../../support/tar.ts'

const REPOSITORY = { registry: 'registry.example', repository: 'team/hello' }
const LIMITS = { downloadLimit: 1_000_000 }
const MODULE = guestBytes('echo')
const OTHER = guestBytes('upper')
const COMPONENT = Uint8Array.from([0, 97, 115, 109, 13, 0, 1, 0])

const CNCF = 'application/vnd.wasm.config.v0+json'
const EMPTY = 'application/vnd.oci.empty.v1+json'
const IMAGE = 'application/vnd.oci.image.config.v1+json'
const TAR = 'application/vnd.oci.image.layer.v1.tar'
const WASM = 'application/wasm'

const find = (registry: MemoryRegistry, { digest }: WrittenDescriptor, options = {}) =>
  findModule(registry, REPOSITORY, digest, { ...LIMITS, ...options })

const refused = (registry: MemoryRegistry, descriptor: WrittenDescriptor, text = '', options = {}) =>
  expect(find(registry, descriptor, options)).rejects.toMatchObject({
    code: 'WASM_SERVE_ARTIFACT_UNSUPPORTED',
    message: expect.stringContaining(text),
  })

/** An artifact with layers of these types and bytes. */
function artifact(
  config: string,
  ...layers: readonly (readonly [type: string, bytes: Uint8Array, title?: string])[]
) {
  const registry = new MemoryRegistry()
  const descriptors = layers.map(([type, bytes, title]) => {
    const annotations = title === undefined ? {} : { 'org.opencontainers.image.title': title }
    return registry.add(type, bytes, { annotations })
  })
  return [registry, registry.addArtifact(config, descriptors)] as const
}

/** An image with a layer for each list of entries. */
const image = (...layers: readonly (readonly WrittenEntry[])[]) =>
  artifact(IMAGE, ...layers.map((entries) => [TAR, tarOf(...entries)] as const))

describe('the shape', () => {
  const toml = ['text/toml', Buffer.from('x')] as const
  test.each([
    ['cncf', artifact(CNCF, [WASM, MODULE])],
    ['oras', artifact(EMPTY, [WASM, MODULE, 'plugin.wasm'])],
    ['oras', artifact('application/vnd.any+json', toml, [WASM, MODULE], [TAR, tarOf()])],
    ['oras', artifact(EMPTY, [WASM, gzipSync(MODULE)])],
    [
      'legacy',
      artifact('application/vnd.wasm.config.v1+json', ['application/vnd.wasm.content.layer.v1+wasm', MODULE]),
    ],
    ['legacy', artifact(EMPTY, ['application/vnd.module.wasm.content.layer.v1+wasm', MODULE])],
    ['image', image([{ name: 'plugin.wasm', content: MODULE }])],
    ['image', image([{ name: './opt/my.wasm', content: MODULE }], [{ name: 'readme', content: 'x' }])],
    [
      'image',
      image([
        { name: 'a.wasm', content: OTHER },
        { name: 'b/plugin.wasm', content: MODULE },
      ]),
    ],
    ['image', artifact(IMAGE, [`${TAR}+gzip`, gzipSync(tarOf({ name: 'plugin.wasm', content: MODULE }))])],
    [
      'image',
      artifact(IMAGE, [
        'application/vnd.docker.image.rootfs.diff.tar.gzip',
        gzipSync(tarOf({ name: 'plugin.wasm', content: MODULE })),
      ]),
    ],
    ['image', artifact(EMPTY, [TAR, MODULE, 'plugin.wasm'])],
    ['oras', artifact(EMPTY, ['Application/Wasm; charset=binary', MODULE])],
    ['oras', artifact(EMPTY, ['application/wasm+gzip', gzipSync(MODULE)])],
    ['oras', artifact(EMPTY, ['application/octet-stream', MODULE, 'Hello.WASM'], ['text/plain', OTHER])],
    ['oras', artifact(EMPTY, [WASM, MODULE], ['application/octet-stream', OTHER, 'data.wasm'])],
    ['image', artifact(EMPTY, [TAR, MODULE, 'hello.wasm'], [TAR, Buffer.from('# read me\n'), 'README.md'])],
    ['image', artifact(EMPTY, [TAR, Buffer.alloc(2_000, 'text '), 'a.md'], [TAR, MODULE, 'hello.wasm'])],
    ['image', artifact(EMPTY, [TAR, MODULE, 'hello.wasm'], [TAR, new Uint8Array(), '.keep'])],
    ['image', artifact(EMPTY, [TAR, MODULE, 'hello.wasm'], ['text/markdown', OTHER, 'README.md'])],
    [
      'image',
      artifact(
        'application/vnd.helm.plugin.v1+json',
        [TAR, gzipSync(tarOf({ name: 'plugin.wasm', content: MODULE })), 'hello-1.0.0.tgz'],
        [TAR, Buffer.from('-----BEGIN PGP SIGNED MESSAGE-----\n'.repeat(40)), 'hello-1.0.0.tgz.prov'],
      ),
    ],
    ['image', artifact(EMPTY, [`${TAR}+gzip`, gzipSync(MODULE)])],
  ])('%s is recognised (%#)', async (shape, [registry, manifest]) => {
    const found = await find(registry, manifest)
    expect(found).toMatchObject({
      shape,
      manifestDigest: manifest.digest,
      manifest: undefined,
      smoke: undefined,
    })
    expect(Buffer.compare(found.bytes, MODULE)).toBe(0)
  })

  const { zstdCompressSync } = zlib as { zstdCompressSync?: (bytes: Uint8Array) => Buffer }
  test('of an image packed with zstd is read where Node.js has zstd, and refused elsewhere', async () => {
    const layer = tarOf({ name: 'plugin.wasm', content: MODULE })
    const packed = zstdCompressSync?.(layer) ?? Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0])
    const [registry, manifest] = artifact(IMAGE, [`${TAR}+zstd`, packed])
    if (zstdCompressSync) expect(await find(registry, manifest)).toMatchObject({ shape: 'image' })
    else await refused(registry, manifest, 'zstd')
  })
})

describe('an artifact is refused', () => {
  test.each<[string, readonly [MemoryRegistry, WrittenDescriptor], string]>([
    [
      'with two modules',
      artifact(EMPTY, [WASM, MODULE, 'a.wasm'], [WASM, OTHER, 'b.wasm']),
      'a.wasm, b.wasm',
    ],
    [
      'with two layers in the layout of the CNCF',
      artifact(CNCF, [WASM, MODULE], ['text/toml', OTHER]),
      'text/toml',
    ],
    ['without layers', artifact(EMPTY), EMPTY],
    ['with an unknown layer', artifact(EMPTY, ['text/\u001b[2jx', MODULE]), 'text/\\u001b[2jx'],
    ['that is a component', artifact(CNCF, [WASM, COMPONENT]), 'component'],
    ['that is no module', artifact(CNCF, [WASM, Buffer.from('<html>')]), 'HTML'],
    ['that is an archive named a module', artifact(CNCF, [WASM, gzipSync(tarOf())]), 'not a WebAssembly'],
    ['that is empty', artifact(CNCF, [WASM, new Uint8Array()]), 'empty'],
    ['whose image has no module', image([{ name: 'readme' }]), 'no .wasm'],
    ['whose image has two', image([{ name: 'a.wasm' }], [{ name: 'b.wasm' }]), 'a.wasm, b.wasm'],
    [
      'whose image has two of the name',
      image([{ name: 'a/plugin.wasm' }, { name: 'plugin.wasm' }]),
      'plugin.wasm',
    ],
    ['whose module is a link', image([{ name: 'plugin.wasm', type: '2' }]), 'link'],
    [
      'whose module is a hard link',
      image([
        { name: 'a', content: MODULE },
        { name: 'plugin.wasm', type: '1' },
      ]),
      'link',
    ],
    [
      'whose image has an unknown layer',
      artifact(IMAGE, [TAR, tarOf()], ['application/x', MODULE]),
      'application/x',
    ],
    ['whose image has a component', image([{ name: 'plugin.wasm', content: COMPONENT }]), 'component'],
    [
      'whose image has a path that leads out of it',
      image([{ name: '../plugin.wasm', content: MODULE }]),
      '".."',
    ],
    [
      'whose layer is an archive that is cut off, with the name of the layer',
      artifact(
        IMAGE,
        [TAR, MODULE, 'a.wasm'],
        [TAR, tarOf({ name: 'b', content: MODULE }).subarray(0, 600), 'b.tar'],
      ),
      'b.tar: its archive is cut off',
    ],
    [
      'whose layer is neither an archive nor a module',
      artifact(IMAGE, [TAR, Buffer.from('text')]),
      'cut off',
    ],
    ['with files only', artifact(EMPTY, [TAR, Buffer.from('text'), 'README.md']), 'README.md'],
    [
      'with two modules that are only named so',
      artifact(
        EMPTY,
        ['application/octet-stream', MODULE, 'a.wasm'],
        ['application/octet-stream', OTHER, 'b.wasm'],
      ),
      'a.wasm, b.wasm',
    ],
    ['whose image has an empty layer', artifact(IMAGE, [TAR, new Uint8Array()]), 'empty'],
    [
      'whose image has too many modules',
      image(Array.from({ length: 65 }, (_, i) => ({ name: `${i}.wasm` }))),
      '64',
    ],
  ])('%s', (_name, [registry, manifest], text) => refused(registry, manifest, text))

  test('whose layers are larger than the limit together, before they are fetched', async () => {
    const [registry, manifest] = image([{ name: 'a' }], [{ name: 'plugin.wasm', content: MODULE }])
    await refused(registry, manifest, 'download-limit', { downloadLimit: 2_048 })
    expect(registry.requests).toEqual([manifest.digest])
  })

  test('that unpacks to more than the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(3_000_000))
    await refused(...artifact(EMPTY, [WASM, bomb]), 'unpacks')
    await refused(
      ...artifact(IMAGE, [TAR, gzipSync(tarOf({ name: 'x', content: Buffer.alloc(3_000_000) }))]),
      'unpacks',
    )
    expect(await find(...artifact(CNCF, [WASM, gzipSync(MODULE)]), { unpackedLimit: 10_000 })).toBeDefined()
  })

  test('with a message of bounded length', async () => {
    const layers = Array.from({ length: 100 }, (_, i) => [`${'x'.repeat(250)}${i}`, MODULE] as const)
    const [registry, manifest] = artifact(EMPTY, ...layers)
    const error: Error = await find(registry, manifest).then(
      () => new Error(),
      (error) => error,
    )
    expect(error.message).toContain('and 93 more')
    expect(error.message.length).toBeLessThan(1_200)
  })
})

describe('the layers of an image', () => {
  const at = (name: string, content: Uint8Array | string = '') => ({ name, content })

  test.each<[string, readonly (readonly WrittenEntry[])[]]>([
    ['replace files below', [[at('plugin.wasm', OTHER)], [at('plugin.wasm', MODULE)]]],
    ['remove files below', [[at('a/other.wasm')], [at('b.wasm', MODULE)], [at('a/.wh.other.wasm')]]],
    ['remove folders below', [[at('a/b/plugin.wasm')], [at('.wh.a'), at('c/plugin.wasm', MODULE)]]],
    [
      'hide a folder below, and not their own',
      [[at('a/x.wasm')], [at('a/y.wasm', MODULE), at('a/.wh..wh..opq')]],
    ],
    ['hide all below', [[at('x.wasm')], [at('.wh..wh..opq'), at('y.wasm', MODULE)]]],
    ['replace a folder by a file', [[at('a/x.wasm')], [at('a'), at('y.wasm', MODULE)]]],
    ['replace a file by a folder', [[at('a.wasm')], [{ name: 'a.wasm', type: '5' }, at('y.wasm', MODULE)]]],
    ['do not treat whiteouts as modules', [[at('.wh.x.wasm'), at('y.wasm', MODULE)]]],
  ])('%s', async (_name, layers) => {
    const { bytes } = await find(...image(...layers))
    expect(Buffer.compare(bytes, MODULE)).toBe(0)
  })
})

describe('of an index', () => {
  const platform = (os: string, architecture: string) => ({ platform: { os, architecture } })

  /** An index with an artifact for each of these descriptions. The chosen one must have the module. */
  function indexOf(...described: readonly object[]) {
    const registry = new MemoryRegistry()
    const manifests = described.map((more, index) => {
      const bytes = index === 0 ? MODULE : OTHER
      return { ...registry.addArtifact(EMPTY, [registry.add(WASM, bytes)]), ...more }
    })
    return [registry, registry.addDocument({ manifests }), manifests] as const
  }

  const attestation = platform('unknown', 'unknown')
  const marked = {
    ...platform('linux', 'amd64'),
    annotations: { 'vnd.docker.reference.type': 'attestation-manifest' },
  }

  test.each([
    ['wasm is taken', [platform('wasip1', 'wasm'), platform('linux', 'amd64')]],
    ['wasi is taken', [platform('wasi', 'any'), platform('linux', 'amd64')]],
    ['the only one is taken', [platform('windows', 'arm64'), attestation, marked]],
    ['the only one is taken, without a platform', [{}, attestation]],
    ['linux/amd64 is taken', [platform('linux', 'amd64'), platform('linux', 'arm64')]],
    [
      'the first of two variants is taken',
      [
        { platform: { os: 'linux', architecture: 'amd64', variant: 'v1' } },
        { platform: { os: 'linux', architecture: 'amd64', variant: 'v2' } },
      ],
    ],
    ['the first of equal platforms is taken', [platform('linux', 'arm64'), platform('linux', 'arm64')]],
    ['the only one is taken, with an empty platform', [{ platform: {} }, attestation]],
    ['the only one is taken, without a platform as Go writes it', [{ platform: null, artifactType: null }]],
  ])('%s', async (_name, described) => {
    const [registry, index, manifests] = indexOf(...described)
    const found = await find(registry, index)
    expect(found.manifestDigest).toBe(manifests[0]?.digest)
    expect(Buffer.compare(found.bytes, MODULE)).toBe(0)
  })

  test.each([
    ['nothing is taken from an empty one', [], 'none'],
    ['no attestation is taken', [attestation, marked], 'none'],
    [
      'it must be clear which',
      [platform('linux', 'arm64'), platform('windows', 'amd64')],
      'linux/arm64, windows/amd64',
    ],
    ['two without a platform may be two plug-ins', [{}, { platform: {} }], 'any/any, any/any'],
    ['wasm must be there once', [platform('wasip1', 'wasm'), platform('wasip2', 'wasm')], 'wasip2/wasm'],
    ['another kind of document is refused', [{ mediaType: 'text/plain' }], 'text/plain'],
  ])('%s', async (_name, described, text) => {
    const [registry, index] = indexOf(...described)
    await refused(registry, index, text)
  })

  /** A manifest below indexes, each of which is the only one of the next, beside an attestation. */
  function nested(depth: number, mediaType: string) {
    const registry = new MemoryRegistry()
    const manifest = registry.addArtifact(EMPTY, [registry.add(WASM, MODULE)])
    let top = manifest
    for (let index = 0; index < depth; index++)
      top = registry.addDocument({
        manifests: [
          { ...manifest, ...attestation },
          { ...top, mediaType },
        ],
      })
    return { registry, manifest, top }
  }

  test.each([
    'index',
    'manifest',
  ])('an index in it is followed, if it says that it is an %s', async (kind) => {
    const { registry, manifest, top } = nested(3, `application/vnd.oci.image.${kind}.v1+json`)
    const found = await find(registry, top)
    expect(found.manifestDigest).toBe(manifest.digest)
    expect(Buffer.compare(found.bytes, MODULE)).toBe(0)
  })

  test('no more than three are followed', async () => {
    const { registry, top } = nested(4, 'application/vnd.oci.image.index.v1+json')
    await refused(registry, top, 'more than 3 indexes')
  })
})

describe('what travels with a module', () => {
  const TYPE = 'application/vnd.extism.manifest.v1+json'

  test.each([
    ['manifest', 'dev.wasm-serve.extism-manifest', TYPE],
    ['xtpSchema', 'dev.wasm-serve.xtp-schema', 'application/vnd.xtp.schema.v1+yaml'],
    ['smoke', 'dev.wasm-serve.smoke', 'application/vnd.wasm-serve.smoke.v1+json'],
  ])('as %s is an annotation %s, or an artifact of type %s', async (companion, annotation, type) => {
    const registry = new MemoryRegistry()
    const layer = registry.add(WASM, MODULE)
    const annotated = registry.addArtifact(EMPTY, [layer], { annotations: { [annotation]: 'annotated' } })
    expect(await find(registry, annotated)).toMatchObject({ [companion]: 'annotated' })
    const [other, referred] = artifact(CNCF, [WASM, MODULE])
    other.addReferrer(referred, type, Buffer.from('referring'))
    const found = await find(other, referred, { acceptReferrer: async () => true })
    expect(found).toMatchObject({ [companion]: 'referring' })
  })

  test('is in annotations of the manifest', async () => {
    const registry = new MemoryRegistry()
    const layer = registry.add(WASM, MODULE, {
      annotations: { 'org.opencontainers.image.title': 'x', both: 'layer' },
    })
    const annotations = {
      [COMPANIONS.manifest.annotation]: '{}',
      [COMPANIONS.xtpSchema.annotation]: 'version: v1',
      [COMPANIONS.smoke.annotation]: '{"body":"x"}',
      both: 'manifest',
      ['__proto__']: 'text',
    }
    const found = await find(registry, registry.addArtifact(EMPTY, [layer], { annotations }))
    expect(found).toMatchObject({ manifest: '{}', xtpSchema: 'version: v1', smoke: '{"body":"x"}' })
    expect(Object.entries(found.annotations)).toContainEqual(['both', 'manifest'])
    expect(Object.entries(found.annotations)).toContainEqual(['org.opencontainers.image.title', 'x'])
  })

  test('is not in annotations of the layer', async () => {
    const registry = new MemoryRegistry()
    const annotations = { [COMPANIONS.manifest.annotation]: '{}' }
    const layer = registry.add(WASM, MODULE, { annotations })
    expect((await find(registry, registry.addArtifact(EMPTY, [layer]))).manifest).toBeUndefined()
  })

  test('is in a referrer only if the caller accepts that', async () => {
    const [registry, manifest] = artifact(CNCF, [WASM, MODULE])
    registry.addReferrer(manifest, TYPE, Buffer.from('{"config":{}}'))
    registry.addReferrer(manifest, 'application/vnd.other', Buffer.from('other'))
    expect((await find(registry, manifest)).manifest).toBeUndefined()
    expect(registry.requests).not.toContain(`referrers ${manifest.digest}`)
    expect((await find(registry, manifest, { acceptReferrer: async () => false })).manifest).toBeUndefined()
    const asked: unknown[] = []
    const acceptReferrer = async ({ artifactType }: { artifactType?: string }) => asked.push(artifactType) > 0
    expect((await find(registry, manifest, { acceptReferrer })).manifest).toBe('{"config":{}}')
    expect(asked).toEqual([TYPE])
  })

  test('is in an annotation rather than in a referrer', async () => {
    const registry = new MemoryRegistry()
    const annotations = { [COMPANIONS.manifest.annotation]: '{}' }
    const manifest = registry.addArtifact(CNCF, [registry.add(WASM, MODULE)], { annotations })
    registry.addReferrer(manifest, TYPE, Buffer.from('other'))
    expect((await find(registry, manifest, { acceptReferrer: async () => true })).manifest).toBe('{}')
  })

  test.each<[string, (registry: MemoryRegistry, manifest: WrittenDescriptor) => void, string]>([
    [
      'several are accepted',
      (registry, manifest) => {
        registry.addReferrer(manifest, TYPE, Buffer.from('a'))
        registry.addReferrer(manifest, TYPE, Buffer.from('b'))
      },
      'several',
    ],
    [
      'very many are offered',
      (registry, manifest) => {
        for (let i = 0; i < 17; i++) registry.addReferrer(manifest, TYPE, Buffer.from(`${i}`))
      },
      'more than 16',
    ],
    [
      'it refers to another manifest',
      (registry, manifest) => {
        const other = registry.addArtifact(EMPTY, [])
        registry.addReferrer(other, TYPE, Buffer.from('a'), manifest)
      },
      'does not refer to it',
    ],
    [
      'it is not text',
      (registry, manifest) => registry.addReferrer(manifest, TYPE, Buffer.from([0xff])),
      'not UTF-8',
    ],
  ])('is refused if %s', async (_name, prepare, text) => {
    const [registry, manifest] = artifact(CNCF, [WASM, MODULE])
    prepare(registry, manifest)
    await refused(registry, manifest, text, { acceptReferrer: async () => true })
  })

  test('is refused if it is larger than a MiB', async () => {
    const [registry, manifest] = artifact(CNCF, [WASM, MODULE])
    registry.addReferrer(manifest, TYPE, Buffer.alloc(1_048_577))
    const code = 'WASM_SERVE_DOWNLOAD_TOO_LARGE'
    await expect(find(registry, manifest, { acceptReferrer: async () => true })).rejects.toMatchObject({
      code,
    })
  })
})

describe('the Extism manifest of an artifact', () => {
  const place = { name: 'artifact', base: new URL('https://registry.example/') }
  const parse = (manifest: object) =>
    parseManifest(manifestWithModule(JSON.stringify(manifest), MODULE, 'artifact'), place)

  test('has the module in place of "plugin.wasm"', () => {
    const hash = createHash('sha256').update(MODULE).digest('hex')
    const { modules, config } = parse({
      wasm: [
        { path: 'plugin.wasm', name: 'main', hash },
        { url: 'https://example.com/lib.wasm', name: 'lib' },
      ],
      config: { key: 'value' },
    })
    expect(modules[0]).toEqual({ name: 'main', digest: hash, from: { kind: 'bytes', bytes: MODULE } })
    expect(modules[1]?.name).toBe('lib')
    expect(config).toEqual({ key: 'value' })
  })

  test.each([
    ['no module', { wasm: [] }],
    ['no list of modules', { config: {} }],
    ['the module twice', { wasm: [{ path: 'plugin.wasm' }, { path: 'plugin.wasm', name: 'x' }] }],
    ['another file', { wasm: [{ path: 'plugin.wasm' }, { path: '/etc/passwd', name: 'x' }] }],
    ['only another file', { wasm: [{ path: './plugin.wasm' }] }],
    ['a folder of the host', { wasm: [{ path: 'plugin.wasm' }], allowed_paths: { '/etc': '/etc' } }],
    ['the module and a URL', { wasm: [{ path: 'plugin.wasm', url: 'https://example.com/x.wasm' }] }],
  ])('is refused with %s', (_name, manifest) => {
    expect(() => parse(manifest)).toThrow(expect.objectContaining({ code: 'WASM_SERVE_MANIFEST_INVALID' }))
  })

  test.each(['', '{', 'null', '[]', '1'])('is refused if it is %j', (text) => {
    expect(() => manifestWithModule(text, MODULE, 'x')).toThrow(
      expect.objectContaining({ code: 'WASM_SERVE_MANIFEST_INVALID' }),
    )
  })
})
