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
        description:
          'Folder of the caches: downloads, and modules that were checked. Default: ~/.cache/wasm-serve.',
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
          'When plug-ins are pulled from registries. Default: Always for the tag `latest`, else IfNotPresent.',
      }),
    ),
  ),
  registryPollMs: Type.Optional(
    Type.Integer({
      minimum: 1_000,
      maximum: 2_147_483_647,
      unit: 'ms',
      description:
        'Interval at which tags of registries are followed, in ms. Default: 60000 with `watch`, else never.',
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
                description: 'Use http. Without it, only a registry on this machine may use http.',
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
                description: 'Identity of a keyless signature; it may end in `*`. (@sigstore/verify)',
              }),
            ),
            trustedRoot: Type.Optional(
              Type.String({
                minLength: 1,
                holds: 'path',
                description: 'Trusted root of Sigstore (JSON), for keyless signatures.',
              }),
            ),
            attestations: Type.Optional(
              words('Predicate types of attestations that a signer must have made too, such as an SBOM.'),
            ),
          },
          { additionalProperties: false },
        ),
        {
          default: {},
          description:
            'Who may sign plug-ins, by prefix of repository or URL, `*`: all others. The longest prefix counts.',
        },
      ),
    ),
  ),
  requireSignatures: option(
    { reach: 'load' },
    withDefault(
      Type.Boolean({
        default: false,
        description:
          'Refuse plug-ins that have neither a trusted signature nor, for files and URLs, a pinned digest.',
      }),
    ),
  ),
  maxFunctions: option(
    { reach: 'load' },
    countOption('Maximum number of functions of a plug-in that are served when none is named.', 100),
  ),
  moduleLimits: option(
    { flag: 'module-limit', entries: 'numbers', reach: 'load' },
    withDefault(
      Type.Unsafe<ModuleLimits>({
        type: 'object',
        properties: Object.fromEntries(LIMIT_NAMES.map((name) => [name, { type: 'integer', minimum: 0 }])),
        additionalProperties: false,
        default: {},
        description: 'Overrides of the limits on what the compiler accepts: name to number.',
      }),
    ),
  ),
  allowGc: option(
    { reach: 'load' },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Load plug-ins with garbage-collected types, which no memory limit covers.',
      }),
    ),
  ),
})
