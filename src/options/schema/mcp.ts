import { Type } from 'typebox'
import { key, only, option, rate, words } from './option.ts'

/** The MCP endpoint. It may be given without `enabled`, which exists for the flag. */
export const mcpSettings = only({
  enabled: option(
    { flag: 'mcp' },
    Type.Optional(
      Type.Boolean({ description: 'Serve routes as tools for agents (MCP). Default: true with `mcp`.' }),
    ),
  ),
  url: Type.Optional(
    Type.String({
      pattern: '^/[^:*?#\\s]*$',
      hint: 'must begin with /, without parameters and query, such as /mcp',
      public: true,
      description: 'URL of the MCP endpoint. Default: /mcp.',
    }),
  ),
  toolsOnly: Type.Optional(
    Type.Boolean({ description: 'Serve tools only at the MCP endpoint. Default: false.' }),
  ),
  hosts: option(
    { flag: false },
    Type.Optional(words('Host names of the MCP endpoint, besides `localhost` and IP addresses.')),
  ),
  origins: option(
    { flag: false },
    Type.Optional(words('Origins of web pages that may use the endpoint. Default: those of this machine.')),
  ),
  name: option(
    { flag: false },
    Type.Optional(
      Type.String({ minLength: 1, description: 'Server name for clients. Default: wasm-serve.' }),
    ),
  ),
  title: option(
    { flag: false },
    Type.Optional(Type.String({ minLength: 1, description: 'Server title for people.' })),
  ),
  version: option(
    { flag: false },
    Type.Optional(Type.String({ minLength: 1, description: 'Server version. Default: that of wasm-serve.' })),
  ),
  instructions: option(
    { flag: false },
    Type.Optional(Type.String({ minLength: 1, description: 'Instructions for models about the tools.' })),
  ),
  access: option(
    { flag: false },
    Type.Optional(
      Type.Array(
        only({
          key: Type.Optional(key('An API key.')),
          scope: Type.Optional(
            Type.String({
              pattern: '^[!#-\\[\\]-~]+$',
              hint: 'must be a scope of OAuth, without spaces',
              description: 'A scope of the token. Entries without key and scope apply to every client.',
            }),
          ),
          tools: words('Tool names. `*` matches any characters.'),
        }),
        { minItems: 1, description: 'Tools that clients may use, by API key or scope. Default: all.' },
      ),
    ),
  ),
  resource: option(
    { flag: false },
    Type.Optional(
      Type.String({
        pattern: '^https?://[^#?"\\s]+$',
        hint: 'must be an http or https URL without query and fragment',
        description: 'Public URL of the MCP endpoint. (RFC 9728)',
      }),
    ),
  ),
  authorizationServers: option(
    { flag: false },
    Type.Optional(words('URLs of token issuers, for the metadata. Requires `jwt`. (RFC 9728)')),
  ),
  stateSecret: option(
    { flag: false },
    Type.Optional(
      key(
        'Key that seals the state of questions to clients. Use the same on all nodes. Default: a random one.',
      ),
    ),
  ),
  audit: option(
    { flag: false },
    Type.Optional(
      Type.Enum(['off', 'calls', 'arguments'], {
        description:
          'Log each call, including refused ones; `arguments`: with its arguments. Default: calls.',
      }),
    ),
  ),
  redactArguments: option(
    { flag: false },
    Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description:
          'Arguments whose values the log hides. Default: password, secret, token, apiKey, authorization.',
      }),
    ),
  ),
  rateLimit: option(
    { flag: false },
    rate(
      'messages per client',
      'Rate limit per API key, token subject or address; further messages get 429.',
    ),
  ),
  pageSize: option(
    { flag: false },
    Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000, description: 'Tools per page of a list. Default: 100.' }),
    ),
  ),
  ttlMs: option(
    { flag: false },
    Type.Optional(
      Type.Integer({
        unit: 'ms',
        minimum: 0,
        maximum: 2_147_483_647,
        description: 'Time for which clients may cache lists, in ms. Default: 60000.',
      }),
    ),
  ),
  bodyLimit: option(
    { flag: false },
    Type.Optional(
      Type.Integer({
        unit: 'bytes',
        minimum: 1,
        description: 'Maximum size of a message, in bytes. Default: 1048576.',
      }),
    ),
  ),
})
