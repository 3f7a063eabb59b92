/** Greets whoever the body names. Each exported function is served. */
export function hello(name = 'World'): { message: string } {
  return { message: `Hello, ${name}!` }
}
