import { Type } from 'typebox'
import { countOption, ms, option, withDefault } from './option.ts'

/** Options of a route: streams and WebSockets. */
export const connectionOptions = {
  streamBuffer: option(
    { edit: true, guest: false },
    withDefault(
      Type.Integer({
        unit: 'bytes',
        minimum: 16_384,
        maximum: 67_108_864,
        default: 262_144,
        description: 'Bytes that the server buffers in each direction of a stream; then the sender waits.',
      }),
    ),
  ),
  streamTimeoutMs: option(
    { edit: true, guest: false },
    ms('Maximum time of a streamed exchange, in ms; then 504.', 3_600_000),
  ),
  streamIdleMs: option(
    { edit: true, guest: false },
    ms('Maximum time that a guest waits for bytes of the client, in ms; then 408.', 30_000),
  ),
  sseHeartbeatMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms('Interval of comments in an idle event stream (SSE), in ms. 0: none.', 0, 0),
  ),
  websocketPer: option(
    { edit: true, guest: false },
    Type.Optional(
      Type.Enum(['message', 'connection'], {
        description:
          'One call per message or per connection. Default: connection if the plug-in imports ws_receive. (websocket)',
      }),
    ),
  ),
  websocketMax: option(
    { reach: 'answer', edit: true, guest: false },
    countOption('Maximum number of open connections; further ones get 503. (websocket)', 1_000),
  ),
  websocketPingMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms(
      'Interval of pings, in ms. A client that does not reply is disconnected. 0: none. (websocket)',
      30_000,
      0,
    ),
  ),
  websocketIdleMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms('Time without messages after which a connection is closed, in ms. 0: never. (websocket)', 0, 0),
  ),
  websocketOrigins: option(
    { flag: false, reach: 'answer', edit: true },
    withDefault(
      Type.Array(Type.String({ minLength: 1 }), {
        default: [],
        description:
          'Origins of web pages that may connect, `*` for all. Default: the same host. (websocket)',
      }),
    ),
  ),
  websocketProtocols: option(
    { flag: false, reach: 'answer', edit: true },
    withDefault(
      Type.Array(
        Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", hint: 'must be a token, such as chat.v1' }),
        {
          default: [],
          description: 'Subprotocols. The first one that the client offers is used. (websocket)',
        },
      ),
    ),
  ),
}
