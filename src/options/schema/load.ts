import { Type } from 'typebox'
import { LIMIT_NAMES, type ModuleLimits } from '../../module/limits.ts'
import { bytes, countOption, ms, only, option, pemFile, withDefault, words } from './option.ts'

/** Options of the command: how plug-ins are loaded. */
export const loadSchema = only({
  cacheFolder: option(
    { reach: 'load' },
    Type.Optional(
      Type.String({
        minLength: 1,
        holds: 'path',
        description: 'Cache folder of downloads and checked modules. Default: ~/.cache/wasm-serve.',
      }),
    ),
  ),
  downloadLimit: option({ reach: 'load' }, bytes('Maximum size of a download, in bytes.', 268_435_456)),
  downloadTimeoutMs: option({ reach: 'load' }, ms('Time limit of a download, in ms.', 30_000)),
  pullPolicy: option(
    { reach: 'load' },
    Type.Optional(
      Type.Enum(['IfNotPresent', 'Always', 'Never'], {
        description:
          'When to pull from registries: Always, IfNotPresent or Never. Default: Always for the tag `latest`, otherwise IfNotPresent.',
      }),
    ),
  ),
  registryPollMs: Type.Optional(
    Type.Integer({
      minimum: 1_000,
      maximum: 2_147_483_647,
      unit: 'ms',
      description: 'Interval of checking registry tags, in ms. Default: 60000 with `watch`, otherwise never.',
    }),
  ),
  registries: option(
    { flag: 'registry', entries: 'registries', reach: 'load' },
    withDefault(
      Type.Record(
        Type.String({ pattern: '^[a-z\\d.:\\[\\]-]+$' }),
        Type.Object(
          {
            insecure: Type.Optional(
              Type.Boolean({
                description: 'Use http. Default: only for a registry on this machine.',
              }),
            ),
            ca: Type.Optional(
              pemFile('Certificate authority (PEM) of the registry. Default: those of Node.js.'),
            ),
          },
          { additionalProperties: false },
        ),
        {
          additionalProperties: false,
          hint: 'must be HOST or HOST:PORT in lower case, without a scheme',
          default: {},
          description: 'Registries by `HOST` or `HOST:PORT`: `insecure`, `ca`.',
        },
      ),
    ),
  ),
  trust: option(
    { entries: 'keys', reach: 'load' },
    withDefault(
      Type.Record(
        Type.String({ minLength: 1 }),
        Type.Object(
          {
            keys: Type.Optional(
              Type.Array(pemFile('Public key (PEM) of a signer.'), {
                minItems: 1,
                description: 'Files with public keys (PEM), one of which must have signed.',
              }),
            ),
            issuer: Type.Optional(
              Type.String({ minLength: 1, description: 'Issuer of the identity of a keyless signature.' }),
            ),
            identity: Type.Optional(
              Type.String({
                minLength: 1,
                description: 'Identity of a keyless signature, which may end in `*`. (@sigstore/verify)',
              }),
            ),
            trustedRoot: Type.Optional(
              Type.String({
                minLength: 1,
                holds: 'path',
                description: 'Trusted root of Sigstore (JSON), for keyless signatures.',
              }),
            ),
            attestations: Type.Optional(words('Predicate types of required attestations, such as an SBOM.')),
          },
          { additionalProperties: false },
        ),
        {
          default: {},
          description:
            'Who may sign plug-ins, by prefix of repository or URL; `*`: all others. The longest prefix applies.',
        },
      ),
    ),
  ),
  requireSignatures: option(
    { reach: 'load' },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Reject plug-ins without a trusted signature or, for files and URLs, a pinned digest.',
      }),
    ),
  ),
  maxFunctions: option(
    { reach: 'load' },
    countOption('Maximum number of functions that a plug-in serves if none is named.', 100),
  ),
  moduleLimits: option(
    { flag: 'module-limit', entries: 'numbers', reach: 'load' },
    withDefault(
      Type.Unsafe<ModuleLimits>({
        type: 'object',
        properties: Object.fromEntries(LIMIT_NAMES.map((name) => [name, { type: 'integer', minimum: 0 }])),
        additionalProperties: false,
        default: {},
        description: 'Overrides of module limits: name to number.',
      }),
    ),
  ),
  allowGc: option(
    { reach: 'load' },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Load plug-ins with garbage-collected types, whose memory has no limit.',
      }),
    ),
  ),
})
