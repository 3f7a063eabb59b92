/**
 * The text of a member of a JSON object, as it was written; of several with one name that of the last, which is the one
 * that `JSON.parse` takes.
 *
 * @param json - Text that `JSON.parse` has read as an object.
 * @returns nothing if there is no such member.
 */
export function memberText(json: string, name: string): string {
  let found = ''
  let depth = 0
  let key: unknown
  let begin = 0
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case '"': {
        const end = endOfString(json, at)
        if (depth === 1 && key === undefined) key = JSON.parse(json.slice(at, end))
        at = end - 1
        break
      }
      case ':':
        if (depth === 1) begin = at + 1
        break
      case '{':
      case '[':
        depth++
        break
      case '}':
      case ']':
        depth--
        if (depth === 0 && key === name) found = json.slice(begin, at)
        break
      case ',':
        if (depth > 1) break
        if (key === name) found = json.slice(begin, at)
        key = undefined
    }
  }
  return found.trim()
}

/** Where the string that begins there is over. */
function endOfString(json: string, begin: number): number {
  for (let at = begin + 1; at < json.length; at++) {
    if (json[at] === '\\') at++
    else if (json[at] === '"') return at + 1
  }
  return json.length
}
