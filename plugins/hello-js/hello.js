/** Greets whoever the input names. */
// biome-ignore lint/correctness/noUnusedVariables: src/lib.rs calls it.
function hello(name) {
  return JSON.stringify({ message: `🦀 Hello ${name}` })
}
