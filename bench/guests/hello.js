export function hello() {
  Host.outputString(JSON.stringify({ message: `🦀 Hello ${Host.inputString()}` }))
}
