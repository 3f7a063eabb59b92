import { describeHttpGuest } from '../support/http-guest.ts'
import {
  buildPlugin,
  describeCountVowels,
  describeHello,
  describeSteadyCountVowels,
  describeSteadyHello,
} from '../support/pdk.ts'

const hello = await buildPlugin('hello-go', 'target/hello.wasm')
const countVowels = await buildPlugin('count-vowels-go', 'target/count-vowels.wasm')
const http = await buildPlugin('http-go', 'target/http.wasm')

describeHello('hello-go', hello)
describeCountVowels('count-vowels-go', countVowels)
describeSteadyHello('hello-go', hello)
describeSteadyCountVowels('count-vowels-go', countVowels)
describeHttpGuest('http-go', http)
