/** Bytes of a page of WebAssembly memory. */
export const PAGE_BYTES = 65_536

/**
 * Limits on the parts of a guest's answers and requests that the event loop parses. Anything larger is refused or cut
 * before it is parsed. That keeps an answer below 5 ms a MiB. `outputLimit` bounds an answer as a whole.
 */
export const GUEST_LIMITS = {
  /** Maximum nesting of non-empty arrays and objects in an answer of the contracts `http` and `simplism`. */
  jsonDepth: 1_000,
  /** Number of all non-empty arrays and objects: each takes as long as ten other bytes. */
  jsonParts: 500_000,
  /** Fields of such an answer. `http` knows four; `simplism` ignores unknown ones. */
  jsonFields: 64,
  /** Bytes of a field's name as written: no contract knows a longer one, even if it consists of escapes. */
  jsonFieldName: 128,
  /** Header lines of such an answer: names, or values where a name has several. */
  headerLines: 256,
  /** Bytes of their names and values: the limit of Node's own clients. */
  headerBytes: 16_384,
  /** Bytes of the headers' JSON, with its white space and escapes. */
  headerJsonBytes: 65_536,
  /** Bytes of a text with invalid UTF-8, where a contract replaces it: that takes ten times as long as valid text. */
  replacedBytes: 262_144,
  /** Bytes of the message with which a guest fails; the rest is cut. */
  errorBytes: 65_536,
  /** Characters of a line that a guest logs; the rest is cut. */
  logLine: 8_192,
  /** Lines that a call may log; the others are counted, and the count is logged. */
  logLines: 100,
  /** Bytes of the JSON of a request to another server: URL and headers, for which servers have lower limits. */
  httpJsonBytes: 65_536,
  /** Headers of such a request. */
  httpHeaders: 256,
  /** Characters of its URL. */
  httpUrl: 16_384,
  /** Streamed requests of a call at the same time. */
  httpStreams: 16,
  /** Streamed requests of a call in total: each takes time of the event loop. */
  httpStreamsTotal: 1_024,
} as const
