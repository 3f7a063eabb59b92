import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseOciManifest } from '../../../../src/plugin/oci/oci-manifest.ts'
import { runs } from '../../../support/runs.ts'

const digest = `sha256:${'0'.repeat(64)}`
const config = { mediaType: 'x', digest, size: 1 }
const valid = { schemaVersion: 2, config, layers: [] }
const index = { schemaVersion: 2, manifests: [config] }

const parse = (document: unknown) => parseOciManifest(Buffer.from(JSON.stringify(document)))

describe('a manifest of OCI is refused', () => {
  test.each<[string, unknown, named: string]>([
    ['that is not an object', [], 'its manifest is not an object'],
    ['of another version', { ...valid, schemaVersion: 1 }, 'schemaVersion'],
    ['that is an index, too', { ...valid, manifests: [] }, 'either "manifests"'],
    ['that is an index with a config', { ...index, config }, 'either "manifests"'],
    ['that is an index with layers', { ...index, layers: [] }, 'either "manifests"'],
    ['that is neither', { schemaVersion: 2 }, 'either "manifests"'],
    [
      'with the media type of an index',
      { ...valid, mediaType: 'application/vnd.oci.image.index.v1+json' },
      'mediaType',
    ],
    [
      'that is an index with the media type of a manifest',
      { ...index, mediaType: 'application/vnd.oci.image.manifest.v1+json' },
      'mediaType',
    ],
    ['with another digest', { ...valid, config: { ...config, digest: 'sha512:00' } }, 'digest of config'],
    [
      'with a digest in upper case',
      { ...valid, config: { ...config, digest: digest.replace(/0$/, 'A') } },
      'digest of config',
    ],
    ['with a negative size', { ...valid, config: { ...config, size: -1 } }, 'size of config'],
    ['with a fraction as size', { ...valid, config: { ...config, size: 0.5 } }, 'size of config'],
    ['with a size of text', { ...valid, config: { ...config, size: '1' } }, 'size of config'],
    ['with a media type that is no text', { ...valid, mediaType: { toString: 1 } }, 'mediaType'],
    [
      'without a media type',
      { ...valid, config: { ...config, mediaType: undefined } },
      'mediaType of config',
    ],
    [
      'with a long media type',
      { ...valid, config: { ...config, mediaType: 'x'.repeat(256) } },
      'mediaType of config',
    ],
    ['with an artifact type that is no text', { ...valid, artifactType: 1 }, 'artifactType is not'],
    ['without a config', { ...valid, config: undefined }, 'config is not an object'],
    ['with layers that are no list', { ...valid, layers: {} }, '"layers" is not a list'],
    ['with a layer that is no descriptor', { ...valid, layers: [config, 1] }, 'layers[1] is not an object'],
    ['with too many layers', { ...valid, layers: Array(128).fill(config) }, '"layers" has more than 127'],
    ['with annotations that are no text', { ...valid, annotations: { a: 1 } }, 'annotations have a value'],
    [
      'with a layer whose annotations are no text',
      { ...valid, layers: [{ ...config, annotations: { a: 1 } }] },
      'annotations of layers[0] have a value',
    ],
    [
      'with a platform of no text',
      { ...index, manifests: [{ ...config, platform: { os: 1 } }] },
      'platform of manifests[0]',
    ],
    [
      'with an architecture of no text',
      { ...index, manifests: [{ ...config, platform: { os: 'linux', architecture: 1 } }] },
      'platform of manifests[0]',
    ],
    [
      'with a platform that is no object',
      { ...index, manifests: [{ ...config, platform: 'linux' }] },
      'platform of manifests[0]',
    ],
    [
      'with an artifact type in a descriptor that is no text',
      { ...index, manifests: [{ ...config, artifactType: 1 }] },
      'artifactType of manifests[0]',
    ],
    ['with a subject that is no descriptor', { ...valid, subject: {} }, 'digest of subject'],
    ['with manifests that are no list', { ...index, manifests: 1 }, '"manifests" is not a list'],
    [
      'with too many manifests',
      { ...index, manifests: Array(1_001).fill(config) },
      '"manifests" has more than 1000',
    ],
  ])('%s', (_name, document, named) => {
    expect(parse(document)).toEqual({ kind: 'invalid', problem: expect.stringContaining(named) })
  })

  test.each([
    ['', 'line 1'],
    ['{', 'line 1'],
    ['\xff', 'UTF-8'],
  ])('that is %j', (text, named) => {
    expect(parseOciManifest(Buffer.from(text, 'latin1'))).toEqual({
      kind: 'invalid',
      problem: expect.stringContaining(named),
    })
  })

  test('whatever JSON it is, without an exception', () => {
    const part = fc.oneof(fc.constant(config), fc.constant([config]), fc.jsonValue())
    const keys = ['schemaVersion', 'mediaType', 'manifests', 'layers', 'config', 'annotations', 'subject']
    const model = Object.fromEntries(
      keys.map((key) => [key, key === 'schemaVersion' ? fc.constant(2) : part]),
    )
    fc.assert(
      fc.property(fc.record(model, { requiredKeys: [] }), (document) => {
        expect(['manifest', 'index', 'invalid']).toContain(parse(document).kind)
      }),
      { numRuns: runs(200) },
    )
  })
})

test.each([
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
])('%s is a manifest', (mediaType) => {
  expect(parse({ ...valid, mediaType })).toMatchObject({ kind: 'manifest' })
})

test.each([
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
])('%s is an index', (mediaType) => {
  expect(parse({ ...index, mediaType })).toMatchObject({ kind: 'index' })
})

test('null, which Go writes, is what is not there', () => {
  const nothing = { artifactType: null, annotations: null }
  const layer = { ...config, ...nothing, platform: null, size: 0 }
  expect(parse({ ...valid, ...nothing, subject: null, layers: [layer] })).toMatchObject({
    kind: 'manifest',
    subject: undefined,
    artifactType: undefined,
    layers: [{ artifactType: undefined, platform: undefined, size: 0 }],
  })
})

test('a platform may name one of its parts, or none', () => {
  const platforms = [{ os: 'linux' }, { architecture: 'wasm' }, {}]
  const manifests = platforms.map((platform) => ({ ...config, platform }))
  expect(parse({ ...index, manifests })).toMatchObject({
    manifests: [
      { platform: { os: 'linux', architecture: '' } },
      { platform: { os: '', architecture: 'wasm' } },
      { platform: undefined },
    ],
  })
})

test('layers, manifests and a media type that just reach their limits are read', () => {
  const mediaType = `${'a'.repeat(127)}/${'b'.repeat(127)}`
  const layers = Array(127).fill({ ...config, mediaType })
  expect(parse({ ...valid, layers })).toMatchObject({ layers })
  expect(parse({ ...index, manifests: Array(1_000).fill(config) })).toMatchObject({ kind: 'index' })
})
