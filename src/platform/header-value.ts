/** Whether a name and a text can be sent as a header; Node's own check puts the value, maybe secret, into its error. */
export function isHeader(name: string, value: string): boolean {
  return name.length < 256 && /^[\w!#$%&'*+.^`|~-]+$/.test(name) && isHeaderValue(value)
}

/** Whether a text can be sent as a header's value. */
export function isHeaderValue(value: string): boolean {
  return value.length < 16_384 && /^[\t -~\x80-\xff]*$/.test(value)
}
