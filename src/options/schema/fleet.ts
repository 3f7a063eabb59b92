import { Type } from 'typebox'
import { only, option } from './option.ts'

/** The fleet of a node. */
export const fleetSettings = only({
  url: option(
    { flag: 'fleet' },
    Type.String({
      pattern: '^rediss?(?:\\+sentinel)?://.',
      hint: 'must be redis://HOST, rediss://HOST or redis+sentinel://HOST:PORT/PRIMARY',
      description:
        'Redis or Valkey with the desired state of the nodes: `redis://HOST`, `rediss://HOST` or `redis+sentinel://HOST:PORT,.../PRIMARY`.',
    }),
  ),
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
      hint: 'must have at most 64 letters, digits, dots, dashes and underscores',
      description: 'Name of the fleet. Several can use the same server. Default: default.',
    }),
  ),
  node: Type.Optional(
    Type.String({
      pattern: '^[^\\s\\x00-\\x1f\\x7f]{1,128}$',
      hint: 'must have at most 128 characters, without spaces',
      description: 'Name of this node. Default: host name and port.',
    }),
  ),
  keyPrefix: option(
    { flag: false },
    Type.Optional(
      Type.String({
        pattern: '^[^{}\\s]{0,100}$',
        hint: 'must have at most 100 characters, without spaces and braces',
        description: 'Prefix of all keys. Default: `wasm-serve:`.',
      }),
    ),
  ),
  pollMs: Type.Optional(
    Type.Integer({
      minimum: 50,
      maximum: 3_600_000,
      unit: 'ms',
      description: 'Interval of polling for the current revision, in ms. Default: 2000.',
    }),
  ),
  canaryNodes: Type.Optional(
    Type.Integer({
      minimum: 1,
      description: 'Number of nodes that serve a new revision first. Default: all.',
    }),
  ),
  canaryPercent: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 99,
      description: 'Share of canary nodes, in percent, rounded up.',
    }),
  ),
  canaryMs: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 604_800_000,
      unit: 'ms',
      description: 'Time for which only canary nodes serve a new revision, in ms. Default: 60000.',
    }),
  ),
  maxRefusals: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: 'Number of nodes that may refuse a revision before its rollout stops. Default: 0.',
    }),
  ),
  onRefusals: Type.Optional(
    Type.Enum(['stop', 'rollback'], {
      description: 'If more nodes refuse: stop, or roll back to the previous revision. Default: stop.',
    }),
  ),
  history: option(
    { flag: false },
    Type.Optional(
      Type.Integer({
        minimum: 5,
        maximum: 1_000,
        description: 'Number of revisions to keep. Default: 20.',
      }),
    ),
  ),
  allow: option(
    { flag: false },
    Type.Optional(
      Type.Object(
        {
          functions: Type.Optional(
            Type.Array(Type.String({ minLength: 1, holds: 'path' }), {
              description: 'Modules of host functions.',
            }),
          ),
          paths: Type.Optional(
            Type.Array(Type.String({ minLength: 1, holds: 'folder' }), {
              description: 'Folders, other files, and sources of links. Prefix `ro:`: read-only.',
            }),
          ),
          env: Type.Optional(
            Type.Array(
              Type.String({
                pattern: '^[A-Za-z_]\\w*$',
                hint: 'must be the name of a variable',
              }),
              { description: 'Environment variables, except `WASM_SERVE_*` and `OTEL_*`.' },
            ),
          ),
          processes: Type.Optional(
            Type.Array(Type.String({ minLength: 1 }), { description: 'Groups of processes (`process`).' }),
          ),
        },
        {
          additionalProperties: false,
          description:
            'What the shared configuration may use on this node: `functions`, `paths`, `env`, `processes`. Default: nothing.',
        },
      ),
    ),
  ),
  moduleMax: option(
    { flag: false },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 0,
        description:
          'Maximum size of a stored module, in bytes. Larger ones require a registry. Default: 33554432.',
      }),
    ),
  ),
})
