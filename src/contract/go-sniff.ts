/** Bytes that Go looks at. */
const SNIFFED = 512

/** How HTML begins, for Go: one of these tags and then a space or `>`. */
const HTML =
  /^[\t\n\f\r ]*(?:<(?:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P|!--)[ >])/i

const XML = /^[\t\n\f\r ]*<\?xml/

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const BINARY = /[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]/

/**
 * The content type that Go's `http.DetectContentType` finds for a text that names none: HTML, XML, text, or bytes if
 * there are control characters in it. (Go also knows formats that are no text.)
 */
export function sniffType(text: Uint8Array): string {
  const start = Buffer.from(text.subarray(0, SNIFFED)).toString('latin1')
  if (HTML.test(start)) return 'text/html; charset=utf-8'
  if (XML.test(start)) return 'text/xml; charset=utf-8'
  return BINARY.test(start) ? 'application/octet-stream' : 'text/plain; charset=utf-8'
}
