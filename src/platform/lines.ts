/**
 * The lines of a text that arrives in pieces. The interface of `node:readline` does not fit texts such as JSON: on Node.js 24 it also
 * ends lines at U+2028 and U+2029, which are characters like others there.
 */
export async function* linesOf(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const piece of pieces) {
    const [end = '', ...further] = piece.split('\n')
    rest += end
    for (const next of further) {
      yield rest
      rest = next
    }
  }
  if (rest !== '') yield rest
}
