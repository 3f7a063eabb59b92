import {
  describeCountVowels,
  describeHello,
  describeSteadyCountVowels,
  describeSteadyHello,
  pluginFile,
} from './support/pdk.ts'

const hello = (folder: string) => pluginFile(folder, 'hello.wasm')
const countVowels = (folder: string) => pluginFile(folder, 'count-vowels.wasm')

for (const folder of ['hello', 'hello-tinygo', 'hello-assemblyscript', 'hello-c', 'hello-zig']) {
  describeHello(folder, hello(folder))
}

for (const folder of ['count-vowels-rust', 'count-vowels-tinygo']) {
  describeCountVowels(folder, countVowels(folder))
}

for (const folder of ['hello', 'hello-tinygo']) {
  describeSteadyHello(folder, hello(folder))
}

for (const folder of ['count-vowels-rust', 'count-vowels-tinygo']) {
  describeSteadyCountVowels(folder, countVowels(folder))
}
