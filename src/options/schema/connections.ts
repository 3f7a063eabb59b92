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
        description: 'Bytes of a stream that the server keeps in each direction; then the sender waits.',
      }),
    ),
  ),
  streamTimeoutMs: option(
    { edit: true, guest: false },
    ms('Maximum time of an exchange whose guest streams, in ms; then 504.', 3_600_000),
  ),
  streamIdleMs: option(
    { edit: true, guest: false },
    ms('Maximum time in which a client sends nothing while the guest reads, in ms; then 408.', 30_000),
  ),
  sseHeartbeatMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms('Interval of comments in an idle stream of events (SSE), in ms. 0: none.', 0, 0),
  ),
  websocketPer: option(
    { edit: true, guest: false },
    Type.Optional(
      Type.Enum(['message', 'connection'], {
        description:
          'Whether a call answers a message or serves a connection. Default: connection if the plug-in imports ws_receive. (websocket)',
      }),
    ),
  ),
  websocketMax: option(
    { reach: 'answer', edit: true, guest: false },
    countOption('Maximum number of open connections of the route. Further ones get 503. (websocket)', 1_000),
  ),
  websocketPingMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms(
      'Interval of pings, in ms. A client that has not answered the last one is disconnected. 0: none. (websocket)',
      30_000,
      0,
    ),
  ),
  websocketIdleMs: option(
    { reach: 'answer', edit: true, guest: false },
    ms('Time without a message after which a connection is closed, in ms. 0: no limit. (websocket)', 0, 0),
  ),
  websocketOrigins: option(
    { flag: false, reach: 'answer', edit: true },
    withDefault(
      Type.Array(Type.String({ minLength: 1 }), {
        default: [],
        description:
          'Origins of web pages that may connect, `*` for all. Default: only pages of the same host. (websocket)',
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
          description: 'Subprotocols; the first one that the client offers is chosen. (websocket)',
        },
      ),
    ),
  ),
}
