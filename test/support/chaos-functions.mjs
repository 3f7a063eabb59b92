/** Host functions for zoo.wat: they end the thread or fill its heap, as the input says. */
export default {
  env: {
    relay(context, input) {
      if (context.read(input).text().startsWith('H die')) process.exit(1)
      for (const all = []; ; ) all.push(new Array(1e4).fill(0.5)) // larger pieces Node.js cannot refuse: the process would end
    },
  },
}
