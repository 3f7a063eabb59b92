/** Greets whoever the body names. Each exported function is served. */
export function hello(name = 'World') {
  return { message: `Hello, ${name}!` }
}
