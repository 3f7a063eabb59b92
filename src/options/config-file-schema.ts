import { loadSchema, routeSchema, serverSchema } from './options-schema.ts'
import { type Schema, schemasOf } from './schema.ts'

/*
 * The schema of a config file: the options of the server, of loading and of routes, and their inheritance. An option
 * that is added to those schemas is also one of the file.
 */

const routeOptionSchemas = inFile(schemasOf(routeSchema))
const { url: _url, plugin: _plugin, function: _function, ...shared } = routeOptionSchemas
const { routes: _routes, ...server } = inFile(schemasOf(serverSchema))

export const configFileSchema: Schema = closedObject({
  $schema: { type: 'string', description: 'URL of the schema of this file, for editors.' },
  ...server,
  ...schemasOf(loadSchema),
  defaults: { ...closedObject(shared), description: 'Options of all routes.' },
  plugins: {
    type: 'object',
    examples: [{ hello: { source: 'hello.wasm' } }],
    description: 'Plug-ins by name. Without `routes` each is served at `/<name>`.',
    additionalProperties: {
      ...closedObject({
        source: {
          type: 'string',
          minLength: 1,
          holds: 'source',
          description: 'Path or URL of a `.wasm`, JavaScript or TypeScript file, or of an Extism manifest.',
        },
        exports: {
          type: 'array',
          items: { type: 'string', minLength: 1 },
          minItems: 1,
          uniqueItems: true,
          description:
            'Functions to serve, each at its name below the plug-in. Default: all. Not with `routes`.',
        },
        ...shared,
      }),
      required: ['source'],
      examples: [{ source: 'hello.wasm' }],
    },
  },
  routes: {
    type: 'array',
    minItems: 1,
    examples: [[{ url: '/hello', plugin: 'hello.wasm' }]],
    description: 'The routes. Their options win over those of the plug-in, which win over `defaults`.',
    items: { ...closedObject(routeOptionSchemas), required: ['plugin'] },
  },
})

/** The schema of a member of a map. */
export function schemaAt(key: string, schema: Schema | undefined): Schema | undefined {
  const { properties = {}, patternProperties = {}, additionalProperties } = schema ?? {}
  if (Object.hasOwn(properties, key)) return properties[key]
  const [ofAll] = Object.values(patternProperties)
  return ofAll ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined)
}

/** Options in the form of the file: a plug-in may be a name, and functions are excluded. */
function inFile(options: Readonly<Record<string, Schema>>): Record<string, Schema> {
  const inJson = Object.entries(options).filter(([, { callHook }]) => !callHook)
  return Object.fromEntries(
    inJson.map(([name, schema]) => {
      if (name === 'plugin') {
        const description = 'A name of `plugins`, or the path or URL of a plug-in.'
        return [name, { type: 'string', minLength: 1, holds: 'source', description }]
      }
      const { hostFunctions, nameOrContract, ...rest } = schema
      if (hostFunctions) return [name, { ...rest, type: 'string', minLength: 1, holds: 'path' }]
      return [name, nameOrContract ? { ...rest, type: 'string', enum: nameOrContract } : schema]
    }),
  )
}

function closedObject(properties: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', additionalProperties: false, properties }
}
