/** Greets whoever the input names. src/lib.rs calls it. */
function hello(name) {
  return JSON.stringify({ message: `🦀 Hello ${name}` })
}
